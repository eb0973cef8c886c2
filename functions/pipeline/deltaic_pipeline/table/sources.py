"""Read the sources of a job with Spark: files, a Delta table by location, or a table in Spark's catalog."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.parse import unquote

from deltaic_pipeline.failures import FileError, PipelineError
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raise_sql, refusals
from deltaic_pipeline.table.file_schemas import refuse_no_files, refuse_other_columns, refuse_other_schemas
from deltaic_pipeline.table.malformed_rows import (
    FILE,
    FILE_PATH,
    MISFIT,
    NOT_BLANK,
    RAW,
    RECORD,
    by_lines,
    flagged_csv,
    flagged_json,
    inferred_csv,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructField, StructType

Malformed = Literal["fail", "quarantine", "drop"]
Format = Literal["csv", "json", "parquet", "avro", "delta", "table"]
FORMATS: tuple[str, ...] = get_args(Format)

DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # Usual CSV files have a header and doubled quotes (RFC 4180), and Spark infers their types; options can change each
    # of these. A file with another header fails. No file has the character U+FFFF, so that an empty text in quotes
    # stays a text, and only a missing value is null.
    "csv": {
        "header": "true",
        "inferschema": "true",
        "enforceschema": "false",
        "mode": "FAILFAST",
        "nullvalue": "\uffff",
    },
    "json": {"mode": "FAILFAST"},
    # The columns of all files, not of the first file only; two types for one column are an error.
    "parquet": {"mergeschema": "true"},
}

UNFIT = "a row does not fit the schema of its source"
"""Message of a query that fails at a row that does not fit; `explain_misfits` adds the row's file and line."""

