"""The sources of a job: files of one format, a Delta table by its location, or a table of Spark's catalog."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.parse import unquote

from deltaic_pipeline.failures import PipelineError, PlacedError
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raised, refusals
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
    # A file with a header whose types are found out is what people mean by a CSV, in which a quote is doubled (RFC
    # 4180); each can be overruled. A file with another header fails. No file has the character U+FFFF, so that an empty
    # text in quotes is one, and only a value that is not there is null.
    "csv": {
        "header": "true",
        "inferschema": "true",
        "enforceschema": "false",
        "mode": "FAILFAST",
        "nullvalue": "\uffff",
    },
    "json": {"mode": "FAILFAST"},
    # Columns of all files, not of the first one found; two types for one column are an error.
    "parquet": {"mergeschema": "true"},
}

UNFIT = "a row does not fit the schema of its source"
"""What Spark says when it meets one that must not be; which it is, and how many there are, is found out then."""

_GLOB = re.compile(r"[\[\]{}*?\\]")
"""What a file's name may have and a glob takes for more."""


@dataclass(frozen=True, slots=True)
class Source:
    """What to read."""

    format: Format
    paths: Sequence[str]
    """Files, folders or globs, local or `s3://`; for `delta` one location, for `table` one name."""

    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """A DDL schema such as `id bigint, day date`; None: found out from the files."""

    malformed: Malformed = "fail"
    evolves: bool = False
    """Parquet files may lack columns that others have, which are null there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a source as they were read: those of CSV and JSON that do not fit the schema are flagged."""

    flagged: "DataFrame"
    source: Source | None = None
    """None: not of files, so that every row fits."""

    @property
    def malformed(self) -> Malformed:
        """What becomes of rows that do not fit."""
        return self.source.malformed if self.source and MISFIT in self.flagged.columns else "fail"

    @property
    def rows(self) -> "DataFrame":
        """The rows that fit; where others are refused, whoever asks for any row meets the first of those."""
        names = [name for name in self.flagged.columns if name not in {RAW, FILE}]
        if self.source is None or MISFIT not in names:
            return self.flagged
        if self.malformed != "fail":
            return self.flagged.where(f"{MISFIT} IS NULL").drop(MISFIT, RAW, FILE)
        columns, further = names[: names.index(MISFIT)], names[names.index(MISFIT) + 1 :]
        unfit = f"CASE WHEN {MISFIT} IS NOT NULL THEN {raised(UNFIT)} ELSE"
        # A later condition must not be tried before this one.
        if not further:
            return self.flagged.where(f"{unfit} monotonically_increasing_id() >= 0 END").drop(MISFIT, RAW, FILE)
        checked = f"{unfit} struct({', '.join(map(quoted, columns))}) END"
        return self.flagged.selectExpr(f"inline(array({checked}))", *map(quoted, further))

    def aside(self, name: str) -> "DataFrame":
        """Return of the rows that do not fit why, their text and their file; `name` is that of the source."""
        reasons = f"transform({MISFIT}, told -> concat({literal(f'{name}: ')}, told)) AS _reasons"
        return self.flagged.where(f"{MISFIT} IS NOT NULL").selectExpr(reasons, f"{RAW} AS _raw", f"{FILE} AS _file")

    def told(self) -> str | None:
        """Say how many rows do not fit, and of the first one the file, the line and the column; None if all fit."""
        if self.source is None or MISFIT not in self.flagged.columns:
            return None
        if FILE not in self.flagged.columns:
            spark = self.flagged.sparkSession
            return replace(self, flagged=_files(spark, self.source, spark.read)).told()
        rows, wrong = self.counted()
        if not wrong:
            return None
        least: Any = self.flagged.where(f"{MISFIT} IS NOT NULL").agg({FILE: "min"}).first()
        return f"{wrong:,} of {rows:,} rows do not fit the schema, the first is {self._first(self.source, least[0])}"

    def _first(self, source: Source, file: str) -> str:
        """Say where in a file its first row is that does not fit, and why; it is read alone, and in its order."""
        from pyspark.sql import types

        own = self.flagged.sparkSession.newSession()
        own.conf.set("spark.sql.files.maxPartitionBytes", str(2**60))
        own.conf.set("spark.sql.files.minPartitionNum", "1")
        path, names = unquote(file), self.flagged.columns
        said = {field.name.lower(): field for field in _declared(source)}
        columns = [said.get(field.name.lower(), field) for field in self.flagged.schema.fields[: names.index(MISFIT)]]
        alone = replace(source, paths=[_GLOB.sub(r"\\\g<0>", path)], schema=types.StructType(columns).toDDL())
        numbered = read(own, alone).flagged.selectExpr("monotonically_increasing_id() AS number", MISFIT)
        found = numbered.where(f"{MISFIT} IS NOT NULL").first()
        shown = path.removeprefix("file:")
        return f"{shown}{_line(own, alone, found.number)}: {'; '.join(found[MISFIT])}" if found else f"in {shown}"

    def counted(self) -> tuple[int, int]:
        """Return how many rows there are, and how many of them do not fit."""
        found: Any = self.flagged.selectExpr("count(*)", f"count_if({MISFIT} IS NOT NULL)").first()
        return int(found[0]), int(found[1])


