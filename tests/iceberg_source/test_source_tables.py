"""Test that Delta clients read the rows of generated Iceberg tables, and that hints never lose one."""

import math
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltaic.iceberg_source.source_snapshot import IcebergSnapshot
from deltaic.partition_filters import parse
from deltaic.pruning import file_filter, parse_hints
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.rights.table_visibility import visibility_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iceberg_source.folder_catalog import FolderCatalog, client_rows, sorted_rows, source_of, without_zone
from laws import tries
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

COLUMNS: Final = {
    "id": (LongType(), st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1)),
    "small": (IntegerType(), st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)),
    "num": (DoubleType(), st.sampled_from([-0.0, 0.0, 1.5, float("nan"), float("inf")]) | st.floats()),
    "price": (DecimalType(10, 2), st.decimals(-99_999_999, 99_999_999, places=2)),
    "day": (DateType(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "ts": (TimestampType(), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),  # noqa: DTZ001
    "tz": (TimestamptzType(), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))),  # noqa: DTZ001
    "name": (StringType(), st.sampled_from(["", "a", "b", "a" * 20, "z%2F /", "ü\U0001f600"])),
    "data": (BinaryType(), st.binary(max_size=3)),
    "flag": (BooleanType(), st.booleans()),
    "inner": (StructType(NestedField(100, "x", LongType())), st.fixed_dictionaries({"x": st.none() | st.just(3)})),
    "items": (ListType(101, LongType(), element_required=False), st.lists(st.none() | st.integers(0, 3), max_size=2)),
}  # fmt: skip
PARTITIONED: Final = ["id", "small", "price", "day", "ts", "tz", "name", "flag"]
PARTS: Final = st.lists(st.sampled_from(PARTITIONED), max_size=2, unique=True)
ROWS: Final = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}), max_size=5
)


def _create(catalog: FolderCatalog, name: str, parts: Sequence[str], columns: Sequence[str] = tuple(COLUMNS)) -> Any:
    fields = [NestedField(at, column, COLUMNS[column][0]) for at, column in enumerate(columns, start=1)]
    ids = {field.name: field.field_id for field in fields}
    by = [PartitionField(ids[column], 1000 + at, IdentityTransform(), f"p{at}") for at, column in enumerate(parts)]
    return catalog.create_table(name, Schema(*fields), partition_spec=PartitionSpec(*by))


def _append(table: Any, rows: Sequence[dict[str, Any]]) -> None:
    table.append(pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow()))


ROW_FILTERS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "id": ("id > 0", lambda value: value > 0),
    "small": ("small in (1, 2, 3)", lambda value: value in {1, 2, 3}),
    "name": ("name <> 'a'", lambda value: value != "a"),
    "flag": ("flag = true", bool),
    "day": ("day is not null", lambda _: True),
    "price": ("price < 0.5", lambda value: value < Decimal("0.5")),
}
"""Row filters on partition columns."""


def _check_row_filters(snapshot: IcebergSnapshot, location: str) -> None:
    """Assert that a filtered recipient gets exactly the rows that the filter selects."""
    rows = client_rows(snapshot, location)
    for column in snapshot.metadata.partition_columns:
        text, selects = ROW_FILTERS[column]
        visibility = visibility_of(Rights((parse(text),)), snapshot.metadata)
        visible = client_rows(snapshot, location, visibility.row_filter(None))
        expected = [row for row in rows.to_pylist() if row[column] is not None and selects(row[column])]
        assert sorted(map(repr, visible.to_pylist())) == sorted(map(repr, expected))
        assert visibility.totals(snapshot).num_files <= snapshot.totals().num_files


def _expected(table: Any, snapshot_id: int) -> Sequence[Any]:
    is_latest = snapshot_id == table.metadata.current_snapshot_id
    scan = table.scan() if is_latest else table.scan(snapshot_id=snapshot_id)
    return sorted_rows(scan.to_arrow(), without_zone)


@pytest.mark.slow
@given(
    parts=PARTS,
    columns=st.sets(st.sampled_from(list(COLUMNS))),
    commits=st.lists(ROWS, min_size=1, max_size=3),
    deleted=st.sampled_from(["id > 0", "name = 'a'", "flag = true", "small is null"]),
)  # fmt: skip
@settings(max_examples=tries(40), deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning")
def test_clients_read_the_rows_of_every_snapshot(
    parts: Sequence[str], columns: set[str], commits: Sequence[Sequence[dict[str, Any]]], deleted: str
) -> None:
    # The published client aborts if a file has none of the columns that it reads from files.
    columns |= {*parts, deleted.split(maxsplit=1)[0], "num"}
    with tempfile.TemporaryDirectory() as folder:
        table = _create(FolderCatalog(Path(folder)), "table", parts, sorted(columns))
        for rows in commits:
            _append(table, [{name: row[name] for name in columns} for row in rows])
        table.delete(deleted)
        _check_row_filters(source_of(table).snapshot(), table.metadata.location)
        with table.update_schema() as update:
            update.rename_column("data", "bytes") if "data" in columns else None
            update.update_column("small", LongType()) if "small" in columns else None
            update.delete_column("flag") if "flag" in columns - {*parts} else None
            update.add_column("later", StringType())
        log = source_of(table)
        for snapshot in table.metadata.snapshots:
            rows_read = client_rows(log.snapshot(snapshot.sequence_number), table.metadata.location)
            assert sorted_rows(rows_read, without_zone) == _expected(table, snapshot.snapshot_id)


Predicate = tuple[str, Callable[[dict[str, Any]], bool]]


def _is(row: dict[str, Any], name: str, test: Callable[[Any], bool]) -> bool:
    return row[name] is not None and test(row[name])


PREDICATES: Final[Sequence[Predicate]] = (
    ("id >= 2", lambda row: _is(row, "id", lambda value: value >= 2)),
    ("small < 0", lambda row: _is(row, "small", lambda value: value < 0)),
    ("num > 1.0", lambda row: _is(row, "num", lambda value: value > 1.0 or math.isnan(value))),
    ("price <= 0.5", lambda row: _is(row, "price", lambda value: value <= Decimal("0.5"))),
    ("day < date '1970-01-01'", lambda row: _is(row, "day", lambda value: value < date(1970, 1, 1))),
    ("name = 'b'", lambda row: _is(row, "name", lambda value: value == "b")),
    ("name > 'a'", lambda row: _is(row, "name", lambda value: value > "a")),
    ("name is null", lambda row: row["name"] is None),
    ("flag is not null", lambda row: row["flag"] is not None),
    ("id = 1 and name <= 'a'", lambda row: row["id"] == 1 and _is(row, "name", lambda value: value <= "a")),
    ("small = 3 or day is null", lambda row: row["small"] == 3 or row["day"] is None),
)


@pytest.mark.slow
@given(
    parts=PARTS,
    commits=st.lists(ROWS, min_size=1, max_size=3),
)  # fmt: skip
@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_hints_never_lose_a_row(parts: Sequence[str], commits: Sequence[Sequence[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = _create(FolderCatalog(Path(folder)), "table", parts)
        for rows in commits:
            _append(table, rows)
        snapshot = source_of(table).snapshot()
        everything = client_rows(snapshot, table.metadata.location)
        for text, matches in PREDICATES:
            kept = file_filter(parse_hints([text], None), snapshot.metadata)
            found = client_rows(snapshot, table.metadata.location, kept)
            rows_kept, all_rows = (
                [repr(row) for row in side.to_pylist() if matches(row)] for side in (found, everything)
            )
            assert sorted(rows_kept) == sorted(all_rows)