_GLOB = re.compile(r"[\[\]{}*?\\]")
"""Characters with a special meaning in a glob."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source of rows, as a dataset file or a command line declares it."""

    format: Format
    paths: Sequence[str]
    """Files, folders or globs, local or `s3://`; for format `delta` one location, for `table` one name."""

    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """DDL schema such as `id bigint, day date`; None: inferred from the files."""

    malformed: Malformed = "fail"
    evolves: bool = False
    """Whether Parquet files can lack columns that other files have; their values are null then."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows of a source; CSV and JSON rows that do not fit the schema are flagged in column `MISFIT`."""

    flagged: "DataFrame"
    source: Source | None = None
    """Source of the rows; None for a table, whose rows all fit its schema."""

    @property
    def malformed(self) -> Malformed:
        """Treatment of rows that do not fit the schema: fail, quarantine or drop."""
        return self.source.malformed if self.source and MISFIT in self.flagged.columns else "fail"

    @property
    def rows(self) -> "DataFrame":
        """Valid rows; if `malformed` is `fail`, the first row that does not fit the schema fails the query."""
        names = [name for name in self.flagged.columns if name not in {RAW, FILE}]
        if self.source is None or MISFIT not in names:
            return self.flagged
        if self.malformed != "fail":
            return self.flagged.where(f"{MISFIT} IS NULL").drop(MISFIT, RAW, FILE)
        columns, partitions = names[: names.index(MISFIT)], names[names.index(MISFIT) + 1 :]
        unfit = f"CASE WHEN {MISFIT} IS NOT NULL THEN {raise_sql(UNFIT)} ELSE"
        # Spark must not evaluate a later condition before this one.
        if not partitions:
            return self.flagged.where(f"{unfit} monotonically_increasing_id() >= 0 END").drop(MISFIT, RAW, FILE)
        checked = f"{unfit} struct({', '.join(map(quoted, columns))}) END"
        return self.flagged.selectExpr(f"inline(array({checked}))", *map(quoted, partitions))

    def quarantine(self, name: str) -> "DataFrame":
        """Return the rows that do not fit the schema: their reasons, with the source's name, raw text and file."""
        reasons = f"transform({MISFIT}, reason -> concat({literal(f'{name}: ')}, reason)) AS _reasons"
        return self.flagged.where(f"{MISFIT} IS NOT NULL").selectExpr(reasons, f"{RAW} AS _raw", f"{FILE} AS _file")

    def misfit_message(self) -> str | None:
        """Return a message that counts the rows that do not fit the schema and locates the first; None without such."""
        if self.source is None or MISFIT not in self.flagged.columns:
            return None
        if FILE not in self.flagged.columns:
            spark = self.flagged.sparkSession
            return replace(self, flagged=_files(spark, self.source, spark.read)).misfit_message()
        rows, wrong = self.count_rows()
        if not wrong:
            return None
        least: Any = self.flagged.where(f"{MISFIT} IS NOT NULL").agg({FILE: "min"}).first()
        return f"{wrong:,} of {rows:,} rows do not fit the schema, the first is {self._first(self.source, least[0])}"

    def _first(self, source: Source, file: str) -> str:
        """Return file, line and reasons of the first row in a file that does not fit the schema."""
        from pyspark.sql import types

        session = self.flagged.sparkSession.newSession()
        session.conf.set("spark.sql.files.maxPartitionBytes", str(2**60))
        session.conf.set("spark.sql.files.minPartitionNum", "1")
        path, names = unquote(file), self.flagged.columns
        declared = {field.name.lower(): field for field in _declared(source)}
        columns = [
            declared.get(field.name.lower(), field) for field in self.flagged.schema.fields[: names.index(MISFIT)]
        ]
        single_file = replace(source, paths=[_GLOB.sub(r"\\\g<0>", path)], schema=types.StructType(columns).toDDL())
        numbered = read(session, single_file).flagged.selectExpr("monotonically_increasing_id() AS number", MISFIT)
        row = numbered.where(f"{MISFIT} IS NOT NULL").first()
        shown_path = path.removeprefix("file:")
        return (
            f"{shown_path}{_line(session, single_file, row.number)}: {'; '.join(row[MISFIT])}"
            if row
            else f"in {shown_path}"
        )

    def count_rows(self) -> tuple[int, int]:
        """Return the number of all rows, and the number of rows that do not fit the schema."""
        counts: Any = self.flagged.selectExpr("count(*)", f"count_if({MISFIT} IS NOT NULL)").first()
        return int(counts[0]), int(counts[1])


def spark_path(path: str) -> str:
    """Convert a path for Hadoop: `s3a://` instead of `s3://` and `s3n://`."""
    scheme, separator, rest = path.partition("://")
    return f"s3a://{rest}" if separator and scheme in {"s3", "s3n"} else path


def catalog_location(location: str) -> str:
    """Return the canonical form of a location, as in the catalog: `s3://`, without a trailing slash."""
    scheme, separator, rest = location.partition("://")
    normalized = f"s3://{rest}" if separator and scheme in {"s3", "s3a", "s3n"} else location
    return normalized.rstrip("/")


def read(spark: "SparkSession", source: Source) -> Reading:
    """Read a source lazily; raises `PipelineError` for no path, too many paths, or files of another schema."""
    if not source.paths:
        raise PipelineError("the source has no path. Name at least one file, folder or table.")
    if source.format in {"delta", "table"} and len(source.paths) > 1:
        raise PipelineError(f"a source of format {source.format} is one table, not {len(source.paths)}. Name one.")
    if source.format == "table":
        return Reading(spark.read.options(**source.options).table(source.paths[0]))
    if source.format == "delta":
        return Reading(spark.read.format("delta").options(**source.options).load(spark_path(source.paths[0])))
    rows = _files(spark, source, spark.read, with_file=source.malformed != "fail")
    header = source.format == "csv" and _options(source)["header"].lower() == "true"
    refuse_no_files(rows, source.paths, header=header)
    return Reading(rows, source)


