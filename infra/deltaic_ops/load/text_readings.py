"""Readings of text as numbers, dates or times: SQL of DuckDB, NULL where a text does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

# Decimal signs, each with the separators of thousands that can occur with it, as in SQL.
SEPARATORS: Final = {".": ",'' \u00a0\u202f", ",": ".'' \u00a0\u202f"}
ORDERS: Final = {"day-first": ("%d", "%m"), "month-first": ("%m", "%d")}
DATE_LIKE: Final = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d)|\d{1,2}\.?[- ][A-Za-z]{3,9}[- ]\d{2,4}"
    r"|[A-Za-z]{3,9} \d{1,2}, \d{4})([T ].*)?"
)
_ZONED = r"\d{4}-\d\d-\d\d[T ].*(Z|[-+]\d\d(:?\d\d)?)"
# Two-digit years come first, because %Y accepts them too, as years of the first century.
_DAYS = "%d.%m.%y,1/2/%y,1-2-%y,%d-%b-%y,%Y-%m-%d,%Y/%m/%d,%d.%m.%Y,1/2/%Y,1-2-%Y,%d %b %Y,%d-%b-%Y,%d. %b %Y"
_DAYS += ",%d %B %Y,%d. %B %Y,%b %d; %Y,%B %d; %Y"
_TIMES = ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", " %H:%M:%S.%f", "T%H:%M:%S.%f", " %I:%M:%S %p", " %I:%M %p")


@dataclass(frozen=True, slots=True)
class TextReading:
    """A DuckDB type, and SQL that reads `{v}` as this type, without `sign` in numbers.

    `{v}` is the text without spaces around it, or the value in the file if `is_raw`.
    """

    type: str
    sql: str
    convention: str = ""
    formats: tuple[str, ...] = ()
    sign: str = ""
    is_raw: bool = False


TEXT: Final = TextReading("VARCHAR", "{v}", is_raw=True)


def _number(type_: str, decimal: str, sign: str) -> TextReading:
    """Return the reading as a type of numbers; a text that the type cannot hold exactly does not fit."""
    groups, digits, fraction = SEPARATORS[decimal], "*", ""
    if type_ in {"DOUBLE", "FLOAT"}:  # more than 15 digits, as in an account number, would be rounded
        digits, fraction = "{0,14}", rf"([{decimal}]\d*)?([eE][-+]?\d+)?"
    elif type_.startswith("DECIMAL"):
        fraction = rf"([{decimal}]\d{{0,{type_.rstrip(')').rpartition(',')[2]}}}0*)?"
    pattern = rf"[-+]?(0|[1-9]\d{digits}|[1-9]\d{{0,2}}([{groups}]\d{{3}})+)?{fraction}"
    text = f"trim(replace({{v}}, '{sign}', ''))" if sign else "{v}"
    # replace() is fast, but removes one separator: translate() is used only for values that have another one.
    plain = [f"replace({text}, '{groups[0]}', '')", f"translate({text}, '{groups}', '')"]
    casts = ", ".join(f"TRY_CAST(replace({each}, ',', '.') AS {type_})" for each in plain)
    sql = f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN coalesce({casts}) END"
    return TextReading(type_, sql, decimal, sign=sign)


def date(type_: str, order: str, formats: Sequence[str] = ()) -> TextReading:
    """Return the reading as DATE or TIMESTAMP by these formats, or by all formats of an order."""
    first, second = ORDERS[order]
    days = _DAYS.replace("1", first).replace("2", second).split(",")
    times = ("",) if type_ == "DATE" else _TIMES
    tried = tuple(formats) or tuple(f"{day.replace(';', ',')}{time}" for time, day in product(times, days))
    parsed = f"TRY_CAST(try_strptime({{v}}, [{', '.join(map(repr, tried))}]) AS {type_})"
    sql = parsed if formats else f"CASE WHEN regexp_full_match({{v}}, '{DATE_LIKE}') THEN {parsed} END"
    return TextReading(type_, sql, order, tried)


def readings(type_: str, sign: str) -> list[TextReading]:
    """Return the ways to read text as a DuckDB type, one for each convention; `sign` is removed from numbers."""
    if type_ == TEXT.type:
        return [TEXT]
    if type_ == "BOOLEAN":
        return [TextReading(type_, "CASE lower({v}) WHEN 'true' THEN true WHEN 'false' THEN false END")]
    if type_ in {"DATE", "TIMESTAMP"}:
        return [date(type_, order) for order in ORDERS]
    if type_ == "TIMESTAMPTZ":
        sql = f"CASE WHEN regexp_full_match({{v}}, '{_ZONED}') THEN TRY_CAST({{v}} AS {type_}) END"
        return [TextReading(type_, sql)]
    return [_number(type_, decimal, sign) for decimal in SEPARATORS]
