"""Describe what clients cannot read of a table, or read wrongly, by its columns and table features."""

from collections.abc import Iterator

from deltaic.delta.features import (
    COLUMN_MAPPING,
    TYPE_WIDENING,
    VARIANT_SHREDDING,
    change_data_enabled,
    live_features,
    supported_features,
)
from deltaic.errors import DeltaicError

from deltaic_ops.inspection.shared_schema import SharedSchema

_UNSUPPORTED_IN_FOLDERS = frozenset({TYPE_WIDENING, VARIANT_SHREDDING, "vacuumProtocolCheck"})
_SAFE_IN_PATHS = ("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date")
_NESTED = ("array<", "map<", "struct<")


def unsupported_in_folders(schema: SharedSchema) -> frozenset[str]:
    """Return the features of a table that deltalake and polars cannot read from its folder."""
    return supported_features(schema.protocol) & _UNSUPPORTED_IN_FOLDERS


def is_odd(path: str) -> bool:
    """Return whether a path has a space or a non-ASCII letter, which some clients encode wrongly."""
    return " " in path or not path.isascii()


def folder_limits(schema: SharedSchema) -> Iterator[str]:
    """Yield limitations for recipients with credentials for the table's folder (deltalake 1.6, polars 2.1)."""
    if is_odd(schema.location):
        yield (
            f"deltalake and polars get 403 for '{schema.location}', whose path has a space or a non-ASCII letter: "
            "move the table, or add access mode url"
        )
    if COLUMN_MAPPING in live_features(schema.protocol, schema.metadata):
        yield (
            "the table uses column mapping: to_pyarrow_table and to_pandas of deltalake silently return nulls, "
            "and polars rejects the table; QueryBuilder of deltalake reads it"
        )
        if schema.metadata.partition_columns:
            yield (
                "delta_scan of DuckDB silently returns nulls in the partition columns of a table with column mapping: "
                "query the rows of deltalake's QueryBuilder with DuckDB"
            )
    if unsupported := unsupported_in_folders(schema):
        yield f"deltalake and polars cannot read {', '.join(sorted(unsupported))}: add access mode url"
    partitions = sorted(schema.metadata.partition_columns)
    if odd := [name for name in partitions if not schema.types.get(name, "").startswith(_SAFE_IN_PATHS)]:
        yield (
            f"values of {', '.join(odd)} may put a space or a non-ASCII letter into paths, and polars does not "
            "find such files; QueryBuilder of deltalake does"
        )


def iceberg_refusal(schema: SharedSchema) -> str:
    """Return the reason why Iceberg clients cannot read a table with this schema; empty if they can."""
    from deltaic.iceberg.table_schema import iceberg_schema

    try:
        iceberg_schema(schema.metadata)
    except DeltaicError as refusal:
        return refusal.message
    return ""


def iceberg_limits(schema: SharedSchema) -> Iterator[str]:
    """Yield why Iceberg clients cannot read a table, or where they return nulls without an error.

    The latter concerns pyiceberg-core 0.11 and ClickHouse 26.9.
    """
    if refusal := iceberg_refusal(schema):
        yield refusal
        return
    is_mapped = COLUMN_MAPPING in live_features(schema.protocol, schema.metadata)
    nested = [] if is_mapped else [name for name, kind in schema.types.items() if kind.startswith(_NESTED)]
    if columns := [*schema.metadata.partition_columns, *nested]:
        yield (
            f"iceberg-rust (DataFusion, pyiceberg-core) silently returns nulls in {', '.join(columns)}: it reads "
            "neither partition values nor nested columns without field ids; pyiceberg with PyArrow does"
        )
    if is_mapped:
        yield (
            "ClickHouse silently returns nulls in renamed columns if the files were written before column mapping; "
            "pyiceberg, Spark and DuckDB read them"
        )


def history_limits(schema: SharedSchema) -> Iterator[str]:
    """Yield limitations for recipients of a table that is shared with its history."""
    if not change_data_enabled(schema.metadata):
        yield (
            "the table has no change data feed, so recipients can read earlier versions, but not changes: set the "
            "table property delta.enableChangeDataFeed to true; the feed starts with the next version"
        )
