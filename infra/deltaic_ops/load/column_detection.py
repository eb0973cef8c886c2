"""Find how the text of each column is read, and ask about text that has two readings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb
from deltaic.errors import InvalidParameter

from deltaic_ops.load.text_readings import DATE_LIKE, ORDERS, SEPARATORS, SIGNS, TEXT, TextReading, date, readings

# Types that are tried in this order; the first that fits all values of the sample is used.
_DETECTED = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMPTZ")
_DUCKDB_TYPES = {each: each for each in ("BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE")} | {
    "STRING": "VARCHAR", "BYTE": "TINYINT", "SHORT": "SMALLINT", "INT": "INTEGER", "INTEGER": "INTEGER",
    "LONG": "BIGINT", "BINARY": "BLOB", "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP",
}  # fmt: skip


class Question(NamedTuple):
    """A choice that only the user can make: the option that answers it, and its values with their meanings."""

    option: str
    text: str
    choices: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of the table, its name in the file, its reading, and the sign removed from numbers."""

    name: str
    original: str
    reading: TextReading = TEXT
    sign: str = ""

    @property
    def delta_type(self) -> str:
        """The type in Delta's terms."""
        return next((delta for delta, type_ in _DUCKDB_TYPES.items() if type_ == self.reading.type), self.reading.type)

    @property
    def source(self) -> str:
        """SQL for the value in the file; NULL for an empty cell."""
        quoted = f'"{self.name}"'
        if "{raw}" in self.reading.sql:
            return quoted
        return f"nullif(trim(replace({quoted}, '{self.sign}', '')), '')" if self.sign else f"nullif(trim({quoted}), '')"


def read_columns(columns: Sequence[LoadedColumn], relation: str) -> str:
    """Return SQL for values in the file, `s0`, and in the table, `v0`: NULL if a value does not fit."""
    sources, plains, values = [], [], []
    for number, column in enumerate(columns):
        sources.append(f"{column.source} AS s{number}")
        plains.append(f"{column.reading.plain.replace('{v}', f's{number}')} AS n{number}")
        sql = column.reading.sql.replace("{n}", f"n{number}").replace("{v}", f"s{number}")
        values.append(f"{sql.replace('{raw}', f's{number}')} AS v{number}")
    plain = f"SELECT *, {', '.join(plains)} FROM (SELECT {', '.join(sources)} FROM {relation})"
    return f"(SELECT *, {', '.join(values)} FROM ({plain}))"


class _Candidates(NamedTuple):
    """Readings that fit a sample equally well: two only if a text in `example` has two values."""

    column: LoadedColumn
    readings: Sequence[TextReading]
    example: tuple[str, ...] = ()


def duckdb_type(type_: str) -> str:
    """Return DuckDB's name of a Delta type; raises InvalidParameter."""
    upper = type_.upper().replace(" ", "")
    if not upper.startswith("DECIMAL(") and upper not in _DUCKDB_TYPES:
        raise InvalidParameter(f"'{type_}' is not a type: use {', '.join(sorted(_DUCKDB_TYPES))} or DECIMAL(10,2)")
    return _DUCKDB_TYPES.get(upper, upper)


def detect_columns(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[LoadedColumn],
    forced: Mapping[str, str],
    answers: Mapping[str, str],
    notes: list[str],
) -> tuple[list[LoadedColumn], list[Question]]:
    """Return the columns of the table `sample` with their readings, and questions; adds notes for the user.

    `forced` has DuckDB types by name; `answers` has the user's conventions, empty if unknown. A column that leaves its
    convention open follows the other columns if these follow only one.
    """
    detected = [_find_candidates(connection, column, forced.get(column.name, "")) for column in columns]
    result, questions = [], dict[str, Question]()
    for column, candidates, example in detected:
        reading = candidates[0]
        if example:
            family, option = (SEPARATORS, "decimal") if reading.convention in SEPARATORS else (ORDERS, "dates")
            others = {each.readings[0].convention for each in detected if not each.example} & family.keys()
            value = answers[option] or (others.pop() if len(others) == 1 else "")
            if not value:
                pairs = zip(candidates, example[1:], strict=True)
                choices = {each.convention: f"'{example[0]}' is {value}" for each, value in pairs}
                questions.setdefault(option, Question(option, f"{column.name} can be read in two ways", choices))
            elif not answers[option]:
                notes.append(f"{column.name} is read like the other columns (--{option} {value})")
            reading = next((each for each in candidates if each.convention == value), reading)
        sign = "" if reading.plain == "NULL" else column.sign
        if sign:
            notes.append(f"{column.name}: the sign {sign} is removed from the numbers")
        result.append(replace(column, reading=_keep_used_formats(connection, column.name, reading), sign=sign))
    return result, list(questions.values())


def _find_candidates(connection: duckdb.DuckDBPyConnection, column: LoadedColumn, forced: str) -> _Candidates:
    if forced == TEXT.type:
        return _Candidates(column, [TEXT])
    name = f'"{column.name}"'
    signs, total, dates = connection.execute(
        f"SELECT list(DISTINCT regexp_extract(v, '{SIGNS}')), count(v), count_if(regexp_full_match(v, '{DATE_LIKE}')) "
        f"FROM (SELECT nullif(trim({name}), '') AS v FROM sample)"
    ).fetchall()[0]
    present = [sign for sign in signs or [] if sign]
    column = replace(column, sign=present[0] if len(present) == 1 else "")
    # Hundreds of formats are tried only where they can fit.
    types = [forced] if forced else _DETECTED[3:] if dates == total else _DETECTED[:3]
    tried = [each for type_ in types for each in readings(type_)]
    query = read_columns([replace(column, reading=each) for each in tried], "sample")
    counts = ", ".join(f"count(v{number})" for number in range(len(tried)))
    fitting = connection.execute(f"SELECT {counts} FROM {query}").fetchall()[0]
    enough = max(fitting) if forced else max(total, 1)
    matching = [number for number, count in enumerate(fitting) if count == enough]
    if not matching:
        return _Candidates(column, [TEXT])
    first = tried[matching[0]]
    family = SEPARATORS if first.convention in SEPARATORS else ORDERS
    both = {tried[number].convention: number for number in reversed(matching) if tried[number].convention in family}
    if len(both) < 2:  # noqa: PLR2004 -- the two conventions
        return _Candidates(column, [first])
    this, other = both.values()
    texts = f"SELECT s0, v{this}::VARCHAR, v{other}::VARCHAR FROM {query} WHERE v{this} <> v{other} LIMIT 1"
    example = connection.execute(texts).fetchall()
    if not example:  # both conventions lead to the same values
        return _Candidates(column, [replace(first, convention="")])
    return _Candidates(column, [tried[this], tried[other]], example[0])


def _keep_used_formats(connection: duckdb.DuckDBPyConnection, name: str, reading: TextReading) -> TextReading:
    """Return a reading of dates with only the formats that the sample has, and other readings unchanged."""
    if not reading.formats:
        return reading
    counts = ", ".join(f"count(try_strptime(v, '{each}'))" for each in reading.formats)
    shape = "regexp_replace(regexp_replace(v, '[0-9]', '9', 'g'), '[A-Za-z]', 'a', 'g')"  # one value of each shape
    values = f'SELECT any_value(v) AS v FROM (SELECT trim("{name}") AS v FROM sample) GROUP BY {shape}'
    matches = connection.execute(f"SELECT {counts} FROM ({values})").fetchall()[0]
    used = [each for each, count in zip(reading.formats, matches, strict=True) if count]
    return date(reading.type, reading.convention or "day-first", used) if used else reading
