"""What is kept back stays back where tables change under a filter, and nothing of a recipient's own goes with it."""

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
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": about} for name, about in columns]
    return json.dumps({"type": "struct", "fields": fields})


def mapped(number: int, physical: str) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}


def actions(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return kind and action of each file, whatever the format."""
    told = []
    for line in found:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            ((spelled, action),) = line[kind].get("deltaSingleAction", {kind: line[kind]}).items()
            told.append((spelled, action))
    return told


def names(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (kind, (action.get("path") or action["url"]).partition("?")[0].rpartition("/")[2])
        for kind, action in actions(found)
    }


def repartitioned(root: Path) -> HandmadeLog:
    """Write a table whose version 2 is partitioned by `p`, and whose files of before hold anyone's rows."""
    log = HandmadeLog(root)
    log.commit(protocol(), metadata(CDF, partitions=("x",)))
    log.commit(add("canary", partitionValues={"x": "1"}))
    gone = remove("canary", partitionValues={"x": "1"}, size=1, extendedFileMetadata=True)
    log.commit(metadata(CDF), gone, add("none", p=None), add("eu", p="EU"))
    log.commit(add("more", p=None))
    return log


@formats
@pytest.mark.parametrize("feed", [True, False])
def test_files_of_before_the_column_was_one_do_not_leave_by_their_removal(
    tmp_path: Path, capabilities: str | None, *, feed: bool
) -> None:
    repartitioned(tmp_path)
    asked = Feed(tmp_path, capabilities, rights=rights("p IS NULL"))
    for first in (0, 1, 2):
        with pytest.raises(TableUnreadable, match="does not match the schema"):
            asked.answer(first, 3, feed=feed)
    assert names(lines(asked.answer(3, 3, feed=feed))) == {("add", "more")}
    shared_from_there = Feed(tmp_path, capabilities, start_version=2, rights=rights("p IS NULL"))
    assert names(lines(shared_from_there.answer(2, 3, feed=feed))) == {("add", "none"), ("add", "more")}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_version_whose_files_hold_a_hidden_column_is_refused(tmp_path: Path, version: int) -> None:
    repartitioned(tmp_path)
    asked = Feed(tmp_path, rights=rights(hidden=["p"]))
    if version >= 2:
        assert "canary" not in str(lines(asked.query(version=version)))
        return
    with pytest.raises(TableUnreadable, match="this version of the table is not shared: a column that is hidden"):
        asked.query(version=version)


def test_a_hidden_column_that_is_renamed_is_not_shown(tmp_path: Path) -> None:
    on = {**CDF, "delta.columnMapping.mode": "name"}
    log = HandmadeLog(tmp_path)
    before = schema(("p", mapped(1, "c1")), ("x", mapped(2, "c2")))
    after = schema(("team", mapped(1, "c1")), ("x", mapped(2, "c2")))
    log.commit(protocol(2, 5), metadata(on, before), add("a", partitionValues={"c1": "canary"}))
    log.commit(metadata(on, after, ("team",)))
    asked = Feed(tmp_path, DELTA, rights=rights(hidden=["p"]))
    assert "canary" not in str(lines(asked.query(version=0)))
    with pytest.raises(TableUnreadable, match="a column that is hidden"):
        asked.query(version=1)
    with pytest.raises(TableUnreadable, match="a column that is hidden"):
        asked.answer(0, 1, feed=False)


@pytest.mark.parametrize("feed", [True, False])
def test_a_table_that_is_replaced_is_followed_by_the_names_that_its_columns_had(tmp_path: Path, *, feed: bool) -> None:
    """Its columns get other physical names."""
    on = {**CDF, "delta.columnMapping.mode": "name"}
    log = HandmadeLog(tmp_path)
    old = schema(("p", mapped(1, "old_p")), ("x", mapped(2, "old_x")))
    new = schema(("p", mapped(3, "new_p")), ("x", mapped(4, "new_x")))
    log.commit(protocol(2, 5), metadata(on, old))
    log.commit(add("a", partitionValues={"old_p": "canary"}))
    gone = remove("a", partitionValues={"old_p": "canary"}, size=1, extendedFileMetadata=True)
    log.commit(metadata(on, new), gone, add("b", partitionValues={"new_p": "canary"}))
    restricted = rights("p = 'canary'", hidden=["p"])
    asked = Feed(tmp_path, DELTA, rights=restricted, historical_metadata=True)
    found = lines(asked.answer(1, 2, feed=feed))
    assert names(found) == {("add", "a"), ("remove", "a"), ("add", "b")}
    assert all(action["partitionValues"] == {} for _, action in actions(found))
    assert "canary" not in str(found)


@formats
def test_an_identity_column_does_not_tell_how_many_rows_there_are(tmp_path: Path, capabilities: str | None) -> None:
    def of(highest: int) -> Action:
        counted = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": highest}
        return metadata(CDF, schema(("p", {}), ("id", counted)))

    log = HandmadeLog(tmp_path)
    log.commit(protocol(), of(1))
    log.commit(of(77_777_777), add("a"))
    asked = Feed(tmp_path, capabilities, rights=rights("p = 'a'"), historical_metadata=True)
    for answer in (asked.query(), asked.answer(0, 1), asked.answer(1, 1, feed=False)):
        assert "77777777" not in str(lines(answer))
    whole = Feed(tmp_path, capabilities)
    assert "77777777" in str(lines(whole.query()))


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


def naming(root: Path, configuration: dict[str, str], read_by: dict[str, Any]) -> tuple[str, list[str]]:
    """Write a table that names its partition column `canary` wherever it can; return its schema and statistics."""

    def field(name: str, kind: Any, number: int, **more: Any) -> dict[str, Any]:
        about = read_by | NAMING | mapped(number, f"c{number}") | more
        return {"name": name, "type": kind, "nullable": True, "metadata": about}

    def struct(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "struct", "fields": list(fields)}

    many = {"type": "array", "elementType": struct(field("y", "string", 4)), "containsNull": True}
    pairs = {"type": "map", "keyType": struct(field("k", "string", 6)), "valueType": struct(field("v", "string", 7))}
    nested = {"delta.columnMapping.nested.ids": {"c3.list.element": 8}}
    whole = struct(
        field("canary", "string", 99) | {"metadata": mapped(99, "canary-99")},
        field("x", struct(field("inner", "string", 2)), 1),
        field("many", many, 3, **nested),
        field("pairs", pairs | {"valueContainsNull": True}, 5),
    )
    log = HandmadeLog(root)
    log.commit(protocol(2, 5), metadata(configuration, json.dumps(whole), ("canary",)))
    told = {
        "numRecords": 3,
        "minValues": {"c1": {"c2": "ä"}, "CANARY-99": "a", "c5": 1.10},
        "maxValues": {"canary-99": "a"},
        "nullCount": {"canary-99": 0, "c1": {"c2": 0}},
        "tightBounds": True,
        "statsWithCollation": {"icu": {"min": {"canary-99": "a"}}},
    }
    values = {"canary-99": "a"}
    text = json.dumps(told).replace("1.1", "1.10").replace("canary", "\\u0063anary")
    every = [text, '{"canary-99": NaN}']
    log.commit(*(add(f"f{at}", partitionValues=values, stats=one) for at, one in enumerate(every)))
    return json.dumps(whole), every


@formats
def test_a_hidden_column_is_named_by_no_other_column_property_or_statistics(
    tmp_path: Path, capabilities: str | None
) -> None:
    # In parquet format tables with such features are refused.
    mode = {"delta.columnMapping.mode": "name"} if capabilities else {}
    read_by = READ_BY | (WIDENED if capabilities else {})
    more = {"delta.columnMapping.maxColumnId": "99", "delta.constraints.canary": "canary > 1", "canary": "canary"}
    naming(tmp_path, CDF | mode | more, read_by)
    asked = Feed(tmp_path, capabilities, rights=rights(hidden=["canary"]), historical_metadata=True)
    for answer in (asked.query(), asked.answer(0, 1), asked.answer(1, 1, feed=False)):
        found = lines(answer)
        assert "canary" not in json.dumps(found).lower()
        (head,) = [line["metaData"] for line in found if "metaData" in line]
        about = head.get("deltaMetadata", head)
        if capabilities:
            assert about["configuration"]["delta.columnMapping.maxColumnId"] == "8"
        x, many, pairs = json.loads(about["schemaString"])["fields"]
        assert x["metadata"] == read_by | mapped(1, "c1")
        assert x["type"]["fields"][0]["metadata"] == read_by | mapped(2, "c2")
        assert many["metadata"]["delta.columnMapping.nested.ids"] == {"c3.list.element": 8}
        assert many["type"]["elementType"]["fields"][0]["metadata"] == read_by | mapped(4, "c4")
        assert pairs["type"]["keyType"]["fields"][0]["metadata"] == read_by | mapped(6, "c6")
        assert pairs["type"]["valueType"]["fields"][0]["metadata"] == read_by | mapped(7, "c7")
        first, second = (action for _, action in actions(found))
        # Values stay as they were written, digit by digit.
        kept = '"minValues":{"c1":{"c2": "\\u00e4"},"c5":1.10},"maxValues":{},"nullCount":{"c1":{"c2": 0}}'
        assert first["stats"] == f'{{"numRecords":3,{kept},"tightBounds":true}}'
        assert "stats" not in second


def test_where_no_column_is_hidden_columns_and_statistics_are_told_as_they_are(tmp_path: Path) -> None:
    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "100"}
    schema_string, statistics = naming(tmp_path, CDF | mode, READ_BY)
    for restricted in (ALL, rights("canary = 'a'")):
        found = lines(Feed(tmp_path, DELTA, rights=restricted).query())
        about = found[1]["metaData"]["deltaMetadata"]
        assert about["configuration"]["delta.columnMapping.maxColumnId"] == "100"
        x = json.loads(about["schemaString"])["fields"][1]
        assert x["type"] == json.loads(schema_string)["fields"][1]["type"]
        assert x["metadata"]["delta.invariants"] == "canary > 1"
        assert [action["stats"] for _, action in actions(found)] == statistics


