"""Compares the files that Spark is about to read with the declared schema, one by one (decision 199).

Spark fills a column that a file lacks with nulls, and leaves out fields that the schema lacks. What is certain by a
file's first or last bytes is told before Spark starts.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import as_java, java_class
from deltaic_pipeline.spark.spark_errors import all_said, other_length, other_name, spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_NOT_PARQUET = re.compile(r"(?:^|file:|: )(\S[^:]*) is not a Parquet file", re.MULTILINE)
_NANOSECONDS = re.compile(r"(\S+) \(TIMESTAMP\(NANOS")
NANOSECONDS = (
    "has timestamps in nanoseconds, which Delta tables do not have: write the files with microseconds, in pandas by "
    "to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
)
_BEYOND_THE_HEADER = frozenset({
    "dateformat", "emptyvalue", "inferschema", "locale", "mode", "nanvalue", "negativeinf", "nullvalue", "positiveinf",
    "preferdate", "samplingratio", "timestampformat", "timestampntzformat", "timezone",
})  # fmt: skip
NO_HEADER = "has 0 bytes, and a header is due. Deliver it again, or set the option `header: false`."
_READ_HERE = frozenset({"delimiter", "enforceschema", "header", "quote", "sep"})


def wrong_header(file: str, begins: bytes, columns: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Return what Spark would say of a file that begins so; None if it says nothing, or if only Spark can tell."""
    told = {name.lower(): value for name, value in options.items()}
    separator, quote = told.get("sep", told.get("delimiter", ",")), told.get("quote", '"')
    checked = told.get("header", "true").lower() == "true" and told.get("enforceschema", "false").lower() == "false"
    if not checked or told.keys() - _BEYOND_THE_HEADER - _READ_HERE or len(separator) != 1 or len(quote) != 1:
        return None
    if not begins:
        return f"{file} {NO_HEADER}"
    lines = [line for line in re.split(rb"\r\n?|\n", begins)[:-1] if line.strip()]
    try:
        [header] = csv.reader([lines[0].decode()], delimiter=separator, quotechar=quote, strict=True)
    except (IndexError, UnicodeDecodeError, csv.Error):
        return None
    if not header[0].isprintable() or not all(header) or any(quote in name for name in header):
        return None  # a byte order mark, names that are nulls, quotes that each reader takes in its own way
    if len(header) != len(columns):
        return other_length(file, len(header), len(columns))
    pairs = zip(header, columns, strict=True)
    differing = ((found, wanted) for found, wanted in pairs if found.lower() != wanted.lower())
    return next((other_name(file, wanted, found, columns) for found, wanted in differing), None)


def nanoseconds_in(file: str, ends: bytes) -> str | None:
    """Return the refusal of a Parquet file whose last bytes show a timestamp in nanoseconds; None for any other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(pa.ArrowException, OSError):
        schema = pq.read_metadata(pa.BufferReader(ends)).schema
        for column in map(schema.column, range(len(schema))):
            if re.match("Timestamp.*=nanoseconds", str(column.logical_type)):
                return f"{file}: its column '{column.path}' {NANOSECONDS}."
    return None


def files_of(rows: "DataFrame") -> Any:
    """Return Java's list of the files that rows are read from, each with its path and length."""
    return as_java(_relation(rows).location().allFiles())


def _relation(rows: "DataFrame") -> Any:
    return rows._jdf.queryExecution().analyzed().collectLeaves().head().relation()  # noqa: SLF001 -- pyspark has names only


def refuse_no_files(rows: "DataFrame", paths: Sequence[str], *, header: bool = False) -> None:
    """Raise `PipelineError` where nothing is read, or a file that must have a header has no bytes."""
    files = files_of(rows)
    if not files:
        raise PipelineError(
            f"no file is read at {', '.join(paths)}. Check the paths: names that begin with _ or . are left out."
        )
    for file in files if header else ():
        if not file.getLen():
            raise PipelineError(f"{file.getPath().toString().removeprefix('file:')} {NO_HEADER}")


def refuse_other_schemas(rows: "DataFrame", declared: "DataType | None", *, lacking: bool) -> None:
    """Raise `PipelineError` for a Parquet file whose fields are not the schema's, or without one, those of all files.

    `lacking`: a file may lack fields.
    """
    from pyspark.sql import types

    spark: Any = rows.sparkSession
    state = spark._jsparkSession.sessionState()  # noqa: SLF001 -- no other way to footers
    conf, without_rows, found = state.newHadoopConf(), True, dict[str, tuple[str, set[str]]]()
    conf.setIfUnset("parquet.metadata.read.parallelism", "16")
    parquet = "org.apache.spark.sql.execution.datasources.parquet"
    converter = java_class(f"{parquet}.ParquetToSparkSchemaConverter")(state.conf())
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader")
    try:
        footers = reader.readAllFootersInParallel(conf, files_of(rows), without_rows)
    except spark_failures() as failure:
        broken = _NOT_PARQUET.search(all_said(failure))
        if broken is None:
            raise
        raise PipelineError(f"{broken[1]} is not a Parquet file, or not a whole one. Deliver it again.") from failure
    for footer in footers:
        schema = footer.getParquetMetadata().getFileMetaData().getSchema()
        if (text := schema.toString()) not in found:
            file = footer.getFile().toString().removeprefix("file:")
            if column := _NANOSECONDS.search(text):
                raise PipelineError(f"{file}: its column '{column[1]}' {NANOSECONDS}.")
            columns = types.StructType.fromJson(json.loads(converter.convert(schema).json()))
            found[text] = file, set(_fields(columns))
    wanted = set(_fields(declared)) if declared else set[str]().union(*(fields for _, fields in found.values()))
    partitions = {*_relation(rows).partitionSchema().names()}
    for file, fields in found.values():
        _refuse_drift(file, fields - partitions, wanted - partitions, lacking=lacking)


def refuse_other_columns(found: "DataType", declared: "DataType") -> None:
    """Raise `PipelineError` where the fields that Spark finds in files, at any depth, are not those of the schema."""
    _refuse_drift("the files", set(_fields(found)), set(_fields(declared)), lacking=False)


def _refuse_drift(files: str, found: set[str], wanted: set[str], *, lacking: bool) -> None:
    if found - wanted or (wanted - found and not lacking):
        more, less = (", ".join(sorted(names)) or "none" for names in (found - wanted, wanted - found))
        raise PipelineError(
            f"{files}: the columns are not the schema's (more than it has: {more}; missing: {less}). Correct the schema"
            " or the files; target.evolve_schema lets Parquet files lack columns."
        )


def _fields(kind: "DataType", path: str = "") -> Iterator[str]:
    from pyspark.sql import types

    match kind:
        case types.StructType():
            for field in kind.fields:
                yield f"{path}{field.name}"
                yield from _fields(field.dataType, f"{path}{field.name}.")
        case types.ArrayType():
            yield from _fields(kind.elementType, path)
        case types.MapType():
            yield from _fields(kind.keyType, path)
            yield from _fields(kind.valueType, path)
