"""Compare each file that Spark is about to read with the declared schema (decision 199).

Otherwise Spark would fill a column that a file lacks with nulls, and drop fields that the schema lacks.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import as_java, java_class
from deltaic_pipeline.spark.spark_errors import full_message, spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_NOT_PARQUET = re.compile(r"(?:^|file:|: )(\S[^:]*) is not a Parquet file", re.MULTILINE)
_NANOSECONDS = re.compile(r"(\S+) \(TIMESTAMP\(NANOS")
NANOSECONDS = (
    "has timestamps in nanoseconds, which Delta tables do not have: write the files with microseconds, in pandas by "
    "to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
)
NO_HEADER = "is empty, but must have a header. Deliver it again, or set the option `header: false`."


def files_of(rows: "DataFrame") -> Any:
    """Return the Java list of files that Spark reads for `rows`, each with its path and length."""
    return as_java(_relation(rows).location().allFiles())


def _relation(rows: "DataFrame") -> Any:
    return rows._jdf.queryExecution().analyzed().collectLeaves().head().relation()  # noqa: SLF001 -- pyspark has names only


def refuse_no_files(rows: "DataFrame", paths: Sequence[str], *, header: bool = False) -> None:
    """Raise `PipelineError` if Spark would read no file, or if a file that must have a header is empty."""
    files = files_of(rows)
    if not files:
        raise PipelineError(
            f"there are no files to read at {', '.join(paths)}. Check the paths: Spark skips names that start with an "
            "underscore or a period."
        )
    for file in files if header else ():
        if not file.getLen():
            raise PipelineError(f"{file.getPath().toString().removeprefix('file:')} {NO_HEADER}")


def refuse_other_schemas(rows: "DataFrame", declared: "DataType | None", *, allow_missing: bool) -> None:
    """Raise `PipelineError` for a Parquet file whose fields differ from the declared schema's.

    Without a declared schema, all files must have the same fields. With `allow_missing`, files can lack fields.
    """
    from pyspark.sql import types

    spark: Any = rows.sparkSession
    state = spark._jsparkSession.sessionState()  # noqa: SLF001 -- no other way to footers
    conf, without_rows, schemas = state.newHadoopConf(), True, dict[str, tuple[str, set[str]]]()
    conf.setIfUnset("parquet.metadata.read.parallelism", "16")
    parquet = "org.apache.spark.sql.execution.datasources.parquet"
    converter = java_class(f"{parquet}.ParquetToSparkSchemaConverter")(state.conf())
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader")
    try:
        footers = reader.readAllFootersInParallel(conf, files_of(rows), without_rows)
    except spark_failures() as failure:
        broken = _NOT_PARQUET.search(full_message(failure))
        if broken is None:
            raise
        raise PipelineError(f"{broken[1]} is not a complete Parquet file. Upload it again.") from failure
    for footer in footers:
        schema = footer.getParquetMetadata().getFileMetaData().getSchema()
        if (text := schema.toString()) not in schemas:
            file = footer.getFile().toString().removeprefix("file:")
            if column := _NANOSECONDS.search(text):
                raise PipelineError(f"{file}: its column '{column[1]}' {NANOSECONDS}.")
            columns = types.StructType.fromJson(json.loads(converter.convert(schema).json()))
            schemas[text] = file, set(_fields(columns))
    expected = set(_fields(declared)) if declared else set[str]().union(*(fields for _, fields in schemas.values()))
    partitions = {*_relation(rows).partitionSchema().names()}
    for file, fields in schemas.values():
        _refuse_drift(file, fields - partitions, expected - partitions, allow_missing=allow_missing)


def refuse_other_columns(actual: "DataType", declared: "DataType") -> None:
    """Raise `PipelineError` if the fields of the files, at any depth, differ from the declared schema's."""
    _refuse_drift("the files", set(_fields(actual)), set(_fields(declared)), allow_missing=False)


def _refuse_drift(files: str, actual: set[str], expected: set[str], *, allow_missing: bool) -> None:
    if actual - expected or (expected - actual and not allow_missing):
        extra, missing = (", ".join(sorted(names)) or "none" for names in (actual - expected, expected - actual))
        raise PipelineError(
            f"{files}: the columns differ from the schema (extra: {extra}; missing: {missing}). Correct the schema"
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
