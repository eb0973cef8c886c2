"""What a load asks, refuses and leaves: questions, rejected rows, existing tables, several files, interruptions."""

from __future__ import annotations

import csv
import threading
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.errors import AlreadyExists, InvalidParameter, Unavailable
from deltaic_ops.load.file_preview import LoadOptions, preview
from deltaic_ops.load.proposed_names import propose_names
from deltaic_ops.load.table_load import LoadMode, LoadResult, load, stored_types
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path


def load_text(text: str, table: Path, mode: LoadMode = "create", most: int = 0, **options: Any) -> LoadResult:
    path = table.parent / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with preview([path], LoadOptions(**options)) as files:
        return load(files, str(table), mode, max_rejected=most)


def rows(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(table).to_pyarrow_table().to_pylist(), key=repr)


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
def test_text_with_two_readings_is_a_question(text: str, option: str, choices: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with preview([path], LoadOptions()) as files:
        assert [(each.option, each.choices) for each in files.questions] == [(option, choices)]
        with pytest.raises(InvalidParameter, match=f"--{option}"):
            load(files, str(tmp_path / "table"))
    assert not (tmp_path / "table").exists()


def test_a_column_follows_the_convention_of_the_others(tmp_path: Path) -> None:
    load_text("a;b\n1.234;2,50\n", tmp_path / "table")
    assert rows(tmp_path / "table") == [{"a": 1234, "b": 2.5}]


def test_rows_that_do_not_fit_are_listed_with_line_and_reason_and_nothing_is_loaded(tmp_path: Path) -> None:
    good = "".join(f"{number},x\n" for number in range(21_000))
    text = f'id,name\n1,"two\nlines"\n\n2,b,c\n3\n{good}n/a,z\n'
    with pytest.raises(InvalidParameter, match=r"3 rows do not fit, first line 5 of rows\.csv: too many columns"):
        load_text(text, tmp_path / "table")
    with (tmp_path / "rows.csv.rejected.csv").open() as file:
        listed = [*csv.reader(file)]
    assert listed == [
        ["line", "reason", "id", "name"],
        ["5", "too many columns", "2,b,c"],
        ["6", "missing columns", "3"],
        ["21007", "id is not BIGINT", "n/a", "z"],
    ]
    assert parquet_files(tmp_path) == []
    result = load_text(text, tmp_path / "table", most=3)
    assert (result.rows, result.rejected, len(rows(tmp_path / "table"))) == (21_001, 3, 21_001)


def test_decimals_that_the_type_would_round_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"line 3 of rows\.csv: p is not DECIMAL\(10,2\)"):
        load_text("p\n1.25\n1.255\n", tmp_path / "table", types={"p": "DECIMAL(10,2)"})


def test_an_existing_table_is_appended_to_or_replaced_only_by_request(tmp_path: Path) -> None:
    table = tmp_path / "table"
    load_text("Größe (m)\n1.5\n", table)
    with pytest.raises(AlreadyExists, match="--append"):
        load_text("Größe (m)\n2\n", table)
    load_text("Größe (m)\n2\n", table, "append", table_types=stored_types(str(table), {}))
    assert rows(table) == [{"groesse_m": 1.5}, {"groesse_m": 2.0}]
    with pytest.raises(InvalidParameter, match="different columns: groesse_m, other"):
        load_text("other\n2\n", table, "append", table_types=stored_types(str(table), {}))
    assert load_text("other\nx\n", table, "replace").version == 2
    assert rows(table) == [{"other": "x"}]


def test_the_name_in_the_file_becomes_the_comment(tmp_path: Path) -> None:
    load_text("Umsatz (€),id\n1,2\n", tmp_path / "table")
    fields = DeltaTable(tmp_path / "table").schema().fields
    assert [(each.name, each.metadata) for each in fields] == [("umsatz_eur", {"comment": "Umsatz (€)"}), ("id", {})]


def test_names_are_unique_and_plain() -> None:
    originals = ["id", "ID", "", "2026 Q1", "a b", "a-b", "Straße & Ort", "名前", "x%"]
    assert propose_names(originals) == [
        "id", "ID_2", "column_3", "_2026_q1", "a_b", "a_b_2", "strasse_and_ort", "名前", "x_percent",
    ]  # fmt: skip


def test_several_files_become_one_table_in_any_order_of_columns(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("a.csv", "b.tsv", "c.csv"))
    first.write_text("id,n\n1,2\n")
    second.write_text("n\tid\n2.5\t7\n")
    other.write_text("id,x\n1,2\n")
    with preview([first, second], LoadOptions()) as files:
        load(files, str(tmp_path / "table"))
    assert rows(tmp_path / "table") == [{"id": 1, "n": 2.0}, {"id": 7, "n": 2.5}]
    with pytest.raises(InvalidParameter, match="n, x differ"), preview([first, other], LoadOptions()):
        pass


@pytest.mark.parametrize("existing", [False, True], ids=["new table", "existing table"])
def test_an_interrupted_load_leaves_the_table_as_it_was(existing: bool, tmp_path: Path) -> None:
    table, path = tmp_path / "table", tmp_path / "rows.csv"
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(400_000)))
    if existing:
        load_text("n\n1\n", table)
        path.write_text("n\n" + "".join(f"{number}\n" for number in range(400_000)))
    before, writing = parquet_files(table), threading.Event()

    def interrupt(done: int) -> None:
        writing.set()
        if done > 200_000:
            raise KeyboardInterrupt

    with preview([path], LoadOptions()) as files, pytest.raises((Unavailable, KeyboardInterrupt)):
        load(files, str(table), "append", progress=interrupt)
    assert writing.is_set()
    assert parquet_files(table) == before
    assert DeltaTable.is_deltatable(str(table)) is existing


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
def test_a_file_that_cannot_be_read_is_refused(name: str, content: bytes, refusal: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=refusal), preview([path], LoadOptions()):
        pass


@pytest.mark.parametrize("options", [{"types": {"x": "INT"}}, {"types": {"a": "NUMBER"}}], ids=["column", "type"])
def test_an_option_that_names_nothing_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="use"):
        load_text("a\n1\n", tmp_path / "table", **options)


@pytest.mark.slow
def test_five_million_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("id;amount\n")
        file.writelines(f"{number};{number % 1000},5\n" for number in range(5_000_000))
    with preview([path], LoadOptions()) as files:
        assert load(files, str(tmp_path / "table")).rows == 5_000_000
    adds = DeltaTable(tmp_path / "table").get_add_actions(flatten=True)
    assert sum(adds.column("num_records").to_pylist()) == 5_000_000
