"""The sources of a job: files of one format, a Delta table by its location, or a table of Spark's catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

Format = Literal["csv", "json", "parquet", "avro", "delta", "table"]
FORMATS: tuple[str, ...] = get_args(Format)

DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # A file with a header whose types are found out is what people mean by a CSV; each can be overruled. A line with
    # too few or too many values fails although no query asks for them, and so does a file with another header.
    "csv": {
        "header": "true",
        "inferSchema": "true",
        "mode": "FAILFAST",
        "enforceSchema": "false",
        "columnPruning": "false",
    },
    "json": {"mode": "FAILFAST"},
    # Columns of all files, not of the first one found; two types for one column are an error.
    "parquet": {"mergeSchema": "true"},
}

NOT_LINES = frozenset({"multiline", "encoding", "charset", "linesep", "singlevariantcolumn"})
"""Options of JSON with which a file is not a text of one object a line in UTF-8."""


@dataclass(frozen=True, slots=True)
class Source:
    """What to read."""

    format: Format
    paths: Sequence[str]
    """Files, folders or globs, local or `s3://`; for `delta` one location, for `table` one name."""

    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader."""

    schema: str | None = None
    """A DDL schema such as `id bigint, day date`; None: found out from the files."""


def spark_path(path: str) -> str:
    """Return a path as Hadoop wants it: `s3://` and `s3n://` are read by the s3a file system."""
    scheme, separator, rest = path.partition("://")
    return f"s3a://{rest}" if separator and scheme in {"s3", "s3n"} else path


def catalog_location(location: str) -> str:
    """Return a location as the catalog spells it: `s3://` and no slash at its end, so that one table has one lease."""
    scheme, separator, rest = location.partition("://")
    spelled = f"s3://{rest}" if separator and scheme in {"s3", "s3a", "s3n"} else location
    return spelled.rstrip("/")


def read(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source's rows (lazily); raises `PipelineError` when the source names no or too many things."""
    if not source.paths:
        raise PipelineError("nothing to read: give at least one file, folder or table.")
    if source.format in {"delta", "table"} and len(source.paths) > 1:
        raise PipelineError(f"a source of format {source.format} is one table, not {len(source.paths)}.")
    if source.format == "table":
        return spark.read.options(**source.options).table(source.paths[0])
    if source.format == "delta":
        return spark.read.format("delta").options(**source.options).load(spark_path(source.paths[0]))
    return _files(spark, source, spark.read)


def follow(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source as a stream: files with a schema that have come, or the commits of a Delta table."""
    if source.format == "delta":
        return spark.readStream.format("delta").options(**source.options).load(spark_path(source.paths[0]))
    if len(source.paths) > 1:
        raise PipelineError("a stream of files has one path: give a glob.")
    return _files(spark, source, spark.readStream)


def _files(spark: "SparkSession", source: Source, reader: "DataFrameReader | DataStreamReader") -> "DataFrame":
    """Read files so that what does not fit their declared schema is an error, and never a null."""
    from pyspark.sql import types

    options = {**DEFAULTS.get(source.format, {}), **source.options}
    paths: Any = [spark_path(path) for path in source.paths]
    paths = paths[0] if len(paths) == 1 else paths
    if not source.schema:
        return reader.format(source.format).options(**options).load(paths)
    declared = cast("StructType", types.DataType.fromDDL(source.schema))
    if source.format == "json" and not NOT_LINES & {name.lower() for name in source.options}:
        rows = _json(reader.format("text").options(**options).load(paths), declared, options)
    else:
        if source.format in {"parquet", "avro"}:
            found = spark.read.format(source.format).options(**options).load(paths).schema.names
            _refuse_drift(found, declared)
        rows = reader.format(source.format).options(**options).schema(source.schema).load(paths)
    for required in (column.name for column in declared.fields if not column.nullable):
        absent = literal(f"{required} is null or missing in a source, whose schema says NOT NULL")
        rows = rows.where(f"CASE WHEN {quoted(required)} IS NULL THEN raise_error({absent}) ELSE true END")
    return rows


def _json(lines: "DataFrame", declared: "StructType", options: Mapping[str, str]) -> "DataFrame":
    """Read a JSON object a line and refuse fields that nobody declared, which Spark's reader leaves out."""
    from pyspark.sql import functions

    names = ", ".join(literal(field.name) for field in declared.fields)
    unknown = f"array_except(json_object_keys(value), array({names}))"
    told = f"raise_error(concat('fields that the schema does not have: ', array_join({unknown}, ', ')))"
    rows = lines.where("trim(value) <> ''").where(f"CASE WHEN size({unknown}) > 0 THEN {told} ELSE true END")
    return rows.select(functions.from_json("value", declared, dict(options)).alias("row")).select("row.*")


def _refuse_drift(found: Sequence[str], declared: "StructType") -> None:
    there, wanted = {name.lower() for name in found}, {name.lower() for name in declared.names}
    if there != wanted:
        more, less = (", ".join(sorted(names)) or "none" for names in (there - wanted, wanted - there))
        raise PipelineError(f"the files' columns are not the schema's: more than it has: {more}; missing: {less}.")