def test_a_filter_that_fits_all_versions_follows_a_table_through_its_changes(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(CDF))
    log.commit(add("a", p="a"), add("b", p="b"))
    log.commit(
        metadata({**CDF, "more": "1"}, SCHEMA, ("p", "x")),
        remove("a"),
        remove("b"),
        add("c", partitionValues={"p": "a", "x": "1"}),
    )
    asked = Feed(tmp_path, rights=rights("p = current_recipient('p')", p="a"))
    assert names(lines(asked.answer(1, 2))) == {("add", "a"), ("remove", "a"), ("add", "c")}


class Local(Sharing, frozen=True):
    """Means that read deletion vectors in a folder."""

    store: TableStore | None = None

    def files(self, table: SharedTable) -> TableStore:  # noqa: ARG002 -- there is one folder
        return self.store or FolderStore(Path())


def local(root: Path, capabilities: str, restricted: Rights = ALL, store: TableStore | None = None) -> Feed:
    asked = Feed(root, capabilities, rights=restricted)
    asked.sharing = Local(**asdict(sharing()), store=store or FolderStore(root))
    return asked


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
def test_of_tables_by_spark_each_recipient_gets_its_partition_and_together_they_get_all(
    name: str, column: str, tmp_path: Path
) -> None:
    golden = library.load(name)
    root = library.place(golden, tmp_path)
    every = f"{DELTA},typewidening,timestampntz"
    whole = local(root, every)
    for version in golden.versions:
        answer = lines(whole.query(version=version))
        schema_string = answer[1]["metaData"]["deltaMetadata"]["schemaString"]
        about = {one["name"]: one["metadata"] for one in json.loads(schema_string)["fields"]}
        plain = column.strip("`")
        physical = about[plain].get("delta.columnMapping.physicalName", plain)
        files = [(action["partitionValues"].get(physical), action) for _, action in actions(answer)]
        for value in {value for value, _ in files}:
            more = (
                rights(f"{column} IS NULL") if value is None else rights(f"{column} = current_recipient('v')", v=value)
            )
            for hidden in ([], [plain.lower()]):
                asked = local(root, every, Rights(more.filters, more.properties, frozenset(hidden)))
                found = lines(asked.query(version=version))
                own = [action for mine, action in files if mine == value]
                got = actions(found)
                assert {one["path"].partition("?")[0] for _, one in got} == {
                    one["path"].partition("?")[0] for one in own
                }
                assert found[1]["metaData"]["numFiles"] == len(own)
                assert found[1]["metaData"]["size"] == sum(one["size"] for one in own)
                for _, one in got:
                    assert (physical in one["partitionValues"]) == (not hidden)
                    assert one.get("deletionVector", {"storageType": "i"})["storageType"] == "i"
                marked = [one["deletionVector"]["cardinality"] for one in own if "deletionVector" in one]
                assert sorted(marked) == sorted(
                    one["deletionVector"]["cardinality"] for _, one in got if "deletionVector" in one
                )


