"""Test that texts from Excel, SAP, pandas and databases become plain Python's values, or are malformed."""

import csv
import json
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltaic_pipeline.table.malformed_rows import MISFIT
from deltaic_pipeline.table.sources import Source, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TEXTS = 2_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONE = re.compile(r"(?<=.{16}) ?(Z|UTC|GMT|[+-]\d\d(:?\d\d)?)$", re.ASCII)
TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d(:\d\d([.]\d{1,6}0*)?)?)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)


def of_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def of_integer(text: str, bits: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(text)
    return int(text)


def of_decimal(text: str, precision: int, scale: int) -> Decimal:
    value = Decimal(text) if NUMBER.fullmatch(text) else Decimal("NaN")
    scaled = value.scaleb(scale)
    if not value.is_finite() or scaled != int(scaled) or abs(scaled) >= 10**precision:
        raise ValueError(text)
    return value


def of_float(text: str, width: str) -> float:
    if re.fullmatch("NaN|-?Inf|[+-]?Infinity", text):
        return float(text)
    mantissa, _, exponent = text.lower().partition("e")
    if not NUMBER.fullmatch(mantissa) or ("e" in text.lower() and not re.fullmatch(r"[+-]?\d+", exponent, re.ASCII)):
        raise ValueError(text)
    try:
        value: float = struct.unpack(width, struct.pack(width, float(text)))[0]
    except OverflowError:
        raise ValueError(text) from None
    if value in {float("inf"), float("-inf")} or (value == 0 and float(Decimal(mantissa))):
        raise ValueError(text)
    integer = re.fullmatch(r"[+-]?\d+(\.0*)?", text, re.ASCII)
    if integer and Decimal(value) != Decimal(text):
        raise ValueError(text)
    return value


def of_day(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()


def of_local(text: str) -> int:
    """Return the microseconds of a local time since 1970."""
    match = TIMESTAMP.fullmatch(text)
    if not match:
        raise ValueError(text)
    fraction = match[4] or ""
    instant = datetime.fromisoformat(f"{text.removesuffix(fraction)}+00:00" if match[2] else f"{text} 00:00+00:00")
    return (instant - EPOCH) // timedelta(microseconds=1) + int(fraction[1:7].ljust(6, "0"))


def of_moment(text: str) -> int:
    match = ZONE.search(text)
    if not match:
        return of_local(text)
    local, digits = text[: match.start()], re.sub(r"\D", "", match[0]).ljust(4, "0")
    if local.count(":") != 2 or int(digits[2:]) > 59 or int(digits) > 1800:  # zones have no seconds and at most 18 h
        raise ValueError(text)
    offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000
    return of_local(local) + (offset if "-" in match[0] else -offset)


PLAIN_PARSERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "flag": ("BOOLEAN", of_boolean),
    "small": ("INT", lambda text: of_integer(text, 32)),
    "large": ("BIGINT", lambda text: of_integer(text, 64)),
    "price": ("DECIMAL(10,2)", lambda text: of_decimal(text, 10, 2)),
    "exact": ("DECIMAL(38,10)", lambda text: of_decimal(text, 38, 10)),
    "single": ("FLOAT", lambda text: of_float(text, "f")),
    "double": ("DOUBLE", lambda text: of_float(text, "d")),
    "day": ("DATE", of_day),
    "at": ("TIMESTAMP", of_moment),
    "local": ("TIMESTAMP_NTZ", of_local),
    "note": ("STRING", str),
}
"""Types, and parsers in plain Python, which raise ValueError or KeyError."""

HABITS = [
    *(
        "",
        "-",
        "#N/A",
        "#VALUE!",
        "N/A",
        "NULL",
        "null",
        "None",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Inf",
        "-Infinity",
        "\\N",
    ),
    *("TRUE", "False", "true", "t", "yes", "1", "0", "x", "WAHR", "00", "-0", "-0.0", "+5", "007", "5.", ".5", "."),
    *("1,50", "1.234,56", "1,234.56", "1'000", "1 000", "1\u00a0000", "1_000", "12-", "12.50-", "(12)", "$5", "5 %"),
    *(
        " 1",
        "1 ",
        "\t1",
        "1.0",
        "1.50",
        "1.500",
        "1.234",
        "1E+05",
        "1e5",
        "1.5E-3",
        "1e400",
        "1e-400",
        "-1e400",
        "1e39",
    ),
    *(
        "12d",
        "12f",
        "12L",
        "0x10",
        "0x1p3",
        "\u0661\u0662",
        "\uff11\uff12",
        "9007199254740993",
        "9007199254740992",
        "16777217",
        "3e9",
    ),
    *("2147483648", "-2147483648", "9223372036854775808", "99999999.99", "999999999.99", "0." + "0" * 11 + "1"),
    *("12345678901234567890123456789012345678", "1" * 39, "1.00000000000", "46023", "46023.5", "20260101", "2026"),
    *("01.02.2026", "1/2/2026", "02/01/26", "2026-1-2", "2026-02-30", "2024-02-29", "0000-00-00", "0000-01-01"),
    *(
        "9999-12-31",
        "10000-01-01",
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00",
        "2026-01-01 x",
        "2026-01-01T",
        "10:00",
    ),
    *(
        "10:00:00",
        "2026-01-01 24:00:00",
        "2026-01-01 10:00",
        "2026-01-01T10:00Z",
        "2026-01-01T10:00:00Z",
        "1767225600000",
    ),
    *("2026-01-01 10:00:00+01:00", "2026-01-01 10:00:00+00", "2026-01-01T10:00:00.123456789", "2026-01-01 10:00:60"),
    *("2026-01-01 10:00:00.100000000", "2026-01-01 10:00:00 UTC", "2026-01-01 10:00:00 Europe/Berlin", "epoch", "now"),
    *(
        "1500-01-01",
        "1582-10-10 00:00:00",
        "1.2.2026 10:00",
        "\ufeff1",
        "ünï\u2028",
        "😀",
        '"quoted"',
        "a,b",
        "back\\slash",
    ),
]


def delivered(random: Random, kind: str) -> str:
    """Return a text for a type: correct, in another notation, or of another type."""
    if random.random() < 0.4:
        return random.choice(HABITS)
    sign, digits = random.choice(["", "-", "+"]), str(random.randrange(10 ** random.randrange(1, 21)))
    day = f"{random.randrange(1, 9999):04}-{random.randrange(1, 13):02}-{random.randrange(1, 31):02}"
    time = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    fraction = f".{random.randrange(10 ** random.randrange(1, 8))}"
    zone = random.choice(["", "Z", "+01:00", "-0330", " UTC", "+19:00", "+05"])
    texts = {
        "BOOLEAN": random.choice(["true", "false", "True", "FALSE"]),
        "DATE": day,
        "TIMESTAMP": f"{day}{random.choice(' T')}{time}{random.choice(['', fraction])}{zone}",
        "TIMESTAMP_NTZ": f"{day}{random.choice(' T')}{time}{random.choice(['', fraction])}",
        "STRING": "".join(random.choices("aZ0 ,;'\"\\/{}[]:üß€😀", k=random.randrange(9))),
    }
    number = sign + digits + random.choice(["", "", ".0", ".5", fraction, "e3", "E-2"])
    return texts.get(kind, sign + digits if kind in {"INT", "BIGINT"} and random.random() < 0.7 else number)


def rows_of_texts() -> list[dict[str, str]]:
    random = Random(198)  # noqa: S311 -- a test's
    rows = [{name: delivered(random, kind) for name, (kind, _) in PLAIN_PARSERS.items()} for _ in range(TEXTS)]
    return [{name: "x" if unclear(name, text) else text for name, text in row.items()} for row in rows]


def unclear(name: str, text: str) -> bool:
    """Return whether a text is an integer beyond BIGINT, for which Spark compares Java's digits."""
    integer = name in {"single", "double"} and re.fullmatch(r"[+-]?\d+(\.0*)?", text, re.ASCII)
    return bool(integer) and abs(Decimal(text)) >= 2**63


def expected(name: str, text: str) -> tuple[bool, Any]:
    """Return whether a text fits its column, and its value by plain Python."""
    try:
        return True, PLAIN_PARSERS[name][1](text)
    except (ValueError, KeyError):
        return False, None


SCHEMA = ", ".join(f"{name} {kind}" for name, (kind, _) in PLAIN_PARSERS.items())


def readable_columns(row: str = "") -> list[str]:
    """Return expressions for the columns of a row, with dates and timestamps readable for any year."""
    as_python = {"day": "CAST({} AS STRING)", "at": "unix_micros({})", "local": "unix_micros(CAST({} AS TIMESTAMP))"}
    return [f"{as_python.get(name, '{}').format(row + name)} AS {name}" for name in PLAIN_PARSERS]


def same(actual: Any, expected: Any) -> bool:
    return repr(actual) == repr(expected) if isinstance(expected, float) else bool(actual == expected)


def compare(row: Mapping[str, Any], texts: Mapping[str, str], description: str, *, empty: bool) -> None:
    """Assert that each text of a row became plain Python's value, or is reported as malformed."""
    wrong = {reason.partition(" ")[0] for reason in row[MISFIT] or ()}
    for name, text in texts.items():
        fits, value = (True, None) if empty and not text and name != "note" else expected(name, text)
        assert (name not in wrong) == fits, (description, name, text, row[name])
        assert not fits or same(row[name], value), (description, name, text, row[name], value)


def test_csv_texts_become_the_values_of_plain_python(spark: "SparkSession", tmp_path: Path) -> None:
    rows = rows_of_texts()
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([list(PLAIN_PARSERS), *(list(row.values()) for row in rows)])
    flagged = read(spark, Source("csv", [str(tmp_path / "a.csv")], schema=SCHEMA)).flagged
    match = flagged.selectExpr(*readable_columns(), MISFIT).collect()
    assert len(match) == TEXTS
    for row, texts in zip(match, rows, strict=True):
        compare(row.asDict(), texts, "CSV", empty=True)


def test_json_texts_and_numbers_become_the_values_of_plain_python(spark: "SparkSession", tmp_path: Path) -> None:
    rows = rows_of_texts()
    number = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)

    def token(text: str) -> str:
        return text if number.fullmatch(text) else json.dumps(text, ensure_ascii=len(text) % 2 == 0)

    def line(row: Mapping[str, str]) -> str:
        fields = ", ".join(f'"{name}": {token(text)}' for name, text in row.items())
        return f'{{{fields}, "within": {{{fields}}}, "several": [{{{fields}}}]}}'

    (tmp_path / "a.json").write_text("".join(f"{line(row)}\n" for row in rows))
    nested = SCHEMA.replace(" ", ": ").replace(",: ", ", ")
    schema = f"{SCHEMA}, within STRUCT<{nested}>, several ARRAY<STRUCT<{nested}>>"
    flagged = read(spark, Source("json", [str(tmp_path / "a.json")], schema=schema)).flagged
    inner = {"within": "within.", "listed": "element_at(several, 1)."}
    structs = [f"struct({', '.join(readable_columns(row))}) AS {name}" for name, row in inner.items()]
    match = flagged.selectExpr(*readable_columns(), MISFIT, *structs).collect()
    assert len(match) == TEXTS
    for row, texts in zip(match, rows, strict=True):
        compare(row.asDict(), texts, "JSON", empty=False)
        wrong = {name for name, text in texts.items() if not expected(name, text)[0]}
        reasons = {reason.partition(" ")[0] for reason in row[MISFIT] or ()}
        first = [f"within.{name}" for name in PLAIN_PARSERS if name in wrong][:1]
        assert reasons - PLAIN_PARSERS.keys() == {*first, *["several"] * bool(wrong)}, texts
        for name in PLAIN_PARSERS.keys() - wrong:
            assert same(row["within"][name], expected(name, texts[name])[1]), (name, texts[name])
            assert same(row["listed"][name], expected(name, texts[name])[1]), (name, texts[name])