def spark_path(path: str) -> str:
    """Return a path as Hadoop wants it: `s3://` and `s3n://` are read by the s3a file system."""
    scheme, separator, rest = path.partition("://")
    return f"s3a://{rest}" if separator and scheme in {"s3", "s3n"} else path


def catalog_location(location: str) -> str:
    """Return a location as the catalog spells it: `s3://` and no slash at its end, so that one table has one lease."""
    scheme, separator, rest = location.partition("://")
    spelled = f"s3://{rest}" if separator and scheme in {"s3", "s3a", "s3n"} else location
    return spelled.rstrip("/")


def read(spark: "SparkSession", source: Source) -> Reading:
    """Return the source's rows (lazily); raises `PipelineError` when the source names no or too many things."""
    if not source.paths:
        raise PipelineError("nothing to read: give at least one file, folder or table.")
    if source.format in {"delta", "table"} and len(source.paths) > 1:
        raise PipelineError(f"a source of format {source.format} is one table, not {len(source.paths)}.")
    if source.format == "table":
        return Reading(spark.read.options(**source.options).table(source.paths[0]))
    if source.format == "delta":
        return Reading(spark.read.format("delta").options(**source.options).load(spark_path(source.paths[0])))
    rows = _files(spark, source, spark.read, told=source.malformed != "fail")
    header = source.format == "csv" and _options(source)["header"].lower() == "true"
    refuse_no_files(rows, source.paths, header=header)
    return Reading(rows, source)


def follow(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source as a stream, of whose batches `Reading`s are made: files with a schema, or a Delta table."""
    if source.format == "delta":
        return spark.readStream.format("delta").options(**source.options).load(spark_path(source.paths[0]))
    if len(source.paths) > 1:
        raise PipelineError("a stream of files has one path: give a glob.")
    return _files(spark, source, spark.readStream)


def _files(
    spark: "SparkSession", source: Source, reader: "DataFrameReader | DataStreamReader", *, told: bool = True
) -> "DataFrame":
    """Read files so that what does not fit their declared schema is flagged, with its file if `told`, and no null."""
    from pyspark.sql import types

    file = [FILE_PATH] * told
    options = _options(source)
    paths: Any = [spark_path(path) for path in source.paths]
    paths = paths[0] if len(paths) == 1 else paths
    declared = _declared(source)
    if source.format in {"csv", "json"} and "singlevariantcolumn" not in options:
        if not declared and source.format == "csv":
            declared = inferred_csv(spark.read, paths, options)
        elif not declared:
            finding = {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD}
            found = spark.read.format(source.format).options(**finding).load(paths).schema.fields
            declared = [field for field in found if field.name != RECORD]
        if not declared:
            raise PipelineError("the files have no columns: nothing in them is a row.")
        flagged = flagged_csv if source.format == "csv" else flagged_json
        return flagged(reader, paths, declared, options, file)
    static, kinds = spark.read.format(source.format).options(**options), types.StructType(declared)
    if source.format == "parquet":
        asked = {name.lower(): value.lower() for name, value in source.options.items()}.get("mergeschema")
        listed = static.schema(source.schema or "x INT").load(paths)  # without reading the files
        refuse_other_schemas(listed, kinds if declared else None, lacking=source.evolves or asked == "true")
    elif declared:
        refuse_other_columns(static.load(paths).schema, kinds)
    rows = (reader.schema(kinds) if declared else reader).format(source.format).options(**options).load(paths)
    for required in (column.name for column in declared if not column.nullable):
        absent = raised(f"{required} is null or missing in a source, whose schema says NOT NULL")
        rows = rows.where(f"CASE WHEN {quoted(required)} IS NULL THEN {absent} ELSE true END")
    return rows


def _declared(source: Source) -> "list[StructField]":
    from pyspark.sql import types

    return cast("StructType", types.DataType.fromDDL(source.schema)).fields if source.schema else []


def _line(spark: "SparkSession", source: Source, row: int) -> str:
    """Say in which line a row of a file is, both counted from 0; or which row it is, where rows are no lines."""
    options = _options(source)
    if not by_lines(options):
        return f", row {row + 1}"
    lines = spark.read.options(**options).text(spark_path(source.paths[0]))
    lines = lines.selectExpr("monotonically_increasing_id() AS line", "value").where(NOT_BLANK)
    if source.format == "csv" and (comment := options.get("comment")):
        lines = lines.where(f"NOT startswith(value, {literal(comment)})")
    header = source.format == "csv" and options["header"].lower() == "true"
    found = lines.offset(row + header).first()
    return f":{found.line + 1}" if found else f", row {row + 1}"


def _options(source: Source) -> dict[str, str]:
    options = {**DEFAULTS.get(source.format, {}), **{name.lower(): value for name, value in source.options.items()}}
    if source.format == "csv":
        options.setdefault("escape", options.get("quote") or '"')
    return options


@contextmanager
def values_told(readings: Mapping[str, Reading], remedy: str) -> Iterator[None]:
    """Say of a refusal for rows that do not fit which file and line has the first; readings by what they are called."""
    try:
        yield
    except PipelineError as refusal:
        for name, reading in readings.items() if UNFIT in refusal.message else ():
            with refusals():
                told = reading.told() if reading.malformed == "fail" else None
            if told:
                raise PlacedError(f"{name}: {told}; {remedy}.") from refusal
        raise
