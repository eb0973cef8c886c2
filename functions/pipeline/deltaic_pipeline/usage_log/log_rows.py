"""Parse the two access logs with Spark, and count their lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.usage_log.log_lines import (
    FETCH_COLUMNS,
    LINE_COLUMNS,
    REQUEST_COLUMNS,
    arrow_schema,
    fetch_rows,
    record_batch,
    request_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COUNTS: Final = (
    "count(CASE WHEN verdict = 'understood' THEN 1 END) AS understood",
    "count(CASE WHEN verdict = 'malformed' THEN 1 END) AS malformed",
    "count(CASE WHEN verdict = 'other' THEN 1 END) AS others",
    "coalesce(CAST(CAST(min(time) AS DATE) AS STRING), '') AS first",
    "coalesce(min(CASE WHEN verdict = 'malformed' THEN file END), '') AS malformed_in",
)
"""SQL for the fields of `LineCounts`."""

Parse = Callable[[str, str], Iterable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Numbers of parsed and malformed lines of a log, and of other (unrelated) lines."""

    understood: int
    malformed: int
    others: int
    first: str
    """Date of the oldest parsed line, such as `2026-11-22`; empty if there is none."""

    malformed_in: str


def requests(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Read the functions' logs; return each line's fields and `verdict`: understood, malformed or other (unrelated)."""
    return _parsed(spark, paths, request_rows, LINE_COLUMNS | REQUEST_COLUMNS)


def fetches(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Read S3's access logs, and return each line's fields and `verdict`: understood or malformed."""
    return _parsed(spark, paths, fetch_rows, LINE_COLUMNS | FETCH_COLUMNS)


def _parsed(spark: "SparkSession", paths: Sequence[str], parse: Parse, columns: dict[str, str]) -> "DataFrame":
    # Bytes, because a log can have lines that are not UTF-8.
    lines = spark.read.text([spark_path(path) for path in paths], lineSep="\n")
    lines = lines.selectExpr("CAST(value AS BINARY) AS value", "input_file_name() AS file")

    def parse_batches(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            values = zip(batch.column("value").to_pylist(), batch.column("file").to_pylist(), strict=True)
            rows = [row for line, file in values for row in parse(line.decode(errors="replace").rstrip("\r"), file)]
            yield record_batch(rows, arrow_schema(columns))

    return lines.mapInArrow(parse_batches, ", ".join(f"`{name}` {kind}" for name, kind in columns.items()))


def count_lines(rows: "DataFrame") -> LineCounts:
    """Count the parsed, malformed and other (unrelated) lines of a log."""
    counts: Any = rows.selectExpr(*COUNTS).first()
    return LineCounts(**counts.asDict())
