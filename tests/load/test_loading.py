"""What a load asks, refuses and leaves: questions, rejected rows, existing tables, several files, interruptions."""

from __future__ import annotations

import csv
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import xlsxwriter  # type: ignore[import-untyped]
from deltaic.errors import AlreadyExists, InvalidParameter
from deltaic_ops.load.file_preview import preview
from deltaic_ops.load.proposed_names import propose_names
from deltaic_ops.load.table_load import LoadMode, LoadResult, load, stored_types
from deltaic_ops.load.text_files import LoadOptions
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return the folder of a table that does not exist yet."""
    (tmp_path / "table").mkdir()
    return tmp_path / "table"


def load_text(
    text: str,
    table: Path,
    mode: LoadMode = "create",
    most: int = 0,
    share: Callable[[], object] = lambda: None,
    **options: Any,
) -> LoadResult:
    path = table.parent / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with preview([path], LoadOptions(**options)) as files:
        return load(files, str(table), mode, max_rejected=most, share=share)


def rows(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(table).to_pyarrow_table().to_pylist(), key=repr)


@pytest.fixture
def press_ctrl_c() -> Iterator[Callable[[], None]]:
    """Send SIGINT to this process, also if it runs in the background, where a shell ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def parquet_files(table: Path) -> list[Path]:
    return sorted(table.rglob("*.parquet"))


DAYS = (("day-first", "2026-04-03"), ("month-first", "2026-03-04"))


@pytest.mark.parametrize(
    ("text", "option", "choices"),
    [
        ("d\n03/04/2026\n", "dates", {order: f"'03/04/2026' is {day}" for order, day in DAYS}),
        ("id;n\n1;1.234\n", "decimal", {".": "'1.234' is 1.234", ",": "'1.234' is 1234"}),
        ("2024;2025\n1;2\n", "header", {"yes": "it names the columns", "no": "it is a row of the table"}),
    ],
)  # fmt: skip
def test_text_with_two_readings_is_a_question(text: str, option: str, choices: dict[str, str], table: Path) -> None:
    path = table.parent / "a.csv"
    path.write_text(text)
    with preview([path], LoadOptions()) as files:
        assert [(each.option, each.choices) for each in files.questions] == [(option, choices)]
        with pytest.raises(InvalidParameter, match=f"--{option}"):
            load(files, str(table))
    assert list(table.iterdir()) == []


def test_an_answer_holds_for_the_columns_that_can_be_read_in_two_ways(table: Path) -> None:
    load_text("a;b\n1.234;2,50\n", table, decimal=",")
    assert rows(table) == [{"a": 1234, "b": 2.5}]


def test_rows_that_do_not_fit_are_listed_with_line_and_reason_and_nothing_is_loaded(table: Path) -> None:
    good = "".join(f"{number},x\n" for number in range(21_000))
    text = f'id,name\n1,"two\nlines"\n\n2,b,c\n3\n{good}n/a,z\n'
    with pytest.raises(InvalidParameter, match=r"3 rows do not fit, first line 5 of rows\.csv: too many columns"):
        load_text(text, table)
    with (table.parent / "rows.csv.rejected.csv").open() as file:
        listed = [*csv.reader(file)]
    assert listed == [
        ["line", "reason", "id", "name"],
        ["5", "too many columns", "2", "b", "c"],
        ["6", "missing columns", "3"],
        ["21007", "id is not BIGINT", "n/a", "z"],
    ]
    assert parquet_files(table.parent) == []
    result = load_text(text, table, most=3)
    assert (result.rows, result.rejected, len(rows(table))) == (21_001, 3, 21_001)


def test_decimals_that_the_type_would_round_do_not_fit(table: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"line 3 of rows\.csv: p is not DECIMAL\(10,2\)"):
        load_text("p\n1.25\n1.255\n", table, types={"p": "DECIMAL(10,2)"})


def test_a_row_of_a_sheet_is_listed_with_its_number_in_the_sheet(table: Path) -> None:
    path = table.parent / "a.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet()
        for row, cells in enumerate([["n", "text"], [1, "two\nlines"], [], ["x", "y"]], 3):
            page.write_row(row, 2, cells)
    refused = pytest.raises(InvalidParameter, match=r"first line 7 of a\.xlsx: n is not INT")
    with preview([path], LoadOptions(types={"n": "INT"})) as files, refused:
        load(files, str(table))


def test_an_existing_table_is_appended_to_or_replaced_only_by_request(table: Path) -> None:
    load_text("Größe (m)\n1.5\n", table)
    with pytest.raises(AlreadyExists, match="--append"):
        load_text("Größe (m)\n2\n", table)
    load_text("Größe (m)\n2\n", table, "append", types=stored_types(str(table), {}))
    assert rows(table) == [{"groesse_m": 1.5}, {"groesse_m": 2.0}]
    with pytest.raises(InvalidParameter, match="no column 'groesse_m'"):
        load_text("other\n2\n", table, "append", types=stored_types(str(table), {}))
    assert load_text("other\nx\n", table, "replace").version == 2
    assert rows(table) == [{"other": "x"}]


