"""Filtered tables never show hidden rows or columns after changes of the table, and always show visible ones."""

import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import SCHEMA, Action, HandmadeLog, add, metadata, protocol, remove
from deltaic.delta.deletion_vectors import encode_z85
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.partition_filters import parse
from deltaic.sharing import inline_deletion_vectors
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.rights.table_rights import ALL, Rights
from golden import library
from msgspec.structs import asdict
from sharing.means import Feed, lines, sharing

CDF = {"delta.enableChangeDataFeed": "true"}
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
formats = pytest.mark.parametrize("capabilities", [None, DELTA], ids=["parquet", "delta"])


def rights(*filters: str, hidden: Sequence[str] = (), **properties: str) -> Rights:
    return Rights(tuple(map(parse, filters)), properties, frozenset(hidden))


def schema(*columns: tuple[str, dict[str, Any]]) -> str:
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": column_metadata}
        for name, column_metadata in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def mapped(number: int, physical: str) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}


def actions(answer_lines: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return kind and action of each file, in either format."""
    result = []
    for line in answer_lines:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            ((action_name, action),) = line[kind].get("deltaSingleAction", {kind: line[kind]}).items()
            result.append((action_name, action))
    return result


def names(answer_lines: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (kind, (action.get("path") or action["url"]).partition("?")[0].rpartition("/")[2])
        for kind, action in actions(answer_lines)
    }


def write_repartitioned(root: Path) -> HandmadeLog:
    """Write a table that is partitioned by `p` from version 2 on, with unpartitioned files before."""
    log = HandmadeLog(root)
    log.commit(protocol(), metadata(CDF, partitions=("x",)))
    log.commit(add("canary", partitionValues={"x": "1"}))
    removed = remove("canary", partitionValues={"x": "1"}, size=1, extendedFileMetadata=True)
    log.commit(metadata(CDF), removed, add("none", p=None), add("eu", p="EU"))
    log.commit(add("more", p=None))
    return log


@formats
@pytest.mark.parametrize("feed", [True, False])
def test_removes_of_files_before_partitioning_are_not_shown(
    tmp_path: Path, capabilities: str | None, *, feed: bool
) -> None:
    write_repartitioned(tmp_path)
    client = Feed(tmp_path, capabilities, rights=rights("p IS NULL"))
    for first in (0, 1, 2):
        with pytest.raises(TableUnreadable, match="does not match the schema"):
            client.answer(first, 3, feed=feed)
    assert names(lines(client.answer(3, 3, feed=feed))) == {("add", "more")}
    later_client = Feed(tmp_path, capabilities, start_version=2, rights=rights("p IS NULL"))
    assert names(lines(later_client.answer(2, 3, feed=feed))) == {("add", "none"), ("add", "more")}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_version_whose_files_hold_a_hidden_column_is_refused(tmp_path: Path, version: int) -> None:
    write_repartitioned(tmp_path)
    client = Feed(tmp_path, rights=rights(hidden=["p"]))
    if version >= 2:
        assert "canary" not in str(lines(client.query(version=version)))
        return
    with pytest.raises(TableUnreadable, match="this version of the table is not shared: a column that is hidden"):
        client.query(version=version)


def test_a_hidden_column_that_is_renamed_is_not_shown(tmp_path: Path) -> None:
    on = {**CDF, "delta.columnMapping.mode": "name"}
    log = HandmadeLog(tmp_path)
    before = schema(("p", mapped(1, "c1")), ("x", mapped(2, "c2")))
    after = schema(("team", mapped(1, "c1")), ("x", mapped(2, "c2")))
    log.commit(protocol(2, 5), metadata(on, before), add("a", partitionValues={"c1": "canary"}))
    log.commit(metadata(on, after, ("team",)))
    client = Feed(tmp_path, DELTA, rights=rights(hidden=["p"]))
    assert "canary" not in str(lines(client.query(version=0)))
    with pytest.raises(TableUnreadable, match="a column that is hidden"):
        client.query(version=1)
    with pytest.raises(TableUnreadable, match="a column that is hidden"):
        client.answer(0, 1, feed=False)


@pytest.mark.parametrize("feed", [True, False])
def test_replaced_table_is_filtered_by_its_earlier_column_names(tmp_path: Path, *, feed: bool) -> None:
    """The new columns have other physical names."""
    on = {**CDF, "delta.columnMapping.mode": "name"}
    log = HandmadeLog(tmp_path)
    old = schema(("p", mapped(1, "old_p")), ("x", mapped(2, "old_x")))
    new = schema(("p", mapped(3, "new_p")), ("x", mapped(4, "new_x")))
    log.commit(protocol(2, 5), metadata(on, old))
    log.commit(add("a", partitionValues={"old_p": "canary"}))
    removed = remove("a", partitionValues={"old_p": "canary"}, size=1, extendedFileMetadata=True)
    log.commit(metadata(on, new), removed, add("b", partitionValues={"new_p": "canary"}))
    filtered = rights("p = 'canary'", hidden=["p"])
    client = Feed(tmp_path, DELTA, rights=filtered, historical_metadata=True)
    answer_lines = lines(client.answer(1, 2, feed=feed))
    assert names(answer_lines) == {("add", "a"), ("remove", "a"), ("add", "b")}
    assert all(action["partitionValues"] == {} for _, action in actions(answer_lines))
    assert "canary" not in str(answer_lines)


@formats
def test_identity_column_does_not_reveal_the_row_count(tmp_path: Path, capabilities: str | None) -> None:
    def metadata_with(highest: int) -> Action:
        identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": highest}
        return metadata(CDF, schema(("p", {}), ("id", identity)))

    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata_with(1))
    log.commit(metadata_with(77_777_777), add("a"))
    client = Feed(tmp_path, capabilities, rights=rights("p = 'a'"), historical_metadata=True)
    for answer in (client.query(), client.answer(0, 1), client.answer(1, 1, feed=False)):
        assert "77777777" not in str(lines(answer))
    unfiltered = Feed(tmp_path, capabilities)
    assert "77777777" in str(lines(unfiltered.query()))


READ_BY: dict[str, Any] = {
    "comment": "of the order",
    "parquet.field.id": 2,
    "__CHAR_VARCHAR_TYPE_STRING": "varchar(5)",
    "__COLLATIONS": {"x": "icu.UNICODE"},
    "EXISTS_DEFAULT": "1",
}
WIDENED: dict[str, Any] = {"delta.typeChanges": [{"fromType": "short", "toType": "integer"}]}
NAMING = {
    "delta.invariants": "canary > 1",
    "delta.generationExpression": "canary",
    "CURRENT_DEFAULT": "'canary'",
    "delta.identity.start": 1,
    "anything": "canary",
}


def write_names(root: Path, configuration: dict[str, str], read_by: dict[str, Any]) -> tuple[str, list[str]]:
    """Write a table with the name of its partition column everywhere; return its schema and statistics."""

    def field(name: str, kind: Any, number: int, **more: Any) -> dict[str, Any]:
        column_metadata = read_by | NAMING | mapped(number, f"c{number}") | more
        return {"name": name, "type": kind, "nullable": True, "metadata": column_metadata}

    def struct(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "struct", "fields": list(fields)}

    many = {"type": "array", "elementType": struct(field("y", "string", 4)), "containsNull": True}
    pairs = {"type": "map", "keyType": struct(field("k", "string", 6)), "valueType": struct(field("v", "string", 7))}
    nested = {"delta.columnMapping.nested.ids": {"c3.list.element": 8}}
    table_schema = struct(
        field("canary", "string", 99) | {"metadata": mapped(99, "canary-99")},
        field("x", struct(field("inner", "string", 2)), 1),
        field("many", many, 3, **nested),
        field("pairs", pairs | {"valueContainsNull": True}, 5),
    )
    log = HandmadeLog(root)
    log.commit(protocol(2, 5), metadata(configuration, json.dumps(table_schema), ("canary",)))
    statistics = {
        "numRecords": 3,
        "minValues": {"c1": {"c2": "ä"}, "CANARY-99": "a", "c5": 1.10},
        "maxValues": {"canary-99": "a"},
        "nullCount": {"canary-99": 0, "c1": {"c2": 0}},
        "tightBounds": True,
        "statsWithCollation": {"icu": {"min": {"canary-99": "a"}}},
    }
    values = {"canary-99": "a"}
    text = json.dumps(statistics).replace("1.1", "1.10").replace("canary", "\\u0063anary")
    texts = [text, '{"canary-99": NaN}']
    log.commit(*(add(f"f{at}", partitionValues=values, stats=text_) for at, text_ in enumerate(texts)))
    return json.dumps(table_schema), texts


@formats
def test_hidden_column_is_not_named_in_metadata_or_statistics(tmp_path: Path, capabilities: str | None) -> None:
    # In parquet format, the server refuses tables with these features.
    mode = {"delta.columnMapping.mode": "name"} if capabilities else {}
    read_by = READ_BY | (WIDENED if capabilities else {})
    more = {"delta.columnMapping.maxColumnId": "99", "delta.constraints.canary": "canary > 1", "canary": "canary"}
    write_names(tmp_path, CDF | mode | more, read_by)
    client = Feed(tmp_path, capabilities, rights=rights(hidden=["canary"]), historical_metadata=True)
    for answer in (client.query(), client.answer(0, 1), client.answer(1, 1, feed=False)):
        answer_lines = lines(answer)
        assert "canary" not in json.dumps(answer_lines).lower()
        (head,) = [line["metaData"] for line in answer_lines if "metaData" in line]
        wire_metadata = head.get("deltaMetadata", head)
        if capabilities:
            assert wire_metadata["configuration"]["delta.columnMapping.maxColumnId"] == "8"
        x, many, pairs = json.loads(wire_metadata["schemaString"])["fields"]
        assert x["metadata"] == read_by | mapped(1, "c1")
        assert x["type"]["fields"][0]["metadata"] == read_by | mapped(2, "c2")
        assert many["metadata"]["delta.columnMapping.nested.ids"] == {"c3.list.element": 8}
        assert many["type"]["elementType"]["fields"][0]["metadata"] == read_by | mapped(4, "c4")
        assert pairs["type"]["keyType"]["fields"][0]["metadata"] == read_by | mapped(6, "c6")
        assert pairs["type"]["valueType"]["fields"][0]["metadata"] == read_by | mapped(7, "c7")
        first, second = (action for _, action in actions(answer_lines))
        # Values are unchanged, digit by digit.
        expected = '"minValues":{"c1":{"c2": "\\u00e4"},"c5":1.10},"maxValues":{},"nullCount":{"c1":{"c2": 0}}'
        assert first["stats"] == f'{{"numRecords":3,{expected},"tightBounds":true}}'
        assert "stats" not in second


def test_metadata_and_statistics_are_unchanged_without_hidden_columns(tmp_path: Path) -> None:
    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "100"}
    schema_string, statistics = write_names(tmp_path, CDF | mode, READ_BY)
    for table_rights in (ALL, rights("canary = 'a'")):
        answer_lines = lines(Feed(tmp_path, DELTA, rights=table_rights).query())
        wire_metadata = answer_lines[1]["metaData"]["deltaMetadata"]
        assert wire_metadata["configuration"]["delta.columnMapping.maxColumnId"] == "100"
        x = json.loads(wire_metadata["schemaString"])["fields"][1]
        assert x["type"] == json.loads(schema_string)["fields"][1]["type"]
        assert x["metadata"]["delta.invariants"] == "canary > 1"
        assert [action["stats"] for _, action in actions(answer_lines)] == statistics


def test_filter_applies_to_all_versions_of_a_table(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(CDF))
    log.commit(add("a", p="a"), add("b", p="b"))
    log.commit(
        metadata({**CDF, "more": "1"}, SCHEMA, ("p", "x")),
        remove("a"),
        remove("b"),
        add("c", partitionValues={"p": "a", "x": "1"}),
    )
    client = Feed(tmp_path, rights=rights("p = current_recipient('p')", p="a"))
    assert names(lines(client.answer(1, 2))) == {("add", "a"), ("remove", "a"), ("add", "c")}


class LocalContext(Sharing, frozen=True):
    """Context that reads deletion vectors in a folder."""

    store: TableStore | None = None

    def files(self, table: SharedTable) -> TableStore:  # noqa: ARG002 -- there is only one folder
        return self.store or FolderStore(Path())


def local_client(root: Path, capabilities: str, table_rights: Rights = ALL, store: TableStore | None = None) -> Feed:
    client = Feed(root, capabilities, rights=table_rights)
    client.sharing = LocalContext(**asdict(sharing()), store=store or FolderStore(root))
    return client


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("change_feed", "part"),
        ("checkpoint_partitioned", "day"),
        ("column_mapping_name", "part"),
        ("converted", "half"),
        ("deletion_vectors", "part"),
        ("odd_columns", "`名前`"),
        ("partitioned_types", "i16"),
        ("partitioned_types", "day"),
        ("partitioned_types", "dec"),
        ("timestamp_ntz", "p"),
        ("type_widening", "part"),
    ],
)
def test_recipients_get_their_own_partitions_of_tables_by_spark(name: str, column: str, tmp_path: Path) -> None:
    golden = library.load(name)
    root = library.place(golden, tmp_path)
    capabilities = f"{DELTA},typewidening,timestampntz"
    unfiltered = local_client(root, capabilities)
    for version in golden.versions:
        answer = lines(unfiltered.query(version=version))
        schema_string = answer[1]["metaData"]["deltaMetadata"]["schemaString"]
        columns = {field["name"]: field["metadata"] for field in json.loads(schema_string)["fields"]}
        name_in_schema = column.strip("`")
        physical = columns[name_in_schema].get("delta.columnMapping.physicalName", name_in_schema)
        files = [(action["partitionValues"].get(physical), action) for _, action in actions(answer)]
        for value in {value for value, _ in files}:
            partition_rights = (
                rights(f"{column} IS NULL") if value is None else rights(f"{column} = current_recipient('v')", v=value)
            )
            for hidden in ([], [name_in_schema.lower()]):
                client = local_client(
                    root, capabilities, Rights(partition_rights.filters, partition_rights.properties, frozenset(hidden))
                )
                answer_lines = lines(client.query(version=version))
                expected = [action for partition, action in files if partition == value]
                actual = actions(answer_lines)
                assert {action["path"].partition("?")[0] for _, action in actual} == {
                    action["path"].partition("?")[0] for action in expected
                }
                assert answer_lines[1]["metaData"]["numFiles"] == len(expected)
                assert answer_lines[1]["metaData"]["size"] == sum(action["size"] for action in expected)
                for _, action in actual:
                    assert (physical in action["partitionValues"]) == (not hidden)
                    assert action.get("deletionVector", {"storageType": "i"})["storageType"] == "i"
                marked = [action["deletionVector"]["cardinality"] for action in expected if "deletionVector" in action]
                assert sorted(marked) == sorted(
                    action["deletionVector"]["cardinality"] for _, action in actual if "deletionVector" in action
                )


class CountingStore(FolderStore):
    """Folder store that counts the vectors that are read."""

    ranges = 0

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.ranges += len(ranges)
        return super().get_ranges(path, ranges)


def with_vectors(root: Path, *sizes: int) -> list[bytes]:
    """Write a table with a file for each vector, and one file with all vectors; return the vectors."""
    name, content, adds = uuid.UUID(int=7), b"\x01", []
    data = [bytes([at]) * size for at, size in enumerate(sizes, 1)]
    for at, vector_bytes in enumerate(data):
        descriptor = {
            "storageType": "u",
            "pathOrInlineDv": encode_z85(name.bytes),
            "offset": len(content),
            "sizeInBytes": len(vector_bytes),
            "cardinality": 1,
        }
        content += struct.pack(">I", len(vector_bytes)) + vector_bytes + struct.pack(">I", zlib.crc32(vector_bytes))
        adds.append(add(f"f{at}", 5, vector=descriptor))
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(), *adds)
    (root / f"deletion_vector_{name}.bin").write_bytes(content)
    return data


def vectors_of(answer_lines: list[dict[str, Any]]) -> dict[str, str]:
    vectors = {}
    for _, action in actions(answer_lines):
        assert action["deletionVector"]["storageType"] == "i"
        vectors[action["path"].partition("?")[0].rpartition("/")[2]] = action["deletionVector"]["pathOrInlineDv"]
    return vectors


def test_large_vectors_are_split_and_a_page_reads_only_its_own(tmp_path: Path) -> None:
    data = with_vectors(
        tmp_path,
        *[3 * inline_deletion_vectors.AT_ONCE_BYTES // 8, 40] * 3,
        inline_deletion_vectors.AT_ONCE_BYTES + 4,
        8,
    )
    store = CountingStore(tmp_path)
    client = local_client(tmp_path, DELTA, rights("p = 'a'"), store)
    expected = {f"f{at}": encode_z85(vector) for at, vector in enumerate(data)}
    # The second time from cached lines.
    for _ in range(2):
        assert vectors_of(lines(client.query())) == expected
    before = store.ranges
    (line,) = vectors_of(lines(client.query(maxFiles=1)))
    assert line == "f0"
    assert store.ranges - before <= 1
