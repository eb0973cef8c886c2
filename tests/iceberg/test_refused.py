"""Test that tables that Iceberg clients would misread are refused with a reason before anything is written."""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_tables.handmade import metadata, protocol
from deltaic.delta.deletion_vectors import encode_z85
from deltaic.errors import DeltaicError, TableUnreadable, UnsupportedOperation
from deltaic.iceberg import data_footers
from deltaic.iceberg.generation import first_index, newer_index
from deltaic.iceberg.table_schema import field_ids, iceberg_schema
from iceberg.listed_table import ListedTable, add, footer
from partitioned_table import Metadata, column, schema

LIST = {"type": "array", "elementType": "long", "containsNull": True}
MAPPED = {"delta.columnMapping.mode": "name"}
COMPATIBLE = {**MAPPED, "delta.enableIcebergCompatV2": "true"}


def mapped_column(name: str, kind: Any, **properties: Any) -> dict[str, object]:
    column_metadata = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-7", **properties}
    return column(name, kind, **column_metadata)


def changed_column(before: str, after: str) -> dict[str, object]:
    return column("x", after, **{"delta.typeChanges": [{"fromType": before, "toType": after, "tableVersion": 1}]})


@pytest.mark.parametrize(
    ("columns", "configuration", "message"),
    [
        ([column("v", "variant")], {}, "column 'v' is of type variant"),
        ([column("a", {"type": "struct", "fields": [column("n", "void")]})], {}, "column 'a.n' is of type void"),
        ([column("i", "interval day to second")], {}, "column 'i' is of type interval day to second"),
        ([column("l", {**LIST, "elementType": "void"})], {}, "column 'l.element' is of type void"),
        ([mapped_column("l", LIST)], MAPPED, "column 'l' is an array or a map whose elements have no ids"),
        ([mapped_column("l", LIST)], COMPATIBLE, "column 'l' is an array or a map whose elements have no ids"),
        ([column("x", "long")], MAPPED, "column 'x' has no id"),
        ([mapped_column("x", "long"), mapped_column("y", "long")], MAPPED, "two of its columns have the same field id"),
        (
            [column("a.b", "long"), column("a", {"type": "struct", "fields": [column("b", "long")]})],
            {},
            "two of its columns have the same full name, in which dots separate levels",
        ),
        ([changed_column("integer", "double")], {}, "column 'x' was changed from integer to double"),
        ([changed_column("decimal(5,2)", "decimal(9,4)")], {}, "column 'x' was changed from decimal(5,2)"),
        ([changed_column("date", "timestamp_ntz")], {}, "column 'x' was changed from date to timestamp_ntz"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_schema_is_refused(columns: list[Any], configuration: dict[str, str], message: str) -> None:
    with pytest.raises(UnsupportedOperation, match=re.escape(message)) as refusal:
        iceberg_schema(Metadata(schema(*columns), [], configuration))
    assert "Delta Sharing client" in refusal.value.message


@pytest.mark.parametrize(
    "changed",
    [
        changed_column("integer", "long"),
        changed_column("float", "double"),
        changed_column("decimal(5,2)", "decimal(9,2)"),
    ],
    ids=str,
)
def test_type_changes_that_iceberg_supports_are_accepted(changed: Any) -> None:
    iceberg_schema(Metadata(schema(changed), []))


def test_elements_have_the_ids_of_the_schema() -> None:
    nested = {"delta.columnMapping.nested.ids": {"col-7.element": 8}}
    converted = iceberg_schema(Metadata(schema(mapped_column("l", LIST, **nested)), [], COMPATIBLE))
    assert list(field_ids(converted.schema)) == [7, 8]


def test_id_of_a_column_does_not_depend_on_other_columns() -> None:
    before = iceberg_schema(Metadata(schema(column("x", "long"), column("l", LIST)), []))
    after = iceberg_schema(Metadata(schema(column("new", "date"), column("l", LIST), column("x", "long")), []))
    assert set(field_ids(before.schema)) < set(field_ids(after.schema))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"fields": [{"name": "x"}]}', '{"fields": 1}'])
def test_broken_schema_is_an_unreadable_table(text: str) -> None:
    with pytest.raises(TableUnreadable, match="schemaString in metaData is not a valid schema"):
        iceberg_schema(Metadata(text, []))


def assert_refused(table: ListedTable, error: type[DeltaicError], message: str, number: int = 0) -> None:
    with pytest.raises(error, match=message):
        first_index(table.context, table.version(number))
    assert not table.take_objects()


FOREIGN = pa.schema([pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"1"})])


