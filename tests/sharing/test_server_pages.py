"""Server-side pages join to the complete answer, fit the budget, and only go to clients that follow them."""

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
"""Minimal request body of the connector."""


@dataclass
class Page:
    """Answer of a query."""

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
    """Server of one table in a folder, with a fixed time."""

    def __init__(self, root: Path, capabilities: str | None = None) -> None:
        self.context = sharing(clock=lambda: NOW)
        self.log = DeltaLog(FolderStore(root), SnapshotCache(1 << 28), "t")
        self.capabilities = capabilities

    def ask(self, body: Mapping[str, Any], *, follows: bool, packed: bool, page_bytes: int = PAGE_BYTES) -> Page:
        table = shared_table()

        def use_case(request: Request) -> StreamedResponse:
            options = ResponseOptions.parse(self.capabilities, None, request.page_budget if follows else None)
            query = QueryRequest.parse(json.dumps(body).encode())
            answer = SnapshotQuery(self.context, table, query, options, self.log).answer()
            return StreamedResponse({}, answer.chunks, answer.failed)

        sent, error = answer_of(
            use_case, stream=True, page_bytes=page_bytes, accept_encoding="gzip" if packed else "identity"
        )
        assert (error, sent[0]["status"]) == (None, 200), body_of(sent)
        wire = body_of(sent)
        text = gzip.decompress(wire) if packed else wire
        return Page(text.splitlines(), len(wire), table.caller.audit.metrics)

    def pages(self, body: Mapping[str, Any], *, packed: bool, page_bytes: int = PAGE_BYTES) -> list[Page]:
        """Query like Spark's connector: later pages have `maxFiles` and the token, but not the key."""
        pages = [self.ask(body, follows=True, packed=packed, page_bytes=page_bytes)]
        rest = {name: value for name, value in body.items() if name != "includeRefreshToken"}
        while token := pages[-1].token:
            next_body = {"maxFiles": 100_000, **rest, "pageToken": token}
            pages.append(self.ask(next_body, follows=True, packed=packed, page_bytes=page_bytes))
        return pages


