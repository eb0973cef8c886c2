"""Find how the text of each column is read, and ask about text that has two readings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
from deltaic.errors import InvalidParameter

from deltaic_ops.load.text_files import LoadOptions, Question
from deltaic_ops.load.text_readings import DATE_LIKE, SEPARATORS, TEXT, TextReading, date, readings

# Types that are tried in this order; the first that fits all values of the sample is used.
_NUMBERS, _DATES = ("BOOLEAN", "BIGINT", "DOUBLE"), ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_SIGNS = "(€|\\$|£|¥|%|EUR|USD|GBP|CHF)"  # removed from the numbers of a column that has only one of them
_DUCKDB_TYPES = {each: each for each in ("BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE")} | {
    "STRING": "VARCHAR", "BYTE": "TINYINT", "SHORT": "SMALLINT", "INT": "INTEGER", "INTEGER": "INTEGER",
    "LONG": "BIGINT", "BINARY": "BLOB", "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of the table, its name in the file, and its reading."""

    name: str
    original: str
    reading: TextReading = TEXT

    @property
    def delta_type(self) -> str:
        """The type in Delta's terms."""
        return next((delta for delta, type_ in _DUCKDB_TYPES.items() if type_ == self.reading.type), self.reading.type)


def read_columns(columns: Sequence[LoadedColumn], relation: str) -> str:
    """Return SQL for values in the file, `s0`, and in the table, `v0`: NULL if a value does not fit."""
    sources, values = [], []
    for number, column in enumerate(columns):
        source = f'"{column.name}"' if column.reading.is_raw else f"nullif(trim(\"{column.name}\"), '')"
        sources.append(f"{source} AS s{number}")
        values.append(f"{column.reading.sql.replace('{v}', f's{number}')} AS v{number}")
    return f"(SELECT *, {', '.join(values)} FROM (SELECT {', '.join(sources)} FROM {relation}))"


def duckdb_type(type_: str) -> str:
    """Return DuckDB's name of a Delta type; raises InvalidParameter."""
    upper = type_.upper().replace(" ", "")
    if not upper.startswith("DECIMAL(") and upper not in _DUCKDB_TYPES:
        raise InvalidParameter(f"'{type_}' is not a type: use {', '.join(sorted(_DUCKDB_TYPES))} or DECIMAL(10,2)")
    return _DUCKDB_TYPES.get(upper, upper)


def detect_column(
    connection: duckdb.DuckDBPyConnection, column: LoadedColumn, chosen: str, options: LoadOptions
) -> tuple[TextReading, Question | None]:
    """Return the reading that fits a column of the table `sample`, and a question if there are two.

    `chosen` is a DuckDB type, empty if unknown.
    """
    signs, total, dates = connection.execute(
        f"SELECT list(DISTINCT nullif(regexp_extract(v, '{_SIGNS}'), '')), count(v), "
        f"count_if(regexp_full_match(v, '{DATE_LIKE}')) FROM (SELECT nullif(trim(\"{column.name}\"), '') v FROM sample)"
    ).fetchall()[0]
    present = [sign for sign in signs or [] if sign]
    # Hundreds of formats are tried only where they can fit.
    types = [chosen] if chosen else _DATES if dates == total else _NUMBERS
    tried = [each for type_ in types for each in readings(type_, present[0] if len(present) == 1 else "")]
    query = read_columns([replace(column, reading=each) for each in tried], "sample")
    counts = ", ".join(f"count(v{number})" for number in range(len(tried)))
    fitting = connection.execute(f"SELECT {counts} FROM {query}").fetchall()[0]
    enough = max(fitting) if chosen else max(total, 1)
    matches = dict[str, int]()
    for number, each in enumerate(tried):
        if fitting[number] == enough:
            matches.setdefault(each.convention, number)
    reading, question = next((tried[number] for number in matches.values()), TEXT), None
    if len(matches) > 1:
        first, second = matches.values()
        texts = f"SELECT s0, v{first}::VARCHAR, v{second}::VARCHAR FROM {query} WHERE v{first} <> v{second} LIMIT 1"
        for text, *values in connection.execute(texts).fetchall():
            option = "decimal" if reading.convention in SEPARATORS else "dates"
            if answer := getattr(options, option):
                reading = tried[matches[answer]]
            else:
                choices = {each: f"'{text}' is {value}" for each, value in zip(matches, values, strict=True)}
                question = Question(option, f"{column.name} can be read in two ways", choices)
    return _keep_used_formats(connection, column.name, reading), question


def _keep_used_formats(connection: duckdb.DuckDBPyConnection, name: str, reading: TextReading) -> TextReading:
    """Return a reading of dates with only the formats that the sample has, and other readings unchanged."""
    if not reading.formats:
        return reading
    counts = ", ".join(f"count(try_strptime(v, '{each}'))" for each in reading.formats)
    shape = "regexp_replace(regexp_replace(v, '[0-9]', '9', 'g'), '[A-Za-z]', 'a', 'g')"  # one value of each shape
    values = f'SELECT any_value(v) AS v FROM (SELECT trim("{name}") AS v FROM sample) GROUP BY {shape}'
    numbers = connection.execute(f"SELECT {counts} FROM ({values})").fetchall()[0]
    used = [each for each, number in zip(reading.formats, numbers, strict=True) if number]
    return date(reading.type, reading.convention, used) if used else reading
