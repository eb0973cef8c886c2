"""A table with every type and text that CSV has a rule for, and the bytes of its CSV file."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa

BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
NESTED: Final = pa.struct([
    ("when", pa.timestamp("us", "UTC")),
    ("amount", pa.decimal128(38, 10)),
    ("list", pa.list_(pa.float64())),
    ("data", pa.binary()),
])  # fmt: skip

COLUMNS: Final[list[tuple[str, pa.DataType, list[Any], list[str]]]] = [
    ("yes", pa.bool_(), [True, False, None], ["true", "false", ""]),
    ("long", pa.int64(), [2**63 - 1, -(2**63), None], ["9223372036854775807", "-9223372036854775808", ""]),
    (
        "decimal",
        pa.decimal128(38, 10),
        [Decimal("1E-10"), Decimal("-1234567890123456789012345678.5"), None],
        ["0.0000000001", "-1234567890123456789012345678.5000000000", ""],
    ),
    ("whole", pa.decimal128(20, 0), [Decimal(0), Decimal(-7), None], ["0", "-7", ""]),
    ("double", pa.float64(), [0.1 + 0.2, 123456789012345680000.0, 1e21],
     ["0.30000000000000004", "123456789012345680000", "1e+21"]),
    ("small", pa.float64(), [0.000001, 0.00000015, -0.0], ["0.000001", "1.5e-7", "-0"]),
    ("special", pa.float64(), [float("nan"), float("inf"), float("-inf")], ["NaN", "Infinity", "-Infinity"]),
    ("float", pa.float32(), [0.1, 16777216.0, None], ["0.1", "16777216", ""]),
    ("date", pa.date32(), [date(2026, 3, 2), date(1, 1, 1), None], ["2026-03-02", "0001-01-01", ""]),
    (
        "time",
        pa.timestamp("us", "UTC"),
        [datetime(2026, 3, 2, 10, 0, 10, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 500000, UTC), BEFORE_1970],
        ["2026-03-02T10:00:10Z", "9999-12-31T23:59:59.5Z", "1969-12-31T23:59:59.999999Z"],
    ),
    (
        "local",
        pa.timestamp("us"),
        [datetime(2026, 3, 2, 10, 0), datetime(2026, 3, 2, 10, 0, 0, 120), None],  # noqa: DTZ001 -- without zone
        ["2026-03-02T10:00:00", "2026-03-02T10:00:00.00012", ""],
    ),
    ("binary", pa.binary(), [b"\0\xffA", b"", None], ["00ff41", '""', ""]),
    ("text", pa.string(), ["", None, " kept "], ['""', "", " kept "]),
    ("lines", pa.string(), ['say "hi"', "a\nb", "c\r\nd"], ['"say ""hi"""', '"a\nb"', '"c\r\nd"']),
    ("formulas", pa.string(), ["=1+1", "+1,5", "-x"], ["=1+1", '"+1,5"', "-x"]),
    ("others", pa.string(), ["@a", "\ttab", "\rreturn"], ["@a", "\ttab", '"\rreturn"']),
    ("=name", pa.string(), ["M\u00fcnchen", "\u4e2d\U0001f600", "a=1"], ["M\u00fcnchen", "\u4e2d\U0001f600", "a=1"]),
    ("array", pa.list_(pa.string()), [["=a", None, 'b"\n'], [], None], ['"[""=a"",null,""b\\""\\n""]"', "[]", ""]),
    ("map", pa.map_(pa.string(), pa.float32()), [[("\u00e9", 0.1)], [("n", float("nan")), ("x", None)], None],
     ['"{""\u00e9"":0.1}"', '"{""n"":""NaN"",""x"":null}"', ""]),
    (
        'a, "struct"',
        NESTED,
        [
            {"when": datetime(2026, 3, 2, tzinfo=UTC), "amount": Decimal("0E-10"), "list": [1e15, None], "data": b"\1"},
            {"when": None, "amount": None, "list": None, "data": None},
            None,
        ],
        [
            '"{""when"":""2026-03-02T00:00:00Z"",""amount"":0.0000000000,""list"":[1000000000000000,null],""data"":""01""}"',
            '"{""when"":null,""amount"":null,""list"":null,""data"":null}"',
            "",
        ],
    ),
]  # fmt: skip
"""Name, type, values and cells of each column. A later cell is empty because a null is."""

FORMULAS: Final = (b"=1+1", b"+1,5", b"-x", b"@a", b"\ttab", b"\rreturn")
"""The texts in cells that a spreadsheet can run as formulas."""

_HEADER = [{'a, "struct"': '"a, ""struct"""'}.get(name, name) for name, *_ in COLUMNS]
_ROWS = zip(*(cells for *_, cells in COLUMNS), strict=True)
EXPECTED: Final = "".join(f"{','.join(row)}\r\n" for row in [_HEADER, *_ROWS]).encode()


def guarded() -> bytes:
    """Return the bytes with `'` before each formula."""
    content = EXPECTED
    for text in (*FORMULAS, b"=name"):
        assert content.count(text) == 1
        content = content.replace(text, b"'" + text)
    return content


def write_table(folder: Path) -> None:
    """Write the rows to a Delta table."""
    columns = [pa.array(values, kind) for _, kind, values, _ in COLUMNS]
    deltalake.write_deltalake(str(folder), pa.table(columns, [name for name, *_ in COLUMNS]))
