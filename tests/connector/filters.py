"""Filters for the tests: each type with each operator and difficult values, then casts.

A filter is SQL over the columns of `values`. `{cast}` is replaced by a cast that returns null if it fails, which is
`cast` if Spark is not in ANSI mode.
"""

from collections.abc import Iterator
from typing import Final

from connector.values import VALUES

OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
PROBES: Final = {
    "ts": (
        "TIMESTAMP'2026-03-01 10:20:30.123456Z'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        "TIMESTAMP'2026-03-01 10:20:30.123Z'",
    ),
    "dt": ("DATE'2026-03-01'", "DATE'1969-12-31'"),
    "st": ("'x1'", "'日本😀'", "'o\\'clock'"),
    "i": ("10", "-2147483648"),
    "l": ("9007199254740993L", "-1L"),
    "b": ("true", "false"),
    "d": ("5.5D", "DOUBLE('NaN')", "0.0D"),
    "f": ("FLOAT(0.1)", "FLOAT('-0.0')", "FLOAT('NaN')"),
    "n": ("19.990", "5"),
}
"""For each column at least two of its values; comparisons use the first, equality all."""

CASTS: Final = {
    "ts": (
        "cast(ts as date) = DATE'2026-03-01'",
        "cast(ts as date) <> DATE'2026-03-01'",
        "cast(ts as date) IN (DATE'2026-03-01', DATE'1969-12-31')",
        "NOT (cast(ts as date) >= DATE'1970-01-01')",
        "to_date(ts) >= TIMESTAMP'2026-03-01 00:00:00'",
        "to_date(ts) < TIMESTAMP'2026-03-01 10:00:00'",
        "ts >= DATE'2026-03-01'",
        "ts < DATE'2026-03-01'",
        "ts = DATE'2026-03-01'",
        "ts = '2026-03-01 10:20:30.123456'",
        "ts > '1969-12-31 23:59:59.999998'",
        "ts < '2026-03-01'",
        "cast(ts as string) = '2026-03-01 10:20:30.123456'",
        "cast(ts as string) < '2026'",
        "cast(ts as bigint) = 1772360430",
        "cast(ts as double) > 1772360430.1231D",
        "cast(cast(ts as date) as timestamp) = TIMESTAMP'2026-03-01 00:00:00'",
        "year(ts) = 2026",
        "hour(ts) = 10",
        "date_trunc('DAY', ts) = TIMESTAMP'2026-03-01 00:00:00'",
        "ts < current_timestamp()",
        "ts > TIMESTAMP'2026-03-01 10:20:30.123456Z' - INTERVAL 1 MICROSECOND",
        "ts BETWEEN TIMESTAMP'2026-03-01 10:20:30.1234Z' AND TIMESTAMP'2026-03-01 10:20:30.1239Z'",
        "ts IN (TIMESTAMP'2026-03-01 10:20:30.123999Z', TIMESTAMP'1969-07-20 20:17:40.000001Z')",
        "NOT (ts <= TIMESTAMP'2026-03-01 10:20:30.123Z')",
        "ts > TIMESTAMP'1969-12-31 23:59:59.999Z'",
        "ts < TIMESTAMP'1969-12-31 23:59:59.9999999Z'",
    ),
    "dt": (
        "dt = TIMESTAMP'2026-03-01 00:00:00'",
        "dt < TIMESTAMP'2026-03-01 00:00:00.000001'",
        "dt >= TIMESTAMP'2026-03-01 03:00:00Z'",
        "dt > TIMESTAMP'2026-02-28 23:59:59.999999'",
        "cast(dt as timestamp) = TIMESTAMP'2026-03-01 00:00:00'",
        "cast(dt as timestamp) IN (TIMESTAMP'2026-03-01 00:00:00', TIMESTAMP'1970-01-01 00:00:00')",
        "dt = '2026-03-01'",
        "dt >= '2026-02'",
        "cast(dt as string) = '2026-03-01'",
        "cast(dt as string) < '1970'",
        "year(dt) = 2026",
        "dt + INTERVAL 1 DAY = DATE'2026-03-01'",
        "dt <= current_date()",
        "dt = ts",
        "dt <= cast(ts as date)",
    ),
    "st": (
        "st LIKE 'x%'",
        "st LIKE '%1'",
        "st LIKE 'x\\%'",
        "st LIKE '%'",
        "st NOT LIKE 'x%'",
        "st LIKE 'x%' AND i >= 9",
        "{cast}(st as date) = DATE'2026-03-01'",
        "{cast}(st as date) <> DATE'2026-03-02'",
        "{cast}(st as timestamp) >= TIMESTAMP'2026-03-01 00:00:00'",
        "{cast}(st as int) = 10",
        "{cast}(st as int) > 9",
        "{cast}(st as int) IS NULL",
        "{cast}(st as bigint) <= 9L",
        "{cast}(st as double) = 5.0D",
        "{cast}(st as double) > 9.0D",
        "{cast}(st as float) <> FLOAT(5)",
        "{cast}(st as boolean) = true",
        "{cast}(st as boolean) <=> NULL",
        "{cast}({cast}(st as int) as string) = '10'",
        "upper(st) = 'X1'",
        "trim(st) = 'lead'",
        "length(st) = 2",
        "st > 'o'",
        "st >= 'NaN' AND st < 'y'",
        "st < 'ÿ'",
        "st IN ('a\"b', 'a\\\\b', 'null')",
        "st = ''",
        "st <> ''",
        "st = 'null'",
        "st = 'a/b=c&d'",
        "st = ' lead'",
        "st > 'trail'",
    ),
    "i": (
        "i = 10L",
        "i = 10.0D",
        "i < 9.5D",
        "i = '10'",
        "i < '9'",
        "cast(i as string) = '10'",
        "cast(i as string) < '5'",
        "{cast}(i as smallint) = 10",
        "cast(i as bigint) > 2147483646L",
        "cast(i as bigint) = 2147483648L",
        "cast(i as float) = FLOAT(2147483647)",
        "cast(i as boolean) = true",
        "cast(i as timestamp) > TIMESTAMP'1970-01-01 00:00:09Z'",
        "i % 2 = 0",
        "try_add(i, 1) = 11",
        "coalesce(i, 0) = 0",
        "i IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)",
        "i IN (SELECT 10)",
        "i = l",
        "i <> id",
    ),
    "l": (
        "l = 10",
        "l = 9007199254740992D",
        "l > 9007199254740992D",
        "l = '10'",
        "{cast}(l as int) = 5",
        "{cast}(l as int) IS NULL",
        "cast(l as double) = 9.007199254740992E15D",
        "cast(l as float) >= FLOAT(9.007199E15)",
        "cast({cast}(l as int) as bigint) = 5L",
        "cast(l as string) = '9007199254740993'",
    ),
    "b": (
        "b",
        "NOT b",
        "b IS TRUE",
        "b IS NOT FALSE",
        "b = 'true'",
        "cast(b as int) = 1",
        "cast(b as string) = 'true'",
    ),
    "d": (
        "{cast}(d as bigint) = 5.0D",
        "{cast}(d as bigint) = 5",
        "{cast}(d as bigint) <> 5.0D",
        "{cast}(d as int) < 5.2D",
        "cast(d as float) = FLOAT(0.1)",
        "cast(cast(d as float) as double) = 0.1D",
        "cast(d as float) = FLOAT('Infinity')",
        "cast(d as string) = 'NaN'",
        "cast(d as string) = '-0.0'",
        "isnan(d)",
        "d = -0.0D",
        "d > DOUBLE('Infinity')",
        "d >= DOUBLE('NaN')",
        "d < DOUBLE('NaN')",
        "d <= DOUBLE('-Infinity')",
        "d IN (DOUBLE('NaN'), 5.0D)",
        "d = 5",
        "d = 0.1",
        "d > 5 AND d < 6",
        "round(d) = 5.0D",
    ),
    "f": (
        "f = 0.1D",
        "f > 0.1D",
        "f = 0.1",
        "f = 5",
        "cast(f as double) = 5.5D",
        "{cast}(f as int) = 5",
        "{cast}(f as int) = 5.5D",
        "cast(f as double) < 0.1D",
        "f = 16777217",
        "f >= FLOAT('NaN')",
        "f < FLOAT('NaN')",
        "f = FLOAT(0.0)",
        "cast(f as string) = 'NaN'",
    ),
    "n": (
        "{cast}(n as decimal(10,2)) = 19.99D",
        "{cast}(n as decimal(10,2)) = 19.99",
        "{cast}(n as decimal(10,2)) < 20.00",
        "cast(n as double) = 19.99D",
        "cast(n as double) > 19.994D",
        "n = 19.99D",
        "n = 5L",
        "n < 19.9945",
        "{cast}(n as int) = 19",
        "{cast}(n as bigint) = 19.0D",
        "cast(n as float) = FLOAT(19.99)",
        "cast(n as string) = '19.990'",
    ),
}
MIXED: Final = (
    "i = 10 AND st = 'x1'",
    "i = 10 OR st = 'x1'",
    "i = 10 AND id > 3",
    "i = 10 OR id = 2",
    "NOT (i = 10 OR l = 10)",
    "NOT (i = 10 AND l = 10)",
    "(i = 10 AND b) OR (dt = DATE'2026-03-01' AND NOT b) OR ts IS NULL",
    "i IS NULL AND id = 18",
    "n = 19.990 AND i < 100",
    "i > 5 AND i > 8 AND i < 11 AND i <> 9",
    "id >= 0",
    "false",
)
"""Filters on several columns; `id` is never a partition column."""

