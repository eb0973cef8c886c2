"""Recipients see only their rows: no response contains rows that a partition filter hides.

The table's log is written by hand, so that every change of it can be told apart; its other half is full of canaries.
"""

import io
import json
import struct
import uuid
import zlib
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract.logs import Action, TableLog, bitmap, column, z85
from contract.recipient import CAPABILITIES, Line, Recipient, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import CDF_ON, DV_ON, DV_PROTOCOL
from deltaic.catalog.reader import CatalogReader
from deltaic.delta.deletion_vectors import decode_z85
from deltaic.sharing.caller import RequestedTable
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from deltaic.storage.table_catalogs import clients_at
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.rights.access_report import AccessRequest, access_of
from filled_server import dynamo_of

SHARE: Final = "narrowed_share"
PARQUET: Final = "responseformat=parquet"
DELTA: Final = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
CANARY: Final = "canary-7f3a"
BAD: Final = (400, "INVALID_PARAMETER_VALUE")
UNSUPPORTED: Final = (400, "UNSUPPORTED_OPERATION")
CHANGED: Final = "Your access to this table has changed"
CHECKED: Final[dict[str, Any]] = {"delta.invariants": '{"expression":{"expression":"region > id"}}'}
COLUMNS = pa.schema([column("id", pa.int64(), **CHECKED), column("note", pa.string()), column("region", pa.string())])
formats = pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])


def ours(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "note": f"row {number}"} for number in numbers]


def theirs(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "note": f"{CANARY} {number}"} for number in numbers]


def changed(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "_change_type": kind} for row in rows]


STATES: Final[dict[int, set[int]]] = {
    0: set(),
    1: {1, 2, 3, 4},
    2: {1, 2, 3, 4, 5},
    3: {1, 2, 3, 5},
    4: {1, 2, 3, 5, 101},
    5: {2, 3, 5, 101},
    6: {2, 3, 5, 101},
    7: {2, 3, 5, 101},
}
"""The ids that the partition EU has in each version."""


def orders(log: TableLog) -> TableLog:
    """Write the versions of STATES; the partition `canary-7f3a` is the other half."""
    log.create()
    eu, foreign = log.add(ours(1, 2, 3, 4), region="EU"), log.add(theirs(100, 101, 102), region=CANARY)
    log.commit(eu, foreign, log.add(theirs(900)))
    more = log.add(ours(5), region="EU")
    bounds = {"id": 5, "region": "EU"}
    more["add"]["stats"] = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds})
    log.commit(more, log.add(theirs(110), region=CANARY))
    # Row 4 leaves the partition, by an update.
    eu_without, other_with = log.add(ours(1, 2, 3), region="EU"), log.add(theirs(100, 101, 102, 4), region=CANARY)
    removed = log.cdc(changed("update_preimage", ours(4)), region="EU")
    added = log.cdc(changed("update_postimage", theirs(4)), region=CANARY)
    log.commit(log.remove(eu), eu_without, log.remove(foreign), other_with, removed, added)
    # Row 101 comes in.
    other_less, moved = log.add(theirs(100, 102, 4), region=CANARY), log.add(ours(101), region="EU")
    before = log.cdc(changed("update_preimage", theirs(101)), region=CANARY)
    after = log.cdc(changed("update_postimage", ours(101)), region="EU")
    log.commit(log.remove(other_with), other_less, moved, before, after)
    # One row of each is deleted, by a DELETE.
    eu_less, others_left = log.add(ours(2, 3), region="EU"), log.add(theirs(102, 4), region=CANARY)
    deleted = [log.cdc(changed("delete", ours(1)), region="EU"), log.cdc(changed("delete", theirs(100)), region=CANARY)]
    log.commit(log.remove(eu_without), eu_less, log.remove(other_less), others_left, *deleted, operation="DELETE")
    log.commit(log.add(theirs(*range(200, 220)), region=CANARY))
    log.commit(log.remove(others_left), log.cdc(changed("delete", theirs(102, 4)), region=CANARY))
    return log