OPTIONS: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "days of Germany": (
        {"dateFormat": "dd.MM.yyyy"},
        "DATE",
        {"01.02.2026": "2026-02-01", "2026-02-01": None, "30.02.2026": None, "1.2.2026": None, "01.02.2026 x": None},
    ),
    "names of months": (
        {"dateFormat": "d MMMM yyyy", "locale": "de"},
        "DATE",
        {"1 März 2026": "2026-03-01", "1 March 2026": None},
    ),
    "moments of Berlin": (
        {"timestampFormat": "dd.MM.yyyy HH:mm", "timeZone": "Europe/Berlin"},
        "TIMESTAMP",
        {"01.07.2026 12:00": "2026-07-01 10:00:00", "2026-07-01 12:00": None},
    ),
    "a time zone": (
        {"timeZone": "Europe/Berlin"},
        "TIMESTAMP",
        {
            "2026-07-01 12:00:00": "2026-07-01 10:00:00",
            "2026-07-01 12:00:00Z": "2026-07-01 12:00:00",
            "2026-03-29 02:30:00": None,  # the clocks went from 02:00 to 03:00
        },
    ),
    "words for no number": (
        {"nanValue": "n.a.", "positiveInf": "many"},
        "DOUBLE",
        {"n.a.": "NaN", "many": "Infinity", "-Inf": "-Infinity", "NaN": None, "nxa.": None, "1.5": "1.5"},
    ),
    "no value": ({"nullValue": "NULL"}, "INT", {"NULL": "null", "null": None, "1": "1"}),
    "blanks": ({"ignoreLeadingWhiteSpace": "true"}, "INT", {" 1": "1", "1 ": None}),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_of_the_reader_keep_their_meaning(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    options, kind, expected = OPTIONS[case]
    (tmp_path / "a.csv").write_text("x;y\n" + "".join(f"{text};\n" for text in expected))
    source = Source("csv", [str(tmp_path)], {"sep": ";", **options}, f"x {kind}, y STRING")
    rows = read(spark, source).flagged.selectExpr("coalesce(CAST(x AS STRING), 'null') AS x", MISFIT).collect()
    assert {text: row.x for text, row in zip(expected, rows, strict=True) if row[MISFIT] is None} == {
        text: value for text, value in expected.items() if value is not None
    }
    assert {reason for row in rows for reason in row[MISFIT] or ()} <= {f"x is not {kind}"}
