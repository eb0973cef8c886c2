"""Pages that the server ends: they join to the whole, each fits what it must, and only who follows gets one."""

import gzip
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asgi_app import answer_of, body_of
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.errors import InvalidParameter
from deltaic.http.request import Request
from deltaic.http.response import StreamedResponse
from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing.answer import ResponseOptions
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.snapshot_query import SnapshotQuery
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from sharing.means import ALL, shared_table, sharing

PAGE_BYTES = 12_000
NOW = 1_800_000_000.0
SPARK: dict[str, Any] = {"includeRefreshToken": False}
"""What the connector's body has at the least."""


@dataclass
class Page:
    """One answer."""

    lines: list[bytes]
    wire_bytes: int
    metrics: ResponseMetrics

    @property
    def files(self) -> list[bytes]:
        return [line for line in self.lines if line.startswith(b'{"file"')]

    @property
    def end(self) -> Mapping[str, Any] | None:
        last: dict[str, Any] = json.loads(self.lines[-1])
        return last.get("endStreamAction")

    @property
    def token(self) -> str | None:
        return (self.end or {}).get("nextPageToken")


class Server:
    """What answers the queries of one table in a folder, at a time that stands still."""

    def __init__(self, root: Path, capabilities: str | None = None) -> None:
        self.means = sharing(clock=lambda: NOW)
        self.log = DeltaLog(FolderStore(root), SnapshotCache(1 << 28), "t")
        self.capabilities = capabilities

    def ask(self, body: Mapping[str, Any], *, follows: bool, packed: bool, page_bytes: int = PAGE_BYTES) -> Page:
        table = shared_table()

        def use_case(request: Request) -> StreamedResponse:
            options = ResponseOptions.parse(self.capabilities, None, request.page_budget if follows else None)
            query = QueryRequest.parse(json.dumps(body).encode())
            answer = SnapshotQuery(self.means, table, query, options, self.log).answer()
            return StreamedResponse({}, answer.chunks, answer.failed)

        sent, error = answer_of(
            use_case, stream=True, page_bytes=page_bytes, accept_encoding="gzip" if packed else "identity"
        )
        assert (error, sent[0]["status"]) == (None, 200), body_of(sent)
        wire = body_of(sent)
        text = gzip.decompress(wire) if packed else wire
        return Page(text.splitlines(), len(wire), table.caller.audit.metrics)

    def pages(self, body: Mapping[str, Any], *, packed: bool, page_bytes: int = PAGE_BYTES) -> list[Page]:
        """Ask as Spark's connector does: follow-ups have `maxFiles` and the token, and not the key."""
        found = [self.ask(body, follows=True, packed=packed, page_bytes=page_bytes)]
        rest = {name: value for name, value in body.items() if name != "includeRefreshToken"}
        while token := found[-1].token:
            asked = {"maxFiles": 100_000, **rest, "pageToken": token}
            found.append(self.ask(asked, follows=True, packed=packed, page_bytes=page_bytes))
        return found


