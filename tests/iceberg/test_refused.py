"""What Iceberg clients would misread is refused with the column and the reason, before anything is put."""

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


def mapped(name: str, kind: Any, **more: Any) -> dict[str, object]:
    about = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-7", **more}
    return column(name, kind, **about)


def changed(before: str, after: str) -> dict[str, object]:
    return column("x", after, **{"delta.typeChanges": [{"fromType": before, "toType": after, "tableVersion": 1}]})


@pytest.mark.parametrize(
    ("columns", "configuration", "words"),
    [
        ([column("v", "variant")], {}, "column 'v' is of type variant"),
        ([column("a", {"type": "struct", "fields": [column("n", "void")]})], {}, "column 'a.n' is of type void"),
        ([column("i", "interval day to second")], {}, "column 'i' is of type interval day to second"),
        ([column("l", {**LIST, "elementType": "void"})], {}, "column 'l.element' is of type void"),
        ([mapped("l", LIST)], MAPPED, "column 'l' is an array or a map whose elements have no ids"),
        ([mapped("l", LIST)], COMPATIBLE, "column 'l' is an array or a map whose elements have no ids"),
        ([column("x", "long")], MAPPED, "column 'x' has no id"),
        ([mapped("x", "long"), mapped("y", "long")], MAPPED, "two of its columns have the same field id"),
        (
            [column("a.b", "long"), column("a", {"type": "struct", "fields": [column("b", "long")]})],
            {},
            "two of its columns have the same name if a dot separates levels",
        ),
        ([changed("integer", "double")], {}, "column 'x' was changed from integer to double"),
        ([changed("decimal(5,2)", "decimal(9,4)")], {}, "column 'x' was changed from decimal(5,2)"),
        ([changed("date", "timestamp_ntz")], {}, "column 'x' was changed from date to timestamp_ntz"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_is_refused(columns: list[Any], configuration: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedOperation, match=re.escape(words)) as refusal:
        iceberg_schema(Metadata(schema(*columns), [], configuration))
    assert "Delta Sharing client" in refusal.value.message


@pytest.mark.parametrize(
    "one", [changed("integer", "long"), changed("float", "double"), changed("decimal(5,2)", "decimal(9,2)")], ids=str
)
def test_changes_that_iceberg_knows_are_no_reason(one: Any) -> None:
    iceberg_schema(Metadata(schema(one), []))


def test_elements_have_the_ids_that_the_schema_names() -> None:
    nested = {"delta.columnMapping.nested.ids": {"col-7.element": 8}}
    found = iceberg_schema(Metadata(schema(mapped("l", LIST, **nested)), [], COMPATIBLE))
    assert list(field_ids(found.schema)) == [7, 8]


def test_an_id_stays_the_same_while_the_column_does() -> None:
    one = iceberg_schema(Metadata(schema(column("x", "long"), column("l", LIST)), []))
    other = iceberg_schema(Metadata(schema(column("new", "date"), column("l", LIST), column("x", "long")), []))
    assert set(field_ids(one.schema)) < set(field_ids(other.schema))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"fields": [{"name": "x"}]}', '{"fields": 1}'])
def test_a_broken_schema_is_the_log_s_fault(text: str) -> None:
    with pytest.raises(TableUnreadable, match="schemaString that is no schema"):
        iceberg_schema(Metadata(text, []))


def refused(table: ListedTable, error: type[DeltaicError], words: str, number: int = 0) -> None:
    with pytest.raises(error, match=words):
        first_index(table.context, table.version(number))
    assert not table.take()


FOREIGN = pa.schema([pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"1"})])


def test_field_ids_of_another_writer_are_refused(tmp_path: Path) -> None:
    """As in files of an Iceberg table that was converted: clients would read nulls."""
    table = ListedTable(tmp_path / "table", data_file=footer(FOREIGN))
    table.commit(add(1))
    refused(table, UnsupportedOperation, "column 'x' has a field id in the files that differs from the table's")


