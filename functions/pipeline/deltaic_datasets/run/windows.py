"""Compute which window of a database's rows a run reads: those between two values of the watermark column."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.quoting import quoted

from deltaic_datasets.file import dataset_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

Value: TypeAlias = Decimal | date | datetime

SCALES: Mapping[str, str] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), "number"),
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "time without a zone",
}
"""Scale on which values are compared, by Spark type. It stays the same if a numeric column is widened."""

MICROSECOND, DAY = timedelta(microseconds=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds of the rows that one run reads from a source, as the strings that the Delta log records."""

    column: str
    scale: str
    above: str | None
    """Exclusive lower bound: the watermark before this run; None if there was no watermark."""

    upto: str | None
    """Inclusive upper bound, the next watermark: the highest value when the run began; None if there were no rows."""

    def __str__(self) -> str:
        since = f"above {self.above}" if self.above else "from the start"
        return f"{self.column} {since}" + (", no new rows" if self.upto == self.above else f", up to {self.upto}")


def marked_field(rows: "DataFrame", watermark: dataset_model.Watermark) -> "tuple[StructField, str]":
    """Return the column of a watermark and its scale; raises `PipelineError` if its type is not in `SCALES`."""
    fields = [field for field in rows.schema.fields if field.name.lower() == watermark.column.lower()]
    fields = [field for field in fields if field.name == watermark.column] or fields
    if len(fields) != 1:
        raise PipelineError(f"the source has no column {watermark.column}: choose from {', '.join(rows.columns)}.")
    scale = SCALES.get(fields[0].dataType.simpleString().partition("(")[0])
    if scale is None:
        raise PipelineError(
            f"{fields[0].name} is {fields[0].dataType.simpleString().upper()}: a watermark needs a timestamp, a date, "
            "an integer or a decimal."
        )
    return fields[0], scale


def next_window(field: "StructField", scale: str, before: Window | None, highest: str | None) -> Window:
    """Return the window that follows the window `before` and ends at `highest`, the highest value in the source.

    Raises `PipelineError` if `before` is for another column, and for a value in the future, which would hide new rows.
    """
    if before is not None and (before.column.lower(), before.scale) != (field.name.lower(), scale):
        raise PipelineError(
            f"the watermark of the table is for {before.column}, a {before.scale}, and not for {field.name}, a {scale}:"
            " rename the source, so that its rows are read again from `start`."
        )
    above = before.upto if before else None
    value = _value(scale, highest) if highest is not None else None
    if isinstance(value, date) and _as_datetime(value) > datetime.now(UTC) + DAY:
        raise PipelineError(
            f"the highest value of {field.name} is in the future, so that new rows below it would never be read: use a "
            "`query` that leaves such rows out, or another column as watermark."
        )
    if value is None or (above is not None and value <= _value(scale, above)):  # type: ignore[operator]
        return Window(field.name, scale, above, above)
    return Window(field.name, scale, above, _text(value))


def within(rows: "DataFrame", window: Window, watermark: dataset_model.Watermark) -> "DataFrame":
    """Return the rows of a source in a window. The database evaluates the conditions."""
    if window.upto is None or (window.upto == window.above and watermark.overlap is None):
        return rows.where("false")
    field, scale = marked_field(rows, watermark)
    kind = field.dataType.simpleString()
    rows = rows.where(f"NOT ({_beyond(field.name, _value(scale, window.upto), kind)})")
    if watermark.start is not None:
        rows = rows.where(f"{quoted(field.name)} >= {_literal(_start(scale, watermark.start), kind)}")
    above = _back(scale, window.above, watermark.overlap)
    return rows if above is None else rows.where(_beyond(field.name, above, kind))


def _beyond(column: str, value: Value, kind: str) -> str:
    """Return a SQL condition for values above this one; for timestamps, from the next microsecond on."""
    if isinstance(value, datetime):
        return f"{quoted(column)} >= {_literal(value + MICROSECOND, kind)}"
    return f"{quoted(column)} > {_literal(value, kind)}"


def _literal(value: Value, kind: str) -> str:
    return f"CAST('{_text(value)}' AS {kind})"


def _as_datetime(value: date) -> datetime:
    instant = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _text(value: Value) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else value.isoformat()


def _value(scale: str, text: str) -> Value:
    try:
        match scale:
            case "number":
                return Decimal(text)
            case "date":
                return date.fromisoformat(text)
            case "timestamp":
                return _as_datetime(datetime.fromisoformat(text))
            case _:
                return datetime.fromisoformat(text)
    except ValueError:  # such as PostgreSQL's infinity
        raise PipelineError(
            f"the highest value is not a {scale} in the years 1 to 9999: use a `query` that leaves it out."
        ) from None


def _start(scale: str, start: float | date) -> Value:
    match scale, start:
        case "number", int() | float():
            return Decimal(str(start))
        case "date", date() if not isinstance(start, datetime):
            return start
        case (("timestamp" | "time without a zone"), date()):
            instant = _as_datetime(start).astimezone(UTC)
            return instant if scale == "timestamp" else instant.replace(tzinfo=None)
    raise PipelineError(f"the column is a {scale}, but start is not: change `start`.")


def _back(scale: str, text: str | None, overlap: str | float | None) -> Value | None:
    value = None if text is None else _value(scale, text)
    if overlap is None or value is None:
        return value
    try:
        match value, overlap:
            case Decimal(), int() | float():
                return value - Decimal(str(overlap))
            case datetime(), str():
                return value - dataset_model.duration(overlap)
            case date(), str() if dataset_model.duration(overlap) % DAY == timedelta(0):
                return value - dataset_model.duration(overlap)
    except OverflowError:
        return None
    expected = {"number": "a number", "date": "of whole days"}.get(scale, "a duration")
    raise PipelineError(f"overlap must be {expected} for a column that is a {scale}.")
