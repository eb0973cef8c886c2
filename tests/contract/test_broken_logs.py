"""Broken logs are refused with a 4xx and the cause, or answered; they cause no server error."""

import copy
import http.client
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pytest
from contract.logs import Action, TableLog, column
from contract.recipient import Recipient, Reply, Table
from contract.server import Server
from contract.tables import CDF_ON, DV_ON
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from laws import tries

SCHEMA = pa.schema([column("p", pa.string()), column("x", pa.int64())])
PROTOCOL: Final[Action] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors", "changeDataFeed"],
}
READS_ALL = "responseformat=parquet,delta;readerfeatures=deletionvectors,columnmapping"
NUMBERS = itertools.count()
FIRST_WINDOW: Final = 512
"""Files of a snapshot that are signed before the 200."""


def written(server: Server) -> TableLog:
    """Return a table with an add, a deletion vector, a cdc file and a remove, at a new location."""
    log = TableLog(
        server.shelf.s3,
        server.shelf.bucket,
        f"broken/{next(NUMBERS)}",
        SCHEMA,
        ("p",),
        configuration=CDF_ON | DV_ON,
        protocol=PROTOCOL,
        timed=False,
    )
    adds = [log.add([{"x": number}, {"x": number + 1}], p="abc"[number]) for number in range(3)]
    log.create(*adds)
    changed = log.cdc([{"x": 0, "_change_type": "delete"}], p="a")
    log.commit(log.remove(adds[0]), log.deleted(adds[0], [0]), changed)
    log.commit(log.remove(adds[1]))
    return log


@pytest.fixture(scope="module")
def registered(server: Server) -> Iterator[Table]:
    """Return a table entry that `request_all` points at one log after another."""
    server.admin.tables.create("share1", "default", "broken", f"s3://{server.shelf.bucket}/table1", history=True)
    yield Table(server.alice, "share1", "default", "broken")
    server.admin.tables.delete("share1", "default", "broken")


def request_all(server: Server, table: Table, location: str) -> dict[str, Reply]:
    """Ask everything of a log; an answer that breaks off is an error here."""
    server.admin.tables.update("share1", "default", "broken", location=location)
    reads = table.with_capabilities(READS_ALL)
    calls: dict[str, Callable[[], Reply]] = {
        "version": reads.at,
        "version by time": lambda: reads.at("?startingTimestamp=2000-01-01T00:00:00Z"),
        "metadata": reads.metadata,
        "query": reads.query,
        "query with hints": lambda: reads.query(predicateHints=["p = 'a'", "x > 0"], limitHint=3),
        "page": lambda: reads.query(maxFiles=1),
        "query by version": lambda: reads.query(version=1),
        "range": lambda: reads.query(startingVersion=0),
        "changes": lambda: reads.changes("?startingVersion=0&includeHistoricalMetadata=true"),
        "parquet": table.query,
    }
    try:
        return {name: call() for name, call in calls.items()}
    except http.client.IncompleteRead as broken:
        raise AssertionError(f"the answer broke off after {broken.partial!r}") from broken


def check(replies: Mapping[str, Reply]) -> None:
    for name, reply in replies.items():
        assert reply.status in {200, 400}, (name, reply)
        if reply.status == 400:
            assert reply.json["message"], name
        elif "version" not in name:
            assert reply.kinds[:2] == ["protocol", "metaData"]


def test_the_unmodified_log_is_valid(server: Server, registered: Table) -> None:
    replies = request_all(server, registered, written(server).location)
    assert {name for name, reply in replies.items() if reply.status != 200} == {"parquet"}
    assert replies["query"].kinds == ["protocol", "metaData", "file", "file"]


@pytest.mark.parametrize(
    ("location", "text"),
    [("s3://deltaic-lake/nothing/here", "table files missing"), ("s3://no-such-bucket-anywhere/table", "")],
    ids=["no log", "no bucket"],
)
def test_a_table_that_is_missing_at_its_location_is_refused(
    server: Server, registered: Table, location: str, text: str
) -> None:
    for reply in request_all(server, registered, location).values():
        reply.refused(400, "RESOURCE_DOES_NOT_EXIST", text)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"partitionColumns": ["P"]}, "partitionColumns has 'P', which the schema spells 'p'"),
        ({"partitionColumns": ["p", "q"]}, "partitionColumns has 'q', which the schema lacks"),
        ({"format": {"provider": "orc"}}, "The table's files are in the format 'orc'"),
    ],
    ids=["other case", "missing", "format"],
)
@pytest.mark.parametrize("version", [0, 2])
def test_metadata_that_clients_misread_is_refused_by_every_endpoint(
    server: Server, registered: Table, changed: Mapping[str, Any], message: str, version: int
) -> None:
    log = written(server)
    broken = {"metaData": {**log.metadata()["metaData"], **changed}}
    actions = [action for action in log.commits[version] if "metaData" not in action]
    log.put_commit(version, [*actions, broken])
    for name, reply in request_all(server, registered, log.location).items():
        if name == "version" or (version and name == "query by version"):
            assert reply.status == 200
        else:
            assert (reply.status, message in reply.json["message"]) == (400, True), (name, reply)