def written(root: Path, sizes: list[int], *, partitioned: bool, checkpoint: bool, vectors: bool) -> None:
    """Write a table whose files have statistics of these sizes that nothing can pack."""
    random = Random(3)  # noqa: S311 -- the same at every run
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(partitions=("p",) if partitioned else ()))
    for first in range(0, len(sizes), 20):
        files: list[Action] = []
        for number, size in enumerate(sizes[first : first + 20], start=first):
            partition = "abc"[number % 3]
            one = {"partitionValues": {"p": partition}} if partitioned else {"partitionValues": {}}
            stats = json.dumps({"numRecords": 10, "minValues": {"note": random.randbytes(size // 2).hex()}})
            deleted = vector(f"dv{number:018d}", 1) if vectors and number % 5 == 4 else None
            files.append(add(f"p={partition}/f{number}.parquet", 1000 + number, partition, deleted, stats=stats, **one))
        log.commit(*files)
    if checkpoint:
        log.classic(len(log.commits) - 1, row_group=7 if len(sizes) < 100 else 700)


@settings(deadline=None, max_examples=tries(20))
@given(
    sizes=st.lists(st.sampled_from([0, 20, 400, 3000]), max_size=45),
    partitioned=st.booleans(),
    checkpoint=st.booleans(),
    delta=st.booleans(),
    packed=st.booleans(),
    known=st.booleans(),
    body=st.fixed_dictionaries(
        {},
        optional={
            "predicateHints": st.sampled_from([["p = 'a'"], ["p <> 'b'"]]),
            "limitHint": st.integers(0, 300),
            "maxFiles": st.integers(1, 20),
            "version": st.just(1),
        },
    ),
)
def test_pages_join_to_the_whole_and_each_fits(
    *,
    sizes: list[int],
    partitioned: bool,
    checkpoint: bool,
    delta: bool,
    packed: bool,
    known: bool,
    body: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), sizes, partitioned=partitioned, checkpoint=checkpoint, vectors=delta)
        server = Server(Path(folder), ALL.replace("parquet,", "") if delta else "responseformat=parquet,delta")
        if known:
            server.ask({}, follows=False, packed=False)
        if not sizes:
            body.pop("version", None)
        whole = server.ask({**body, "maxFiles": None}, follows=False, packed=packed)
        pages = server.pages({**SPARK, **body}, packed=packed)
    by_partition = delta and partitioned and "limitHint" in body
    if not (by_partition and "maxFiles" in body):  # rows are counted anew on each page that was asked for
        assert [line for page in pages for line in page.files] == whole.files
    assert {tuple(page.lines[:2]) for page in pages} == {tuple(whole.lines[:2])}
    assert all(page.end is not None for page in pages) or by_partition
    for page in pages:
        assert page.wire_bytes <= PAGE_BYTES or len(page.files) == 1 or by_partition
        assert page.metrics == told(page)


def told(page: Page) -> ResponseMetrics:
    """Count what stands in an answer."""
    adds = [json.loads(line)["file"] for line in page.files]
    adds = [add["deltaSingleAction"]["add"] if "deltaSingleAction" in add else add for add in adds]
    vectors = [add for add in adds if add.get("deletionVector", {}).get("storageType") == "p"]
    size = sum(add["size"] for add in adds)
    return ResponseMetrics(len(adds), size, len(vectors), other_lines=len(page.lines) - len(adds))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of more files than a chunk has, whose answer is many times what a page may be."""
    root = tmp_path_factory.mktemp("large")
    written(root, [200] * 2000, partitioned=True, checkpoint=True, vectors=False)
    return root


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_pages_use_the_room_that_they_have(large: Path, *, packed: bool, known: bool) -> None:
    server = Server(large)
    whole = server.ask({}, follows=False, packed=packed)
    if not known:
        server = Server(large)
    page_bytes = 400_000 if packed else 100_000
    pages = server.pages(SPARK, packed=packed, page_bytes=page_bytes)
    assert [line for page in pages for line in page.files] == whole.files
    assert [page.metrics for page in pages] == [told(page) for page in pages]
    assert len(pages) > 1
    # Gzipped, what the compressor holds back at the end counts unpacked: up to a quarter of a million bytes.
    least = page_bytes * (0.5 if packed else 0.9)
    assert all(least < page.wire_bytes <= page_bytes for page in pages[:-1])


ASKED: dict[str, dict[str, Any]] = {
    "nothing of Spark's": {},
    "a hint": {"predicateHints": ["p <> 'b'"]},
    "time travel": {"version": 100},
}


@pytest.mark.parametrize("body", ASKED.values(), ids=ASKED)
def test_a_body_without_the_key_gets_no_page_and_no_end(large: Path, body: Mapping[str, Any]) -> None:
    """Python's client, and whoever else may send Spark's name: the key is Spark's alone."""
    page = Server(large).ask(body, follows=True, packed=False)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_the_key_without_the_name_gets_no_page(large: Path) -> None:
    page = Server(large).ask(SPARK, follows=False, packed=False)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_rows_that_are_limited_in_each_partition_come_at_once(large: Path) -> None:
    """Counted anew on each page they would be many times what was meant; without partitions they are paged."""
    delta = Server(large, ALL.replace("parquet,", ""))
    assert delta.ask({**SPARK, "limitHint": 5_000}, follows=True, packed=False).token is None
    assert Server(large).ask({**SPARK, "limitHint": 5_000}, follows=True, packed=False).token is not None


def test_where_pages_are_turned_off_nobody_gets_one(large: Path) -> None:
    page = Server(large).ask(SPARK, follows=True, packed=False, page_bytes=0)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_a_token_of_such_a_page_is_refused_with_another_query(large: Path) -> None:
    server = Server(large)
    token = server.ask(SPARK, follows=True, packed=False).token
    query = QueryRequest.parse(json.dumps({"pageToken": token, "predicateHints": ["p = 'a'"]}).encode())
    with pytest.raises(InvalidParameter, match="Query parameter mismatch"):
        SnapshotQuery(server.means, shared_table(), query, ResponseOptions.parse(None, None), server.log).answer()


def test_who_does_not_follow_by_name_may_still_go_on_with_a_token(large: Path) -> None:
    """The rest comes at once then."""
    server = Server(large)
    whole = server.ask({}, follows=False, packed=False)
    first = server.ask(SPARK, follows=True, packed=False)
    rest = server.ask({"pageToken": first.token}, follows=False, packed=False)
    assert first.files + rest.files == whole.files
    assert rest.end is not None
    assert rest.token is None
