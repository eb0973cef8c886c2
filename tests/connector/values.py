"""Values for the tests of filters: for each type those that are difficult in lines, URLs, statistics or casts."""

from typing import Final

NULL: Final = "NULL"
VALUES: Final = {
    "ts": (
        "TIMESTAMP'2026-03-01 10:20:30.123456Z'",
        "TIMESTAMP'2026-03-01 10:20:30.123Z'",
        "TIMESTAMP'2026-03-01 10:20:30.123999Z'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        "TIMESTAMP'1969-07-20 20:17:40.000001Z'",
        "TIMESTAMP'1970-01-01 00:00:00Z'",
        NULL,
        "TIMESTAMP'2026-03-01 00:00:00Z'",
        "TIMESTAMP'2026-03-01 03:30:00.5Z'",
        "TIMESTAMP'1899-12-31 12:00:00.25Z'",
        "TIMESTAMP'9999-12-30 23:59:59.999999Z'",
        "TIMESTAMP'2026-02-28 20:00:00Z'",
    ),
    "dt": (
        "DATE'2026-03-01'",
        "DATE'2026-02-28'",
        "DATE'1969-12-31'",
        "DATE'1970-01-01'",
        NULL,
        "DATE'2024-02-29'",
        "DATE'9999-12-30'",
        "DATE'1900-01-01'",
    ),
    "st": (
        "'x1'",
        "'x%'",
        "'10'",
        "'9'",
        NULL,
        "'2026-03-01'",
        "'o\\'clock'",
        "'a\"b'",
        "'a\\\\b'",
        "'日本😀'",
        "' lead'",
        "'trail '",
        "'true'",
        "'NaN'",
        "'null'",
        "'5.0'",
        "'a/b=c&d'",
    ),
    "i": ("10", "9", "0", "-1", NULL, "2147483647", "-2147483648", "5"),
    "l": ("10L", "9007199254740993L", "9007199254740992L", "-1L", NULL, "9223372036854775807L", "5L", "0L"),
    "b": ("true", "false", NULL),
    "d": (
        "5.0D",
        "5.5D",
        "-0.0D",
        "0.0D",
        "DOUBLE('NaN')",
        NULL,
        "DOUBLE('Infinity')",
        "DOUBLE('-Infinity')",
        "0.1D",
        "1.0E300D",
        "-5.5D",
    ),
    "f": (
        "FLOAT(5.5)",
        "FLOAT(0.1)",
        "FLOAT('NaN')",
        NULL,
        "FLOAT('-0.0')",
        "FLOAT('Infinity')",
        "FLOAT(16777216)",
        "FLOAT(5)",
        "FLOAT(-5.5)",
    ),
    "n": ("19.990", "19.994", "19.995", "-0.001", NULL, "999999999.999", "0.000", "5.000", "20.000"),
}
"""Values of each column as SQL."""

TYPES: Final = {
    "ts": "TIMESTAMP",
    "dt": "DATE",
    "st": "STRING",
    "i": "INT",
    "l": "BIGINT",
    "b": "BOOLEAN",
    "d": "DOUBLE",
    "f": "FLOAT",
    "n": "DECIMAL(12,3)",
}
ROWS: Final = 18


def rows() -> str:
    """Return the rows as SQL VALUES: each column repeats its values, and the last row has only nulls."""
    lines = [
        ", ".join([str(number), *(_typed(column, values[number % len(values)]) for column, values in VALUES.items())])
        for number in range(ROWS)
    ]
    lines.append(", ".join([str(ROWS), *(_typed(column, NULL) for column in VALUES)]))
    return ", ".join(f"({row})" for row in lines)


def _typed(column: str, value: str) -> str:
    return f"CAST({value} AS {TYPES[column]})"