def test_the_name_in_the_file_becomes_the_comment(table: Path) -> None:
    load_text("Umsatz (€),id\n1,2\n", table)
    fields = DeltaTable(table).schema().fields
    assert [(each.name, each.metadata) for each in fields] == [("umsatz_eur", {"comment": "Umsatz (€)"}), ("id", {})]


def test_names_are_unique_and_plain() -> None:
    originals = ["id", "ID", "", "2026 Q1", "a b", "a-b", "Straße & Ort", "名前", "x%"]
    assert propose_names(originals) == [
        "id", "ID_2", "column_3", "_2026_q1", "a_b", "a_b_2", "strasse_and_ort", "名前", "x_percent",
    ]  # fmt: skip


def test_several_files_become_one_table_in_any_order_of_columns(table: Path) -> None:
    first, second, other = (table.parent / name for name in ("a.csv", "b.tsv", "c.csv"))
    first.write_text("id,n\n1,2\n")
    second.write_text("n\tid\n2.5\t7\n")
    other.write_text("id,x\n1,2\n")
    with preview([first, second], LoadOptions()) as files:
        load(files, str(table))
    assert rows(table) == [{"id": 1, "n": 2.0}, {"id": 7, "n": 2.5}]
    with pytest.raises(InvalidParameter, match="n, x differ"), preview([first, other], LoadOptions()):
        pass


def load_during(thread: threading.Thread, path: Path, table: Path, mode: LoadMode = "create") -> None:
    """Start the thread after the preview, and load the file."""
    with preview([path], LoadOptions(header="yes")) as files:
        thread.start()
        load(files, str(table), mode)


@pytest.mark.parametrize("existing", [False, True], ids=["new table", "existing table"])
def test_an_interrupted_load_leaves_the_table_as_it_was(
    existing: bool, table: Path, press_ctrl_c: Callable[[], None]
) -> None:
    path = table.parent / "rows.csv"
    if existing:
        load_text("n\n1\n", table)
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(2_000_000)))
    before = parquet_files(table)
    with pytest.raises(KeyboardInterrupt):
        load_during(threading.Timer(0.05, press_ctrl_c), path, table, "append")
    assert parquet_files(table) == before
    assert DeltaTable.is_deltatable(str(table)) is existing


@pytest.mark.slow
def test_a_load_that_is_interrupted_during_the_write_removes_its_files(
    table: Path, press_ctrl_c: Callable[[], None]
) -> None:
    def press_during_the_first_file() -> None:
        while not any(each.is_file() for each in table.rglob("*")):
            time.sleep(0.001)
        press_ctrl_c()

    path = table.parent / "rows.csv"
    with path.open("w") as file:  # more than is written at once
        file.writelines(f"{random.random()},{random.random()}\n" for _ in range(3_000_000))  # noqa: S311
    with pytest.raises(KeyboardInterrupt):
        load_during(threading.Thread(target=press_during_the_first_file, daemon=True), path, table)
    assert [each for each in table.rglob("*") if each.is_file()] == []


def test_a_new_table_that_cannot_be_shared_is_removed(table: Path) -> None:
    def refuse() -> None:
        assert parquet_files(table)
        raise InvalidParameter("no")

    other = table / "other.txt"
    other.write_text("")
    with pytest.raises(InvalidParameter, match="no"):
        load_text("n\n1\n", table, share=refuse)
    assert [each for each in table.rglob("*") if each.is_file()] == [other]


def test_an_interruption_after_the_commit_is_too_late(table: Path, press_ctrl_c: Callable[[], None]) -> None:
    def share() -> str:
        press_ctrl_c()
        time.sleep(0.2)
        return "shared"

    assert load_text("n\n1\n", table, share=share).shared == "shared"
    assert rows(table) == [{"n": 1}]


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("a.csv", b"", "a.csv is empty"),
        ("a.csv", b"a;b\n\x81;\x8d\n", "is not text in UTF-8 or Windows-1252: correct --encoding"),
        ("a.xlsx", b"PK\3\4 broken", "cannot be read as a workbook"),
        ("a.jsonl", b'{"a":1}\n{"a":', "Malformed JSON"),
        ("a.parquet", b"PAR1", "the files cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(name: str, content: bytes, refusal: str, table: Path) -> None:
    path = table.parent / name
    path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=refusal), preview([path], LoadOptions()):
        pass


@pytest.mark.parametrize("options", [{"types": {"x": "INT"}}, {"types": {"a": "NUMBER"}}], ids=["column", "type"])
def test_an_option_that_names_nothing_is_refused(options: dict[str, Any], table: Path) -> None:
    with pytest.raises(InvalidParameter, match="use"):
        load_text("a\n1\n", table, **options)


@pytest.mark.slow
def test_five_million_rows(table: Path) -> None:
    path = table.parent / "a.csv"
    with path.open("w") as file:
        file.write("id;amount\n")
        file.writelines(f"{number};{number % 1000},5\n" for number in range(5_000_000))
    with preview([path], LoadOptions()) as files:
        assert load(files, str(table)).rows == 5_000_000
    adds = DeltaTable(table).get_add_actions(flatten=True)
    assert sum(adds.column("num_records").to_pylist()) == 5_000_000
