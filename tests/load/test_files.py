"""Files as people have them, loaded into Delta tables: DuckDB with options set by hand reads what is expected."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
import xlsxwriter  # type: ignore[import-untyped]
from deltaic_ops.load.file_preview import preview
from deltaic_ops.load.table_load import load
from deltaic_ops.load.text_files import LoadOptions
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# ruff: noqa: S608 -- queries of the oracle
CSV = "read_csv('{file}', all_varchar=true, header=true, delim="


class Case(NamedTuple):
    """A file, and the query with which DuckDB reads the rows that a person expects."""

    name: str
    content: bytes | Callable[[Path], object]
    query: str
    options: LoadOptions = LoadOptions()


def sheet(path: Path, rows: list[list[Any]], start: int = 0, merged: tuple[str, ...] = ()) -> None:
    """Write a workbook with rows from a row on; merged ranges have the value after their colon-separated cells."""
    with xlsxwriter.Workbook(str(path), {"default_date_format": "dd.mm.yyyy"}) as book:
        page = book.add_worksheet("Data")
        for each in merged:
            area, text = each.split("=")
            page.merge_range(area, text)
        for number, row in enumerate(rows, start):
            for column, value in enumerate(row):
                if value is not None:
                    page.write(number, column, value)


def merged_header(path: Path) -> None:
    rows: list[list[Any]] = [[None, "Jan", "Feb", "Mar", "Apr"], ["Nord", 1, 2.5, 3, 4], ["Süd", 5, 6, 7, 8]]
    sheet(path, rows, 4, ("A1:E1=Sales 2026", "A2:E2=preliminary", "A4:A5=Region", "B4:C4=Q1", "D4:E4=Q2"))


def merged_header_in_the_middle(path: Path) -> None:
    rows: list[list[Any]] = [[None] * 2 + row for row in (["Region", "Q1", None], [None, "Jan", "Feb"])]
    sheet(path, [*rows, [None, None, "Nord", 1, 2], [None, None, "Süd", 3, 4]], 3, ("C4:C5=Region", "D4:E4=Q1"))


def parquet(path: Path) -> None:
    when = pa.array([datetime(2026, 1, 2, 3, 4, 5)] * 2, pa.timestamp("ns"))  # noqa: DTZ001 -- a local time
    pyarrow.parquet.write_table(pa.table({"Order No": pa.array([1, 2], pa.uint32()), "at": when}), path)


GERMAN = """Verkauf 2026;;;
Stand: heute
Region;Datum;Umsatz (€);PLZ
Nord;01.02.2026;1.234,50;01067
Süd;31.12.2026;-2,5;80331
"""
WIDE = (
    ",".join(f"c{n}" for n in range(300)) + "\n" + "\n".join(",".join(f"{n * r}" for n in range(300)) for r in (1, 2))
)
CASES = {
    "semicolons, decimal commas, notes above, leading zeros": Case(
        "sales.csv",
        GERMAN.encode(),
        "SELECT Region, strptime(Datum, '%d.%m.%Y')::DATE, replace(replace(u, '.', ''), ',', '.')::DOUBLE, PLZ FROM "
        "read_csv('{file}', skip=3, header=false, delim=';', names=['Region', 'Datum', 'u', 'PLZ'], all_varchar=true)",
    ),
    "tabs": Case("a.tsv", b"id\tname\n1\tAnn, Bob\n2\t\n", "SELECT id::BIGINT, name FROM " + CSV + r"'\t')"),
    "quoted line breaks, doubled quotes": Case(
        "a.csv",
        b'id,text\n1,"two\nlines"\n2,"she said ""no"""\n',
        "SELECT * FROM (VALUES (1, 'two\nlines'), (2, 'she said \"no\"'))",
    ),
    "line breaks in the header": Case(
        "a.csv", b'"Amount\n(EUR)",n\n1,x\n2,y\n', "SELECT * FROM (VALUES (1, 'x'), (2, 'y'))"
    ),
    "mixed line ends": Case("a.csv", b"a,b\r\n1,2\n3,4\r\n", "SELECT * FROM (VALUES (1, 2), (3, 4))"),
    "Windows-1252": Case(
        "a.csv", "Straße;Preis\nHöhe €;1,5\n".encode("cp1252"), "SELECT 'Höhe €', 1.5::DOUBLE"
    ),
    "UTF-16": Case("a.csv", "name\tn\nZoë\t1\n".encode("utf-16"), "SELECT 'Zoë', 1"),
    "UTF-16 without a mark": Case("a.csv", "name;n\nZoe;1\n".encode("utf-16-le"), "SELECT 'Zoe', 1"),
    "UTF-8 with a byte order mark": Case("a.csv", b"\xef\xbb\xbfid,n\n1,2\n", "SELECT 1, 2"),
    "Windows line ends": Case("a.csv", b"id,n\r\n1,x\r\n2,y\r\n", "SELECT id::BIGINT, n FROM " + CSV + "',')"),
    "leading zeros and long numbers": Case(
        "a.csv",
        b"plz,account,phone\n01067,12345678901234567890,+49 351\n10115,1,0351\n",
        "SELECT * FROM " + CSV + "',')",
    ),
    "currency and percent signs": Case(
        "a.csv",
        b'item,price,share\nx,"$1,234.50",12.5%\ny,$3,7 %\n',
        "SELECT * FROM (VALUES ('x', 1234.5::DOUBLE, 12.5::DOUBLE), ('y', 3, 7))",
    ),
    "apostrophes and spaces between thousands": Case(
        "a.csv",
        b"franc;euro;count\n1'234.5;1 234,5;1'000'000\n-0.5;12;2\n",
        "SELECT * FROM (VALUES (1234.5::DOUBLE, 1234.5::DOUBLE, 1000000), (-0.5, 12, 2))",
    ),
    "two currencies stay text": Case("a.csv", b"price\n$3\n4 EUR\n", "SELECT * FROM " + CSV + "',')"),
    "mixed formats of dates": Case(
        "a.csv",
        b'd\n2026-01-31\n31.01.2026\n"Feb 3, 2026"\n4-Mar-26\n',
        "SELECT unnest([DATE '2026-01-31', DATE '2026-01-31', DATE '2026-02-03', DATE '2026-03-04'])",
    ),
    "American dates, decided by the 25th": Case(
        "a.csv",
        b"d,t\n03/04/2026,03/04/2026 1:30 PM\n12/25/2026,12/25/2026 12:00 AM\n",
        "SELECT * FROM (VALUES (DATE '2026-03-04', TIMESTAMP '2026-03-04 13:30:00'), (DATE '2026-12-25', "
        "TIMESTAMP '2026-12-25 00:00:00'))",
    ),
    "times with zones": Case(
        "a.csv",
        b"t\n2026-01-31T10:00:05Z\n2026-01-31T10:00:05+02:00\n",
        "SELECT unnest([TIMESTAMPTZ '2026-01-31 10:00:05+00', TIMESTAMPTZ '2026-01-31 08:00:05+00'])",
    ),
    "dates and decimals by option": Case(
        "a.csv",
        b"d;n\n03/04/2026;1.234\n",
        "SELECT DATE '2026-04-03', 1.234::DOUBLE",
        LoadOptions(decimal=".", dates="day-first"),
    ),
    "300 columns": Case("a.csv", WIDE.encode(), "FROM read_csv('{file}')"),
    "0 rows": Case("a.csv", b"a;b;c\n", "SELECT '', '', '' WHERE false"),
    "no header": Case("a.csv", b"1,Rome\n2,Oslo\n", "FROM read_csv('{file}', header=false)", LoadOptions(header="no")),
    "types by option": Case(
        "a.csv",
        b"id,price\n7,1.5\n",
        "SELECT '7', 1.5::DECIMAL(10,2)",
        LoadOptions(types={"id": "string", "price": "DECIMAL(10, 2)"}),
    ),
    "all text": Case("a.csv", b"id,d\n1,2026-01-01\n", "SELECT '1', '2026-01-01'", LoadOptions(all_text=True)),
    "JSON lines": Case(
        "a.jsonl",
        b'{"id":1,"b c":"01067","in":{"x":1.5},"l":[1,2],"d":"2026-01-02"}\n{"id":2,"b c":null,"d":"2026-01-03"}\n',
        "FROM read_json('{file}')",
    ),
    "JSON, numbers and texts": Case(
        "a.json", b'[{"a":1},{"a":"x"}]', "SELECT unnest(['1', 'x'])"
    ),
    "Parquet": Case("a.parquet", parquet, "SELECT \"Order No\"::BIGINT, \"at\"::TIMESTAMP FROM read_parquet('{file}')"),
    "Excel, merged header, notes above it": Case(
        "a.xlsx", merged_header, "SELECT * FROM (VALUES ('Nord', 1, 2.5::DOUBLE, 3, 4), ('Süd', 5, 6, 7, 8))"
    ),
    "Excel, a table that does not begin in the first cell": Case(
        "a.xlsx", merged_header_in_the_middle, "SELECT * FROM (VALUES ('Nord', 1, 2), ('Süd', 3, 4))"
    ),
    "Excel, dates, booleans, empty rows and cells": Case(
        "a.xlsx",
        lambda path: sheet(path, [["d", "ok", "zip"], [date(2026, 1, 2), True, "01067"], [], [None, False, "1"]]),
        "SELECT * FROM (VALUES (DATE '2026-01-02', true, '01067'), (NULL, false, '1'))",
    ),
}  # fmt: skip


def write(case: Case, folder: Path) -> Path:
    path = folder / case.name
    if isinstance(case.content, bytes):
        path.write_bytes(case.content)
    else:
        case.content(path)
    return path


def stored_rows(location: Path) -> list[tuple[Any, ...]]:
    table = DeltaTable(location).to_pyarrow_table()
    with duckdb.connect() as connection:
        return sorted(connection.from_arrow(table).fetchall(), key=repr)


SLOW = {"300 columns"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, case in CASES.items()]
)
def test_a_file_becomes_the_expected_rows(case: Case, tmp_path: Path) -> None:
    path, table = write(case, tmp_path), tmp_path / "table"
    table.mkdir()
    with preview([path], case.options) as files:
        assert files.questions == []
        result = load(files, str(table))
    with duckdb.connect() as oracle:
        expected = oracle.execute(case.query.replace("{file}", str(path))).fetchall()
    assert stored_rows(table) == sorted(expected, key=repr)
    assert (result.rows, result.rejected, result.version) == (len(expected), 0, 0)