@dataclass(frozen=True)
class FilteredShare:
    """The share with filtered rows, and its recipients."""

    server: Server
    log: TableLog
    people: dict[str, Recipient]

    def table(self, name: str = "orders", recipient: str = "eva", capabilities: str = PARQUET) -> Table:
        return Table(self.people[recipient], SHARE, "d", name).with_capabilities(capabilities)


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[FilteredShare]:
    admin, shelf = server.admin, server.shelf
    log = orders(shelf.log("narrowed_orders", COLUMNS, partitions=("region",), configuration=dict(CDF_ON)))
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "d")
    own_filter = "region = current_recipient('region')"
    options: dict[str, Any] = {"history": True, "partition_filter": own_filter}
    admin.tables.create(SHARE, "d", "orders", log.location, **options)
    admin.tables.create(SHARE, "d", "hidden", log.location, hidden_columns=["REGION"], **options)
    admin.tables.create(SHARE, "d", "since_3", log.location, start_version=3, **options)
    list_filter = "region IN current_recipient('regions') OR region = 'EU'"
    admin.tables.create(SHARE, "d", "listed", log.location, history=True, partition_filter=list_filter)
    admin.tables.create(SHARE, "d", "vectors", vectors(shelf.log(**VECTORS)).location, **options)
    people = {}
    for name, properties in {
        "eva": {"region": "EU"},
        "leo": {"region": "EU", "regions": json.dumps(["EU", CANARY])},
        "nina": {},
        "lower": {"region": "eu"},
        "changing": {"region": "EU"},
        "granted": {"region": "EU", "regions": json.dumps(["EU", CANARY])},
    }.items():
        account = admin.recipients.create(f"narrowed_{name}", properties=properties)
        narrower = "region <> 'EU'" if name == "granted" else ""
        admin.grants.create(account.name, SHARE, partition_filter=narrower)
        people[name] = Recipient(server.stack.endpoint, admin.tokens.create(account).secret)
    yield FilteredShare(server, log, people)
    admin.shares.delete(SHARE, force=True)


VECTORS: Final[dict[str, Any]] = {
    "name": "narrowed_vectors",
    "schema": COLUMNS,
    "partitions": ("region",),
    "protocol": DV_PROTOCOL,
    "timed": False,
    "configuration": {**DV_ON, **CDF_ON},
}


def vectors(log: TableLog) -> TableLog:
    """Write a table with all deletion vectors of all partitions in one file, as Spark writes them."""
    log.create()
    eu, foreign = log.add(ours(*range(10)), region="EU"), log.add(theirs(*range(100, 110)), region=CANARY)
    log.commit(eu, foreign)
    adds = packed(log, {0: (eu, [1, 3]), 1: (foreign, [0, 2, 4, 6])})
    log.commit(log.remove(eu), log.remove(foreign), *adds)
    return log