def test_field_ids_are_found_below_structs_and_arrays(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("b", pa.int64(), metadata={b"PARQUET:field_id": b"5"})])
    table = ListedTable(tmp_path / "table", data_file=footer(pa.schema([pa.field("a", pa.list_(inner))])))
    element = {"type": "struct", "fields": [column("b", "long")]}
    columns = [column("a", {**LIST, "elementType": element})]
    table.commit(protocol(), metadata(schema=schema(*columns), partitions=()), add(1))
    refused(table, UnsupportedOperation, "column 'a.element.b' has a field id")


def test_files_that_come_later_are_looked_at(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(add(1))
    table.commit(add(2))
    index = first_index(table.context, table.version(0))
    table.take()
    table.reads.clear()
    table.data_file = footer(FOREIGN)
    with pytest.raises(UnsupportedOperation, match="field id"):
        newer_index(table.context, table.version(1), index)
    assert table.reads == ["p=None/part-00002.parquet"]
    assert not table.take()


def test_a_column_in_other_case_is_refused(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=footer(pa.schema([pa.field("X", pa.int64())])))
    table.commit(add(1))
    refused(table, UnsupportedOperation, "column 'X' is 'x' in the table")


def test_rows_are_counted_by_footers_where_the_log_does_not_tell(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=footer(rows=3))
    table.commit(add(1), add(2, stats=None), add(3, stats='{"minValues":{"x":1}}'))
    index = first_index(table.context, table.version(0))
    assert index.snapshots[0].rows == 1 + 3 + 3


def test_too_many_files_to_count_are_refused(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    table.commit(*(add(number, stats=None) for number in range(data_footers.MOST_COUNTED + 1)))
    refused(table, UnsupportedOperation, "its log does not record how many rows the files have")


def test_a_partition_value_of_another_type_is_refused_without_telling_it(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table")
    columns = schema(column("p", "integer"), column("x", "long"))
    table.commit(protocol(), metadata(schema=columns), add(1, "secret"))
    with pytest.raises(
        UnsupportedOperation, match="column 'p' has a partition value that is not of type integer"
    ) as refusal:
        first_index(table.context, table.version(0))
    assert "secret" not in refusal.value.message


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    table = ListedTable(tmp_path / "table", data_file=b"no Parquet at all")
    table.commit(add(1))
    refused(table, TableUnreadable, "not a readable Parquet file")


@pytest.mark.parametrize(
    ("bitmap", "error", "words"),
    [
        (b"\xd0\xd3\x39\x64" + bytes(8), UnsupportedOperation, "a format that only Delta supports"),
        (b"short", TableUnreadable, "is corrupt"),
    ],
)
def test_a_vector_that_clients_cannot_read_is_refused(
    tmp_path: Path, bitmap: bytes, error: type[DeltaicError], words: str
) -> None:
    size = 12
    vector = {"storageType": "i", "pathOrInlineDv": encode_z85(bitmap + bytes(-len(bitmap) % 4)), "sizeInBytes": size}
    table = ListedTable(tmp_path / "table")
    features = ("deletionVectors",)
    table.commit(protocol(3, 7, *features), metadata(), add(1, deletionVector={**vector, "cardinality": 1}))
    refused(table, error, words)


def test_ids_of_two_columns_that_are_one_number_are_refused() -> None:
    """Names whose CRC-32 agree in 30 bits, found by trying."""
    seen: dict[int, str] = {}
    for number in range(1 << 20):
        name = f"c{number}"
        other = seen.setdefault(zlib.crc32(name.encode()) & 0x3FFFFFFF, name)
        if other != name:
            break
    schema = json.dumps({"type": "struct", "fields": [column(name, "long"), column(other, "long")]})
    with pytest.raises(UnsupportedOperation, match="two of its columns have the same field id"):
        iceberg_schema(Metadata(schema, []))