def test_field_ids_of_another_writer_are_refused(tmp_path: Path) -> None:
    """Files of a converted Iceberg table have such ids, and clients would read nulls."""
    table = ListedTable(tmp_path / "table", data_file=footer(FOREIGN))
    table.commit(add(1))
    assert_refused(table, UnsupportedOperation, "column 'x' has a field id in the files that differs from the table's")


def test_field_ids_inside_structs_and_arrays_are_checked(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("b", pa.int64(), metadata={b"PARQUET:field_id": b"5"})])
    table = ListedTable(tmp_path / "table", data_file=footer(pa.schema([pa.field("a", pa.list_(inner))])))
    element = {"type": "struct", "fields": [column("b", "long")]}
    columns = [column("a", {**LIST, "elementType": element})]
    table.commit(protocol(), metadata(schema=schema(*columns), partitions=()), add(1))
    assert_refused(table, UnsupportedOperation, "column 'a.element.b' has a field id")


def test_files_of_later_versions_are_checked(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(add(1))
    table.commit(add(2))
    index = first_index(table.context, table.version(0))
    table.take_objects()
    table.reads.clear()
    table.data_file = footer(FOREIGN)
    with pytest.raises(UnsupportedOperation, match="field id"):
        newer_index(table.context, table.version(1), index)
    assert table.reads == ["p=None/part-00002.parquet"]
    assert not table.take_objects()


def test_column_in_other_case_is_refused(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=footer(pa.schema([pa.field("X", pa.int64())])))
    table.commit(add(1))
    assert_refused(table, UnsupportedOperation, "column 'X' is 'x' in the table's schema")


def test_rows_are_counted_from_footers_without_statistics(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=footer(rows=3))
    table.commit(add(1), add(2, stats=None), add(3, stats='{"minValues":{"x":1}}'))
    index = first_index(table.context, table.version(0))
    assert index.snapshots[0].rows == 1 + 3 + 3


def test_too_many_files_to_count_are_refused(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(*(add(number, stats=None) for number in range(data_footers.MOST_COUNTED + 1)))
    assert_refused(table, UnsupportedOperation, "its log does not record how many rows the files have")


def test_invalid_partition_value_is_refused_without_showing_it(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    columns = schema(column("p", "integer"), column("x", "long"))
    table.commit(protocol(), metadata(schema=columns), add(1, "secret"))
    with pytest.raises(
        UnsupportedOperation, match="column 'p' has a partition value that is not of type integer"
    ) as refusal:
        first_index(table.context, table.version(0))
    assert "secret" not in refusal.value.message


def test_broken_file_is_an_unreadable_table(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=b"no Parquet at all")
    table.commit(add(1))
    assert_refused(table, TableUnreadable, "not a readable Parquet file")


@pytest.mark.parametrize(
    ("bitmap", "error", "message"),
    [
        (b"\xd0\xd3\x39\x64" + bytes(8), UnsupportedOperation, "a format that only Delta supports"),
        (b"short", TableUnreadable, "is corrupt"),
    ],
)
def test_vector_that_clients_cannot_read_is_refused(
    tmp_path: Path, bitmap: bytes, error: type[DeltaicError], message: str
) -> None:
    size = 12
    vector = {"storageType": "i", "pathOrInlineDv": encode_z85(bitmap + bytes(-len(bitmap) % 4)), "sizeInBytes": size}
    table = ListedTable(tmp_path / "table")
    features = ("deletionVectors",)
    table.commit(protocol(3, 7, *features), metadata(), add(1, deletionVector={**vector, "cardinality": 1}))
    assert_refused(table, error, message)


def test_columns_with_the_same_id_are_refused() -> None:
    """Two names with the same hash of 30 bits, found by trial."""
    names_by_hash: dict[int, str] = {}
    for number in range(1 << 20):
        name = f"c{number}"
        other = names_by_hash.setdefault(zlib.crc32(name.encode()) & 0x3FFFFFFF, name)
        if other != name:
            break
    schema = json.dumps({"type": "struct", "fields": [column(name, "long"), column(other, "long")]})
    with pytest.raises(UnsupportedOperation, match="two of its columns have the same field id"):
        iceberg_schema(Metadata(schema, []))