def packed(log: TableLog, marked: dict[int, tuple[Action, list[int]]]) -> list[Action]:
    """Put one file with the vectors of several data files, and return their adds."""
    name = uuid.uuid5(uuid.NAMESPACE_URL, log.location)
    content, adds = b"\x01", []
    for added, rows in marked.values():
        data = bitmap(rows)
        vector = {
            "storageType": "u",
            "pathOrInlineDv": z85(name.bytes),
            "offset": len(content),
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        stats = json.dumps(json.loads(added["add"]["stats"]) | {"tightBounds": False})
        adds.append({"add": {**added["add"], "deletionVector": vector, "stats": stats}})
    log.put(f"deletion_vector_{name}.bin", content)
    return adds


def rows_behind(line: Line) -> list[dict[str, Any]]:
    return pq.read_table(io.BytesIO(download(data_url(line)).body), partitioning=None).to_pylist()  # type: ignore[no-any-return]


def ids_of(reply: Reply) -> set[int]:
    return {row["id"] for line in reply.only("file") for row in rows_behind(line)}


def totals(reply: Reply) -> tuple[int, int]:
    """Return the files and bytes that the metaData line counts."""
    (metadata,) = reply.only("metaData")
    return metadata["numFiles"], metadata["size"]


def played(state: set[int], reply: Reply) -> set[int]:
    """Return the state after the changes of a feed, version by version, as a client applies them."""
    removed: dict[int, set[int]] = defaultdict(set)
    added: dict[int, set[int]] = defaultdict(set)
    for line in reply.lines:
        ((kind, content),) = line.items()
        if kind == "file":
            ((kind, _),) = content["deltaSingleAction"].items()
        if kind in {"cdf", "cdc"}:
            for row in rows_behind(content):
                {"delete": removed, "insert": added}[row["_change_type"]][content["version"]].add(row["id"])
        elif kind in {"add", "remove"}:
            changes = {"remove": removed, "add": added}[kind][content["version"]]
            changes.update(row["id"] for row in rows_behind(content))
    for version in sorted({*removed, *added}):
        assert removed[version] <= state
        state = (state - removed[version]) | added[version]
    return state


@formats
@pytest.mark.parametrize("version", STATES)
def test_every_version_has_only_files_of_the_partition(shared: FilteredShare, capabilities: str, version: int) -> None:
    reply = shared.table(capabilities=capabilities).query(version=version)
    files = reply.only("file")
    assert ids_of(reply) == STATES[version]
    sizes = [len(download(data_url(line)).body) for line in files]
    assert totals(reply) == (len(files), sum(sizes))
    assert totals(shared.table(capabilities=capabilities).metadata(f"?version={version}")) == totals(reply)


@formats
@pytest.mark.parametrize(
    ("recipient", "name", "expected"),
    [
        ("nina", "orders", set()),
        ("lower", "orders", set()),
        ("nina", "listed", set()),
        ("eva", "listed", set()),
        ("leo", "listed", STATES[7] | {110} | set(range(200, 220))),
        ("leo", "orders", STATES[7]),
        ("granted", "orders", set()),
        ("granted", "listed", {110} | set(range(200, 220))),
    ],
    ids=["no property", "other case", "no list", "no list beside OR", "a list", "a text", "both", "grant"],
)
def test_each_recipient_sees_the_expected_rows(
    shared: FilteredShare, capabilities: str, recipient: str, name: str, expected: set[int]
) -> None:
    reply = shared.table(name, recipient, capabilities).query()
    assert ids_of(reply) == expected
    assert totals(reply)[0] == len(reply.only("file"))


@pytest.mark.parametrize("reader_name", ["eva", "leo", "nina", "granted"])
@pytest.mark.parametrize("name", ["orders", "hidden", "listed"])
def test_the_operators_counts_equal_the_response(shared: FilteredShare, reader_name: str, name: str) -> None:
    environment, admin = shared.server.environment, shared.server.admin
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    region, endpoint = environment["AWS_REGION"], environment["AWS_ENDPOINT_URL"]
    sessions = SigningSessions(region=region, endpoint=endpoint, client=shared.server.client)
    home = StorageConfig(region=region, endpoint=endpoint, path_style=True)
    schemas = SchemaReader(home, lambda: keys, sessions, admin.storages.get, clients_at(home))
    reader = CatalogReader(environment["CATALOG_TABLE"], dynamo_of(environment))
    recipient = admin.recipients.get(f"narrowed_{reader_name}")
    request = AccessRequest(recipient, RequestedTable(SHARE, "d", name), datetime.now(UTC))
    counts = access_of(admin, reader, request, lambda: schemas).counted
    reply = shared.table(name, reader_name).query()
    assert counts is not None
    assert (counts.version, (counts.files, counts.bytes)) == (reply.version, totals(reply))
    assert counts.rows == len(ids_of(reply))


@formats
def test_limits_and_hints_apply_to_visible_files(shared: FilteredShare, capabilities: str) -> None:
    table = shared.table(capabilities=capabilities)
    assert ids_of(table.query(predicateHints=["id > 100"])) == {101}
    assert ids_of(table.query(predicateHints=[f"region = '{CANARY}'"])) == set()
    assert ids_of(table.query(jsonPredicateHints=json.dumps({"op": "isNull", "children": [
        {"op": "column", "name": "region", "valueType": "string"}]}))) == set()  # fmt: skip
    assert ids_of(table.query(limitHint=1)) <= STATES[7]
    assert len(table.query(limitHint=1).only("file")) == 1


@formats
def test_filtered_pages_are_complete_and_reveal_no_positions(shared: FilteredShare, capabilities: str) -> None:
    table = shared.table(capabilities=capabilities)
    lines_, token, tokens = [], None, set()
    while True:
        reply = table.query({"maxFiles": 1} | ({"pageToken": token} if token else {}))
        tokens |= ids_of(reply)
        lines_ += [line["id"] for line in reply.only("file")]
        token = reply.end.get("nextPageToken")
        if token is None:
            break
        # Where the next page starts counts files that are not seen: a token is opaque.
        assert b"position" not in urlsafe_b64decode(token + "==")
    assert lines_ == [line["id"] for line in table.query().only("file")]
    assert tokens == STATES[7]


@formats
@pytest.mark.parametrize("first", range(1, 8))
def test_a_filtered_feed_from_any_version_leads_to_the_latest_state(
    shared: FilteredShare, capabilities: str, first: int
) -> None:
    reply = shared.table(capabilities=capabilities).changes(f"?startingVersion={first}")
    assert played(STATES[first - 1], reply) == STATES[7]
    assert totals(reply) == totals(shared.table(capabilities=capabilities).query())


@formats
def test_a_row_that_changes_partition_is_a_delete_and_an_insert(shared: FilteredShare, capabilities: str) -> None:
    for version, before in ((3, STATES[2]), (4, STATES[3])):
        reply = shared.table(capabilities=capabilities).changes(f"?startingVersion={version}&endingVersion={version}")
        assert played(before, reply) == STATES[version]
        assert b"_change_data" not in reply.body


@formats
def test_a_visible_delete_is_unchanged(shared: FilteredShare, capabilities: str) -> None:
    reply = shared.table(capabilities=capabilities).changes("?startingVersion=5&endingVersion=5")
    ((line),) = [line_ for line_ in reply.lines if next(iter(line_)) in {"cdf", "file"}]
    assert [row["id"] for row in rows_behind(next(iter(line.values())))] == [1]
    assert "_change_data" in data_url(next(iter(line.values())))


@formats
def test_a_commit_without_visible_changes_is_empty(shared: FilteredShare, capabilities: str) -> None:
    reply = shared.table(capabilities=capabilities).changes("?startingVersion=6&endingVersion=7")
    assert set(reply.kinds) == {"protocol", "metaData"}


@formats
@pytest.mark.parametrize("first", range(7))
def test_a_range_has_the_adds_and_removes_of_the_partition(
    shared: FilteredShare, capabilities: str, first: int
) -> None:
    reply = shared.table(capabilities=capabilities).query(startingVersion=first)
    removed: set[str] = set()
    added: set[str] = set()
    for line in reply.lines:
        ((kind, content),) = line.items()
        if kind == "file":
            ((kind, _),) = content["deltaSingleAction"].items()
        if kind in {"add", "remove"}:
            {"add": added, "remove": removed}[kind].add(content["id"])
            assert {row["id"] for row in rows_behind(content)} <= {1, 2, 3, 4, 5, 101}
    before = {
        line["id"] for line in shared.table(capabilities=capabilities).query(version=max(first - 1, 0)).only("file")
    }
    now = {line["id"] for line in shared.table(capabilities=capabilities).query().only("file")}
    assert (before | added) - removed == now


@formats
def test_history_from_a_later_version_starts_with_files_of_the_partition(
    shared: FilteredShare, capabilities: str
) -> None:
    table = shared.table("since_3", capabilities=capabilities)
    reply = table.query(startingVersion=3)
    assert {row["id"] for line in reply.only("file", "add") for row in rows_behind(line)} <= {1, 2, 3, 5, 101}
    table.query(version=2).refused(*BAD)


@formats
def test_a_hidden_column_is_not_returned(shared: FilteredShare, capabilities: str) -> None:
    table = shared.table("hidden", capabilities=capabilities)
    for reply in (table.query(), table.metadata(), table.changes("?startingVersion=1"), table.query(startingVersion=0)):
        (metadata,) = reply.only("metaData")[:1]
        metadata = metadata.get("deltaMetadata", metadata)
        assert [field["name"] for field in json.loads(metadata["schemaString"])["fields"]] == ["id", "note"]
        assert metadata["partitionColumns"] == []
        for line in reply.only("file", "add", "cdf", "remove"):
            action = line
            if "deltaSingleAction" in line:
                ((_, action),) = line["deltaSingleAction"].items()
            assert action["partitionValues"] == {}
            assert "region" not in action.get("stats", "")
        assert "region" not in metadata["schemaString"]
    assert ids_of(table.query()) == STATES[7]
    # A hint on a hidden column is treated like one on a missing column.
    assert ids_of(table.query(predicateHints=["region = 'nowhere'"])) == STATES[7]


def test_directory_access_is_refused_with_the_reason(shared: FilteredShare) -> None:
    table = shared.table()
    reply = table.recipient.post(f"{table.path}/temporary-table-credentials", {})
    reply.refused(*UNSUPPORTED, "Only a part of the table", "Read it with a query")


def test_tokens_become_invalid_when_rights_change(shared: FilteredShare) -> None:
    table, admin = shared.table(recipient="changing"), shared.server.admin
    page = table.query(maxFiles=1).end["nextPageToken"]
    refresh = table.query(includeRefreshToken=True).end["refreshToken"]
    feed = table.changes("?startingVersion=1&maxFiles=1").end["nextPageToken"]
    asynchronous = table.with_capabilities(f"{PARQUET};asyncquery=true")
    (status,) = asynchronous.query(idempotencyKey="k").only("queryStatus")
    result = f"{table.path}/queries/{status['queryId']}"
    replies: list[Callable[[], Reply]] = [
        lambda: table.query(maxFiles=1, pageToken=page),
        lambda: table.query(includeRefreshToken=True, refreshToken=refresh),
        lambda: table.changes(f"?startingVersion=1&maxFiles=1&pageToken={feed}"),
        lambda: table.recipient.post(result, {}),
    ]
    for reply in replies:
        assert reply().status == 200
    admin.recipients.update("narrowed_changing", add_properties={"region": CANARY})
    for reply in replies:
        reply().refused(*BAD, CHANGED, "Please restart the query")
    assert ids_of(table.query()).isdisjoint(STATES[7])
    (repeated,) = asynchronous.query(idempotencyKey="k").only("queryStatus")
    assert repeated["queryId"] != status["queryId"]
    # Unknown tokens and those of other recipients get the same error.
    admin.recipients.update("narrowed_changing", add_properties={"region": "EU"})
    for reply in replies:
        assert reply().status == 200
    admin.grants.update("narrowed_changing", SHARE, partition_filter="region = 'EU'")
    for reply in replies:
        reply().refused(*BAD, CHANGED)
    assert ids_of(table.query()) == STATES[7]


def test_deletion_vectors_are_inline_and_of_one_file(shared: FilteredShare) -> None:
    replies = [
        shared.table("vectors", capabilities=DELTA).query(),
        shared.table("vectors", capabilities=DELTA).query(startingVersion=2),
    ]
    for reply in replies:
        vectors = [
            action["deletionVector"]
            for line in reply.only("file")
            for action in line["deltaSingleAction"].values()
            if "deletionVector" in action
        ]
        assert vectors
        for vector in vectors:
            assert (vector["storageType"], vector["cardinality"]) == ("i", 2)
            assert decode_z85(vector["pathOrInlineDv"])[: vector["sizeInBytes"]] == bitmap([1, 3])
        assert b"deletion_vector_" not in reply.body


def every_answer(shared: FilteredShare, reader_name: str) -> Iterator[Reply]:
    """Ask everything that a recipient can ask, in both formats."""
    recipient = shared.people[reader_name]
    for path in ("/shares", f"/shares/{SHARE}/all-tables", f"/shares/{SHARE}/schemas/d/tables"):
        yield recipient.get(path)
    for name in ("listed", "orders", "hidden", "vectors", "since_3"):
        last = 2 if name == "vectors" else 7
        for capabilities in (PARQUET, f"{DELTA};includeendstreamaction=true"):
            table = shared.table(name, reader_name, capabilities)
            yield table.at()
            for version in range(last + 1):
                yield table.query(version=version, includeRefreshToken=True)
                yield table.metadata(f"?version={version}")
                yield table.changes(f"?startingVersion={version}&includeHistoricalMetadata=true")
                yield table.query(startingVersion=version)
                yield table.query(version=version, maxFiles=1)
            yield table.query(predicateHints=[f"region = '{CANARY}'"], limitHint=3)


def test_foreign_rows_are_in_no_response_and_in_no_downloaded_file(shared: FilteredShare) -> None:
    answers, urls = 0, set()
    for reply in every_answer(shared, "eva"):
        answers += reply.status == 200
        assert CANARY.encode() not in reply.body, reply.body[:2000]
        if reply.status == 200 and "x-ndjson" in reply.headers["content-type"]:
            urls |= {data_url(line) for line in reply.only("file", "add", "cdf", "remove")}
    assert answers > 100
    keys = {url.partition("?")[0]: url for url in urls}
    assert len(keys) > 5
    for url in keys.values():
        body = download(url).body
        assert CANARY.encode() not in body
        assert CANARY not in str(pq.read_table(io.BytesIO(body), partitioning=None).to_pylist())


def test_foreign_rows_are_visible_to_their_recipient(shared: FilteredShare) -> None:
    """The test above would pass on an empty table as well."""
    assert any(CANARY.encode() in reply.body for reply in every_answer(shared, "leo"))
    assert CAPABILITIES in shared.table("listed", "leo").query().headers
