"""The window of a database's rows that one run reads: those above a value of the watermark's column, up to another."""

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
"""What values of a column are compared as; a number stays one when its column becomes wider."""

MICROSECOND, DAY = timedelta(microseconds=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """What one run reads of a source. Values are texts, as they stand in the table's log."""

    column: str
    scale: str
    above: str | None
    """The mark before this run; None: there was none."""

    upto: str | None
    """The mark that this run leaves, the highest value when it began; None: there was no row yet."""

    def __str__(self) -> str:
        since = f"above {self.above}" if self.above else "from the start"
        return f"{self.column} {since}" + (", nothing new" if self.upto == self.above else f", up to {self.upto}")


def marked_field(rows: "DataFrame", mark: dataset_model.Watermark) -> "tuple[StructField, str]":
    """Return the watermark's column and its scale; raises `PipelineError` where it is none."""
    fields = [field for field in rows.schema.fields if field.name.lower() == mark.column.lower()]
    fields = [field for field in fields if field.name == mark.column] or fields
    if len(fields) != 1:
        raise PipelineError(f"the column {mark.column} is not among the rows': {', '.join(rows.columns)}.")
    scale = SCALES.get(fields[0].dataType.simpleString().partition("(")[0])
    if scale is None:
        raise PipelineError(
            f"{fields[0].name} is {fields[0].dataType.simpleString().upper()}: a mark is a timestamp, a date, an "
            "integer or a decimal."
        )
    return fields[0], scale


def next_window(field: "StructField", scale: str, before: Window | None, found: str | None) -> Window:
    """Return what a run reads that finds this as the highest value, where another one read a window before it.

    Raises `PipelineError` for a mark of another column, and for a value in the future, behind which nothing would be.
    """
    if before is not None and (before.column.lower(), before.scale) != (field.name.lower(), scale):
        raise PipelineError(
            f"the table has its mark by {before.column}, a {before.scale}, and not by {field.name}, a {scale}: give "
            "the source another name, and it begins at `start`."
        )
    above = before.upto if before else None
    value = _value(scale, found) if found is not None else None
    if isinstance(value, date) and _moment(value) > datetime.now(UTC) + DAY:
        raise PipelineError(
            f"the highest value of {field.name} lies in the future, and no row below it would be read any more: leave "
            "such rows out by a query, or mark another column."
        )
    if value is None or (above is not None and value <= _value(scale, above)):  # type: ignore[operator]
        return Window(field.name, scale, above, above)
    return Window(field.name, scale, above, _text(value))


def within(rows: "DataFrame", window: Window, mark: dataset_model.Watermark) -> "DataFrame":
    """Return the rows of a source that lie in a window, by conditions that the database takes."""
    if window.upto is None or (window.upto == window.above and mark.overlap is None):
        return rows.where("false")
    field, scale = marked_field(rows, mark)
    kind = field.dataType.simpleString()
    rows = rows.where(f"NOT ({_beyond(field.name, _value(scale, window.upto), kind)})")
    if mark.start is not None:
        rows = rows.where(f"{quoted(field.name)} >= {_literal(_start(scale, mark.start), kind)}")
    above = _back(scale, window.above, mark.overlap)
    return rows if above is None else rows.where(_beyond(field.name, above, kind))


def _beyond(column: str, value: Value, kind: str) -> str:
    """Return what is true of rows above a value; of a microsecond none is, though a database may know parts of it."""
    if isinstance(value, datetime):
        return f"{quoted(column)} >= {_literal(value + MICROSECOND, kind)}"
    return f"{quoted(column)} > {_literal(value, kind)}"


def _literal(value: Value, kind: str) -> str:
    return f"CAST('{_text(value)}' AS {kind})"


def _moment(value: date) -> datetime:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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
                return _moment(datetime.fromisoformat(text))
            case _:
                return datetime.fromisoformat(text)
    except ValueError:  # such as PostgreSQL's infinity
        raise PipelineError(
            f"the highest value is no {scale} of the years 1 to 9999: leave it out by a query."
        ) from None


def _start(scale: str, start: float | date) -> Value:
    match scale, start:
        case "number", int() | float():
            return Decimal(str(start))
        case "date", date() if not isinstance(start, datetime):
            return start
        case (("timestamp" | "time without a zone"), date()):
            moment = _moment(start).astimezone(UTC)
            return moment if scale == "timestamp" else moment.replace(tzinfo=None)
    raise PipelineError(f"start is no {scale}, which the column is.")


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
    wanted = {"number": "a number", "date": "of whole days"}.get(scale, "a duration")
    raise PipelineError(f"overlap is {wanted} for a column that is a {scale}.")