NOT_UTC: Final = (("America/New_York", False), ("Asia/Kolkata", True))
"""Session time zones, each with the ANSI mode of Spark."""


def filters() -> Iterator[str]:
    """Yield all filters."""
    for column in VALUES:
        yield from _comparisons(column)
        yield from CASTS[column]
    yield from MIXED


def limit_filters() -> Iterator[str]:
    """Yield the filters that are tested with a limit: their hints match more rows, or are not sent."""
    yield from (f"{column} = {probes[0]}" for column, probes in PROBES.items())
    for column in ("ts", "st", "d", "n"):
        yield from CASTS[column]
    yield from MIXED


def zone_filters() -> Iterator[str]:
    """Yield the filters whose meaning or hint depends on the session's time zone."""
    yield from (f"ts {operator} {PROBES['ts'][0]}" for operator in OPERATORS)
    yield f"ts IN ({PROBES['ts'][0]}, {PROBES['ts'][1]})"
    yield f"ts BETWEEN {PROBES['ts'][1]} AND {PROBES['ts'][0]}"
    yield from CASTS["ts"]
    yield from CASTS["dt"]


def _comparisons(column: str) -> Iterator[str]:
    first, second, *rest = PROBES[column]
    yield from (f"{column} {operator} {first}" for operator in OPERATORS)
    yield from (f"{column} {operator} {probe}" for probe in (second, *rest) for operator in ("=", ">"))
    yield f"{column} IN ({first}, {second})"
    yield f"{column} NOT IN ({first}, {second})"
    yield f"{column} NOT IN ({first}, NULL)"
    yield f"{column} BETWEEN {second} AND {first}"
    yield f"{column} IS NULL"
    yield f"{column} <=> NULL"
    yield f"NOT ({column} = {first})"
    yield f"NOT ({column} < {first})"
    yield f"{column} IS NULL OR {column} = {second}"
