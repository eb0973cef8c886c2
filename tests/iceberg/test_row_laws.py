"""Test that pyiceberg reads the rows of each version of generated tables."""

import math
import operator
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iceberg.metadata_folder import IcebergFolder, snapshot_rows
from iceberg.model_table import ModelColumn, ModelTable, Row
from laws import tries
from pyiceberg.expressions import EqualTo, GreaterThan, IsNull, LessThanOrEqual, Reference
from pyiceberg.table import StaticTable

pytestmark = pytest.mark.slow

NAN = math.nan
IS_NULL: Any = IsNull
"""Without type, because pyiceberg's type hints are wrong."""
CUT = "a" * 15 + "\U0010ffff" * 3
"""A text whose sixteenth character, where bounds are truncated, has no successor."""
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-3, 3),
    "double": st.floats(allow_nan=False) | st.sampled_from([-0.0, 0.0, 1.5, NAN]),
    "string": st.text(st.characters(codec="utf-8"), max_size=3) | st.sampled_from(["a" * 40, CUT]),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=3),
    "date": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "timestamp": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    "decimal(10,2)": st.decimals(-99_999_999, 99_999_999, places=2),
}
PARTITIONED = ("string", "integer", "date", "timestamp", "decimal(10,2)", "boolean")
COMPARED = ("long", "integer", "double", "string", "date", "timestamp", "decimal(10,2)")
TESTS: Sequence[tuple[Any, Callable[[Any, Any], bool]]] = (
    (EqualTo, operator.eq),
    (GreaterThan, operator.gt),
    (LessThanOrEqual, operator.le),
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[bool, list[ModelColumn], list[tuple[str, Any]]]:
    mapped = draw(st.booleans())
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    partitions = draw(st.lists(st.sampled_from(PARTITIONED), max_size=2))
    columns = [ModelColumn(f"p{at}", kind, at, is_partition=True) for at, kind in enumerate(partitions)]
    columns += [ModelColumn(f"c {at}", kind, len(partitions) + at) for at, kind in enumerate(kinds)]
    kinds_of_step = ["append", "append", "delete", "add"] + (["rename", "drop"] if mapped else [])
    steps = draw(st.lists(st.tuples(st.sampled_from(kinds_of_step), st.integers(0, 9)), min_size=1, max_size=5))
    return mapped, columns, [("append", 0), *steps]


def run_steps(table: ModelTable, steps: Sequence[tuple[str, int]], draw: Callable[[Any], Any]) -> None:
    for number, (step, position) in enumerate(steps):
        match step:
            case "append":
                # In a partition, an empty text is null.
                values = {
                    column.name: VALUES[column.type].filter(bool) if column.is_partition else VALUES[column.type]
                    for column in table.columns
                }
                row = st.fixed_dictionaries({name: st.none() | value for name, value in values.items()})
                table.append(draw(st.lists(row, min_size=1, max_size=5)))
            case "delete":
                table.delete(draw(st.lists(st.integers(0, 20), min_size=1, max_size=4)))
            case "add":
                table.add_column(f"added {number}", sorted(VALUES)[position % len(VALUES)])
            case "rename":
                table.rename(position, f"renamed {number}")
            case "drop":
                table.drop(position)


def _values(column: ModelColumn) -> st.SearchStrategy[Any]:
    values = VALUES[column.type]
    return values.filter(lambda value: value != "") if column.is_partition else values


def as_texts(rows: Sequence[Row]) -> list[str]:
    return sorted(repr({name: _in_utc(row[name]) for name in sorted(row)}) for row in rows)


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


@pytest.mark.parametrize("backwards", [False, True], ids=["as_commits_come", "newest_first"])
@settings(deadline=None, max_examples=tries(12), suppress_health_check=list(HealthCheck))
@given(plan=plans(), data=st.data())
def test_pyiceberg_reads_the_rows_of_every_version(backwards: bool, plan: Any, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, read = create_metadata(Path(folder), plan, data, backwards=backwards)
        for number, rows in enumerate(table.versions):
            assert as_texts(snapshot_rows(read, number).to_pylist()) == as_texts(rows), number


@settings(deadline=None, max_examples=tries(12), suppress_health_check=list(HealthCheck))
@given(plan=plans(), data=st.data())
def test_filters_lose_no_row_by_partitions_or_bounds(plan: Any, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, read = create_metadata(Path(folder), plan, data)
        last, rows = len(table.versions) - 1, table.versions[-1]
        for column in [column for column in table.columns if column.type in COMPARED]:
            nulls = snapshot_rows(read, last, row_filter=IS_NULL(Reference(column.name)))
            assert as_texts(nulls.to_pylist()) == as_texts([row for row in rows if row[column.name] is None])
            for value in {row[column.name] for row in rows} - {None, "", NAN}:
                literal = value.isoformat() if isinstance(value, datetime) else value
                for test, holds in TESTS:
                    matches = snapshot_rows(read, last, row_filter=test(column.name, literal))
                    expected = [row for row in rows if row[column.name] is not None and holds(row[column.name], value)]
                    assert as_texts(matches.to_pylist()) == as_texts(expected), (column, test, value)


def create_metadata(
    folder: Path, plan: Any, data: st.DataObject, *, backwards: bool = False
) -> tuple[ModelTable, StaticTable]:
    mapped, columns, steps = plan
    table = ModelTable(folder / "delta", columns, mapped)
    run_steps(table, steps, data.draw)
    iceberg = IcebergFolder(table.root, folder / "iceberg")
    versions = range(len(table.versions))
    index = iceberg.index(reversed(versions) if backwards else versions)
    return table, StaticTable.from_metadata(str(iceberg.write_document(index)))


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (3, 4, 2)], ids=str)
def test_version_is_read_only_with_its_vectors(order: Sequence[int], tmp_path: Path) -> None:
    """Vectors of other versions must be in other Puffin files, because pyiceberg applies all of a file."""
    columns = [ModelColumn("p", "integer", 0, is_partition=True), ModelColumn("x", "long", 1)]
    table = ModelTable(tmp_path / "delta", columns, mapped=False)
    table.append([{"p": part, "x": number} for part in range(2) for number in range(4)])
    table.delete([4])
    table.delete([0])
    table.delete([0])
    iceberg = IcebergFolder(table.root, tmp_path / "iceberg")
    read = StaticTable.from_metadata(str(iceberg.write_document(iceberg.index(order))))
    for number in order:
        assert as_texts(snapshot_rows(read, number).to_pylist()) == as_texts(table.versions[number])