class Counting(FolderStore):
    """Counts the vectors that are read."""

    ranges = 0

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.ranges += len(ranges)
        return super().get_ranges(path, ranges)


def with_vectors(root: Path, *sizes: int) -> list[bytes]:
    """Write a table of one file for each vector, all of which lie in one file; return the vectors."""
    name, content, adds = uuid.UUID(int=7), b"\x01", []
    data = [bytes([at]) * size for at, size in enumerate(sizes, 1)]
    for at, one in enumerate(data):
        told = {
            "storageType": "u",
            "pathOrInlineDv": encode_z85(name.bytes),
            "offset": len(content),
            "sizeInBytes": len(one),
            "cardinality": 1,
        }
        content += struct.pack(">I", len(one)) + one + struct.pack(">I", zlib.crc32(one))
        adds.append(add(f"f{at}", 5, vector=told))
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(), *adds)
    (root / f"deletion_vector_{name}.bin").write_bytes(content)
    return data


def vectors_of(found: list[dict[str, Any]]) -> dict[str, str]:
    told = {}
    for _, action in actions(found):
        assert action["deletionVector"]["storageType"] == "i"
        told[action["path"].partition("?")[0].rpartition("/")[2]] = action["deletionVector"]["pathOrInlineDv"]
    return told


def test_large_vectors_come_in_pieces_and_of_a_page_only_its_own_are_read(tmp_path: Path) -> None:
    data = with_vectors(
        tmp_path,
        *[3 * inline_deletion_vectors.AT_ONCE_BYTES // 8, 40] * 3,
        inline_deletion_vectors.AT_ONCE_BYTES + 4,
        8,
    )
    store = Counting(tmp_path)
    asked = local(tmp_path, DELTA, rights("p = 'a'"), store)
    expected = {f"f{at}": encode_z85(one) for at, one in enumerate(data)}
    # The second time from lines that were kept.
    for _ in range(2):
        assert vectors_of(lines(asked.query())) == expected
    before = store.ranges
    (line,) = vectors_of(lines(asked.query(maxFiles=1)))
    assert line == "f0"
    assert store.ranges - before <= 1