def write_table(root: Path, sizes: list[int], *, partitioned: bool, checkpoint: bool, vectors: bool) -> None:
    """Write a table whose files have incompressible statistics of these sizes."""
    random = Random(3)  # noqa: S311 -- the same in every run
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(partitions=("p",) if partitioned else ()))
    for first in range(0, len(sizes), 20):
        files: list[Action] = []
        for number, size in enumerate(sizes[first : first + 20], start=first):
            partition = "abc"[number % 3]
            values = {"partitionValues": {"p": partition}} if partitioned else {"partitionValues": {}}
            stats = json.dumps({"numRecords": 10, "minValues": {"note": random.randbytes(size // 2).hex()}})
            deleted = vector(f"dv{number:018d}", 1) if vectors and number % 5 == 4 else None
            files.append(
                add(f"p={partition}/f{number}.parquet", 1000 + number, partition, deleted, stats=stats, **values)
            )
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
    cached=st.booleans(),
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
def test_pages_join_to_the_complete_answer_and_fit(
    *,
    sizes: list[int],
    partitioned: bool,
    checkpoint: bool,
    delta: bool,
    packed: bool,
    cached: bool,
    body: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder), sizes, partitioned=partitioned, checkpoint=checkpoint, vectors=delta)
        server = Server(Path(folder), ALL.replace("parquet,", "") if delta else "responseformat=parquet,delta")
        if cached:
            server.ask({}, follows=False, packed=False)
        if not sizes:
            body.pop("version", None)
        complete = server.ask({**body, "maxFiles": None}, follows=False, packed=packed)
        pages = server.pages({**SPARK, **body}, packed=packed)
    by_partition = delta and partitioned and "limitHint" in body
    if not (by_partition and "maxFiles" in body):  # each requested page counts the rows again
        assert [line for page in pages for line in page.files] == complete.files
    assert {tuple(page.lines[:2]) for page in pages} == {tuple(complete.lines[:2])}
    assert all(page.end is not None for page in pages) or by_partition
    for page in pages:
        assert page.wire_bytes <= PAGE_BYTES or len(page.files) == 1 or by_partition
        assert page.metrics == expected_metrics(page)


def expected_metrics(page: Page) -> ResponseMetrics:
    """Count the files and lines of an answer."""
    adds = [json.loads(line)["file"] for line in page.files]
    adds = [add["deltaSingleAction"]["add"] if "deltaSingleAction" in add else add for add in adds]
    vectors = [add for add in adds if add.get("deletionVector", {}).get("storageType") == "p"]
    size = sum(add["size"] for add in adds)
    return ResponseMetrics(len(adds), size, len(vectors), other_lines=len(page.lines) - len(adds))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table with more files than a chunk has, whose answer is much larger than a page."""
    root = tmp_path_factory.mktemp("large")
    write_table(root, [200] * 2000, partitioned=True, checkpoint=True, vectors=False)
    return root


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_pages_use_most_of_the_budget(large: Path, *, packed: bool, cached: bool) -> None:
    server = Server(large)
    complete = server.ask({}, follows=False, packed=packed)
    if not cached:
        server = Server(large)
    page_bytes = 400_000 if packed else 100_000
    pages = server.pages(SPARK, packed=packed, page_bytes=page_bytes)
    assert [line for page in pages for line in page.files] == complete.files
    assert [page.metrics for page in pages] == [expected_metrics(page) for page in pages]
    assert len(pages) > 1
    # With gzip, buffered bytes count as not compressed: up to 250,000 bytes.
    least = page_bytes * (0.5 if packed else 0.9)
    assert all(least < page.wire_bytes <= page_bytes for page in pages[:-1])


BODIES: dict[str, dict[str, Any]] = {
    "nothing of Spark's": {},
    "a hint": {"predicateHints": ["p <> 'b'"]},
    "time travel": {"version": 100},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_body_without_the_key_gets_all_files(large: Path, body: Mapping[str, Any]) -> None:
    """Python's client and others may send Spark's name, but only Spark sends the key."""
    page = Server(large).ask(body, follows=True, packed=False)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_key_without_the_client_name_gets_all_files(large: Path) -> None:
    page = Server(large).ask(SPARK, follows=False, packed=False)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_limit_by_partition_gets_all_files(large: Path) -> None:
    """Each page would count the rows again. Without partitions, the answer has pages."""
    delta = Server(large, ALL.replace("parquet,", ""))
    assert delta.ask({**SPARK, "limitHint": 5_000}, follows=True, packed=False).token is None
    assert Server(large).ask({**SPARK, "limitHint": 5_000}, follows=True, packed=False).token is not None


def test_disabled_pages_return_all_files(large: Path) -> None:
    page = Server(large).ask(SPARK, follows=True, packed=False, page_bytes=0)
    assert page.wire_bytes > 10 * PAGE_BYTES
    assert page.end is None


def test_page_token_is_refused_with_another_query(large: Path) -> None:
    server = Server(large)
    token = server.ask(SPARK, follows=True, packed=False).token
    query = QueryRequest.parse(json.dumps({"pageToken": token, "predicateHints": ["p = 'a'"]}).encode())
    with pytest.raises(InvalidParameter, match="Query parameter mismatch"):
        SnapshotQuery(server.context, shared_table(), query, ResponseOptions.parse(None, None), server.log).answer()


def test_any_client_can_continue_with_a_token(large: Path) -> None:
    """Then one page has all remaining files."""
    server = Server(large)
    complete = server.ask({}, follows=False, packed=False)
    first = server.ask(SPARK, follows=True, packed=False)
    rest = server.ask({"pageToken": first.token}, follows=False, packed=False)
    assert first.files + rest.files == complete.files
    assert rest.end is not None
    assert rest.token is None
