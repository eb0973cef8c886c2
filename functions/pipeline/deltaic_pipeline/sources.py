"""The sources of a job: files of one format, a Delta table by its location, or a table of Spark's catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from deltaic_pipeline.failures import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["csv", "json", "parquet", "delta", "table"]
FORMATS: tuple[str, ...] = get_args(Format)

DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # A file with a header whose types are found out is what people mean by a CSV; each can be overruled.
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}


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
    reader = spark.read.format(source.format).options(**{**DEFAULTS.get(source.format, {}), **source.options})
    if source.schema:
        reader = reader.schema(source.schema)
    paths = [spark_path(path) for path in source.paths]
    return reader.load(paths[0] if len(paths) == 1 else paths)