CONTENTS: Mapping[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "no object": b"[]\n5\nnull\n",
    "no UTF-8": b'{"add":{"path":"\xff"}}\n',
    "half a line": b'{"commitInfo":{}}\n{"add":{"path":"x","partit',
    "blank lines": b"\n\n\n",
    "unknown actions": b'{"future":{"x":1}}\n{}\n',
    "a number too large": b'{"add":{"path":"x","partitionValues":{},"size":1e400,"modificationTime":1}}\n',
    "nesting": b'{"add":' + b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_commit_with_invalid_content_causes_no_server_error(
    server: Server, registered: Table, content: bytes, version: int
) -> None:
    log = written(server)
    log.put(f"_delta_log/{version:020d}.json", content)
    check(request_all(server, registered, log.location))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"x" * 5000], ids=len)
def test_a_checkpoint_with_invalid_content_causes_no_server_error(
    server: Server, registered: Table, content: bytes
) -> None:
    log = written(server)
    log.put(f"_delta_log/{1:020d}.checkpoint.parquet", content)
    log.put("_delta_log/_last_checkpoint", b'{"version":1,"size":4}')
    check(request_all(server, registered, log.location))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":"x"}', b'{"version":-1}', b'{"version":99}'])
def test_a_wrong_hint_changes_nothing(server: Server, registered: Table, content: bytes) -> None:
    log = written(server)
    log.put("_delta_log/_last_checkpoint", content)
    assert request_all(server, registered, log.location)["query"].kinds == ["protocol", "metaData", "file", "file"]


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["", "x", "..", "../../up", "/abs", "s3://elsewhere/x", "file:///x", "%", "a%zz", "{", "[]", "1"]
        ),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    max_leaves=3,
)
FIELDS: Final = (
    (0, "protocol", ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")),
    (0, "metaData", ("id", "format", "schemaString", "partitionColumns", "configuration", "createdTime", "name")),
    (
        0,
        "add",
        ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"),
    ),
    (1, "remove", ("path", "partitionValues", "size", "deletionTimestamp", "dataChange", "deletionVector")),
    (1, "add", ("deletionVector", "baseRowId", "defaultRowCommitVersion")),
    (1, "cdc", ("path", "partitionValues", "size", "dataChange")),
    (1, "add.deletionVector", ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")),
)
FIELD = st.sampled_from([(version, kind, name) for version, kind, names in FIELDS for name in names])


@settings(
    max_examples=tries(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(field=FIELD, value=VALUES, absent=st.booleans())
@example(field=(1, "add.deletionVector", "storageType"), value="q", absent=False)
@example(field=(1, "add.deletionVector", "pathOrInlineDv"), value="short", absent=False)
@example(field=(1, "add.deletionVector", "cardinality"), value=None, absent=True)
@example(field=(1, "remove", "size"), value=None, absent=True)
@example(field=(1, "remove", "partitionValues"), value=None, absent=True)
@example(field=(1, "cdc", "path"), value="s3://elsewhere/x", absent=False)
@example(field=(0, "add", "size"), value=-1, absent=False)
@example(field=(0, "metaData", "schemaString"), value="{}", absent=False)
@example(field=(0, "metaData", "partitionColumns"), value=["p", "q"], absent=False)
@pytest.mark.slow
def test_an_action_with_an_invalid_value_causes_no_server_error(
    broken_log: tuple[Server, Table], field: tuple[int, str, str], value: Any, *, absent: bool
) -> None:
    server, table = broken_log
    log = written(server)
    version, kind, name = field
    actions = copy.deepcopy(log.commits[version])
    kind, _, inner = kind.partition(".")
    body = next(action[kind] for action in actions if kind in action)
    if inner:
        body = body[inner]
    if absent:
        body.pop(name, None)
    else:
        body[name] = value
    try:
        log.put_commit(version, actions)
    except UnicodeEncodeError:
        return
    check(request_all(server, table, log.location))


@pytest.fixture
def broken_log(server: Server, registered: Table) -> tuple[Server, Table]:
    return server, registered


def test_a_log_outside_the_table_is_refused_before_the_first_line(server: Server, registered: Table) -> None:
    """Files at other locations are signed only if the provider allows them."""
    log = written(server)
    outside = json.loads(json.dumps(log.commits[0][2]))
    outside["add"]["path"] = f"s3://{server.shelf.bucket}/table1/some.parquet"
    log.commit(outside)
    replies = request_all(server, registered, log.location)
    for name in ("query", "range", "changes"):
        replies[name].refused(400, "UNSUPPORTED_OPERATION", "auxiliary locations")
        assert server.shelf.bucket not in replies[name].json["message"]
    server.admin.tables.update(
        "share1", "default", "broken", auxiliary_locations=[f"s3://{server.shelf.bucket}/table1"]
    )
    try:
        replies = request_all(server, registered, log.location)
        assert {reply.status for name, reply in replies.items() if name != "parquet"} == {200}
    finally:
        server.admin.tables.update("share1", "default", "broken", auxiliary_locations=[])


def test_a_response_without_an_external_log_is_never_complete(server: Server, registered: Table) -> None:
    """A snapshot's files are checked while they are sent: errors after the first window follow the 200."""
    log = written(server)
    added = log.commits[0][2]["add"]
    inside = [{"add": added | {"path": f"p=a/{number:04d}.parquet"}} for number in range(FIRST_WINDOW)]
    stray = {"add": added | {"path": f"s3://{server.shelf.bucket}/table1/some.parquet", "partitionValues": {"p": "z"}}}
    log.commit(*inside, stray)
    server.admin.tables.update("share1", "default", "broken", location=log.location)
    shared_table = registered.with_capabilities(READS_ALL)
    lines = cut_off(shared_table)
    assert len(lines) == 2 + FIRST_WINDOW + 1
    assert lines[-1].startswith(b"!aborted")
    negotiated = cut_off(registered.with_capabilities(f"{READS_ALL};includeendstreamaction=true"))
    end = json.loads(negotiated[-1])["endStreamAction"]
    assert len(negotiated) == len(lines)
    # Spark repeats a 5xx: this stays as it is until the provider acts.
    assert end["httpStatusErrorCode"] == 400
    assert "auxiliary locations" in end["errorMessage"]
    assert server.shelf.bucket not in end["errorMessage"]
    assert shared_table.query(predicateHints=["p = 'a'"]).kinds.count("file") >= FIRST_WINDOW
    page = shared_table.query(maxFiles=FIRST_WINDOW)
    rest = shared_table.query(maxFiles=FIRST_WINDOW, pageToken=page.end["nextPageToken"])
    rest.refused(400, "UNSUPPORTED_OPERATION", "auxiliary locations")


def cut_off(table: Table) -> list[bytes]:
    """Return the lines of an answer that the server broke off."""
    with pytest.raises(http.client.IncompleteRead) as broken:
        table.query()
    return broken.value.partial.splitlines()


def test_a_remove_without_details_is_completed_from_the_previous_version(server: Server, registered: Table) -> None:
    """Old writers leave size and partition values out."""
    log = written(server)
    (remove,) = log.commits[2]
    for name in ("size", "partitionValues", "extendedFileMetadata"):
        del remove["remove"][name]
    log.put_commit(2, [remove])
    added = log.commits[0][3]["add"]
    replies = request_all(server, registered, log.location)
    for name in ("range", "changes"):
        action = replies[name].only("file")[-1]["deltaSingleAction"]["remove"]
        assert (action["size"], action["partitionValues"]) == (added["size"], added["partitionValues"])
    remove["remove"]["path"] = "p=b/never-added.parquet"
    log.put_commit(2, [remove])
    repeated = request_all(server, registered, log.location)
    for name in ("range", "changes"):
        repeated[name].refused(400, "RESOURCE_DOES_NOT_EXIST", "version 2 removes a file that version 1 does not have")


def test_error_messages_contain_no_secrets(server: Server, registered: Table, alice: Recipient) -> None:
    log = written(server)
    log.put(f"_delta_log/{1:020d}.json", b"{")
    for reply in request_all(server, registered, log.location).values():
        text = reply.body.decode()
        assert (alice.token or "?") not in text
        assert "Traceback" not in text
        if reply.status == 400:
            assert server.environment["AWS_ENDPOINT_URL"] not in text
