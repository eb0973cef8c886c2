"""Readings of text as numbers, dates or times: SQL of DuckDB, NULL where a text does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

# Signs that are removed from the numbers of a column that has only one of them.
SIGNS: Final = r"(€|\$|£|¥|%|EUR|USD|GBP|CHF)"
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
    """A DuckDB type, and SQL that reads `{v}`, the trimmed text, `{n}`, its `plain` number, or `{raw}`, the value."""

    type: str
    sql: str
    convention: str = ""
    plain: str = "NULL"
    formats: tuple[str, ...] = ()


TEXT: Final = TextReading("VARCHAR", "{raw}")


def _number(type_: str, decimal: str) -> TextReading:
    """Return the reading as a type of numbers; a text that the type cannot hold exactly does not fit."""
    groups, simple = SEPARATORS[decimal], "{v}" if decimal == "." else "replace({v}, ',', '.')"
    only = "" if decimal == "." else "NOT contains({v}, '.') AND "
    grouped = rf"[-+]?[1-9]\d{{0,2}}([{groups}]\d{{3}})+([{decimal}]\d+)?"
    plain = (
        f"CASE WHEN {only}TRY_CAST({simple} AS DOUBLE) IS NOT NULL THEN {simple} WHEN regexp_full_match({{v}}, "
        f"'{grouped}') THEN replace(translate({{v}}, '{groups}', ''), ',', '.') END"
    )
    cast = f"TRY_CAST({{n}} AS {type_})"
    exact = f"{cast}::VARCHAR = ltrim({{n}}, '+')"
    if type_ in {"DOUBLE", "FLOAT"}:  # more than 15 digits, as in an account number, would be rounded
        exact = r"regexp_full_match({n}, '[-+]?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][-+]?\d+)?')"
    elif type_.startswith("DECIMAL"):
        exact = rf"NOT regexp_matches({{n}}, '\.\d{{{type_.rstrip(')').rpartition(',')[2]}}}\d*[1-9]')"
    return TextReading(type_, f"CASE WHEN {exact} THEN {cast} END", decimal, plain)


def date(type_: str, order: str, formats: Sequence[str] = ()) -> TextReading:
    """Return the reading as DATE or TIMESTAMP by these formats, or by all formats of an order."""
    first, second = ORDERS[order]
    days = _DAYS.replace("1", first).replace("2", second).split(",")
    times = ("",) if type_ == "DATE" else _TIMES
    tried = tuple(formats) or tuple(f"{day.replace(';', ',')}{time}" for time, day in product(times, days))
    parsed = f"TRY_CAST(try_strptime({{v}}, [{', '.join(map(repr, tried))}]) AS {type_})"
    sql = parsed if formats else f"CASE WHEN regexp_full_match({{v}}, '{DATE_LIKE}') THEN {parsed} END"
    return TextReading(type_, sql, order, formats=tried)


def readings(type_: str) -> list[TextReading]:
    """Return the ways to read text as a DuckDB type, one for each convention."""
    if type_ == TEXT.type:
        return [TEXT]
    if type_ == "BOOLEAN":
        return [TextReading(type_, "CASE lower({v}) WHEN 'true' THEN true WHEN 'false' THEN false END")]
    if type_ in {"DATE", "TIMESTAMP"}:
        return [date(type_, order) for order in ORDERS]
    if type_ == "TIMESTAMPTZ":
        return [
            TextReading(type_, f"CASE WHEN regexp_full_match({{v}}, '{_ZONED}') THEN TRY_CAST({{v}} AS {type_}) END")
        ]
    return [_number(type_, decimal) for decimal in SEPARATORS]