def follow(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source as a Spark stream: files with a declared schema, or a Delta table."""
    if source.format == "delta":
        return spark.readStream.format("delta").options(**source.options).load(spark_path(source.paths[0]))
    if len(source.paths) > 1:
        raise PipelineError("a stream of files has one path: use a glob.")
    return _files(spark, source, spark.readStream)


def _files(
    spark: "SparkSession", source: Source, reader: "DataFrameReader | DataStreamReader", *, with_file: bool = True
) -> "DataFrame":
    """Read files, and flag rows that do not fit the schema; `with_file` adds the file of each row."""
    from pyspark.sql import types

    file = [FILE_PATH] * with_file
    options = _options(source)
    paths: Any = [spark_path(path) for path in source.paths]
    paths = paths[0] if len(paths) == 1 else paths
    declared = _declared(source)
    if source.format in {"csv", "json"} and "singlevariantcolumn" not in options:
        if not declared and source.format == "csv":
            declared = inferred_csv(spark.read, paths, options)
        elif not declared:
            inferring = {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD}
            inferred = spark.read.format(source.format).options(**inferring).load(paths).schema.fields
            declared = [field for field in inferred if field.name != RECORD]
        if not declared:
            raise PipelineError("the files have no columns, because they contain no row. Check the paths.")
        flagged = flagged_csv if source.format == "csv" else flagged_json
        return flagged(reader, paths, declared, options, file)
    static, kinds = spark.read.format(source.format).options(**options), types.StructType(declared)
    if source.format == "parquet":
        merge_schema = {name.lower(): value.lower() for name, value in source.options.items()}.get("mergeschema")
        unread = static.schema(source.schema or "x INT").load(paths)  # lists the files without reading them
        refuse_other_schemas(
            unread, kinds if declared else None, allow_missing=source.evolves or merge_schema == "true"
        )
    elif declared:
        refuse_other_columns(static.load(paths).schema, kinds)
    rows = (reader.schema(kinds) if declared else reader).format(source.format).options(**options).load(paths)
    for required in (column.name for column in declared if not column.nullable):
        absent = raise_sql(f"{required} is null or missing in a source, whose schema says NOT NULL")
        rows = rows.where(f"CASE WHEN {quoted(required)} IS NULL THEN {absent} ELSE true END")
    return rows


def _declared(source: Source) -> "list[StructField]":
    from pyspark.sql import types

    return cast("StructType", types.DataType.fromDDL(source.schema)).fields if source.schema else []


def _line(spark: "SparkSession", source: Source, row: int) -> str:
    """Return the line number of a row, or the row number if rows are not lines; `row` counts from 0."""
    options = _options(source)
    if not by_lines(options):
        return f", row {row + 1}"
    lines = spark.read.options(**options).text(spark_path(source.paths[0]))
    lines = lines.selectExpr("monotonically_increasing_id() AS line", "value").where(NOT_BLANK)
    if source.format == "csv" and (comment := options.get("comment")):
        lines = lines.where(f"NOT startswith(value, {literal(comment)})")
    header = source.format == "csv" and options["header"].lower() == "true"
    match = lines.offset(row + header).first()
    return f":{match.line + 1}" if match else f", row {row + 1}"


def _options(source: Source) -> dict[str, str]:
    options = {**DEFAULTS.get(source.format, {}), **{name.lower(): value for name, value in source.options.items()}}
    if source.format == "csv":
        options.setdefault("escape", options.get("quote") or '"')
    return options


@contextmanager
def explain_misfits(readings: Mapping[str, Reading], remedy: str) -> Iterator[None]:
    """Add file and line to an error of the block about a row that does not fit its source's schema."""
    try:
        yield
    except PipelineError as refusal:
        for name, reading in readings.items() if UNFIT in refusal.message else ():
            with refusals():
                message = reading.misfit_message() if reading.malformed == "fail" else None
            if message:
                raise FileError(f"{name}: {message}; {remedy}.") from refusal
        raise
