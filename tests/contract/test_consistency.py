"""Responses under load: large responses are complete, and each is of one version despite new commits."""

import hashlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
from contract.logs import Action, TableLog, column
from contract.recipient import Reply, Table
from contract.server import Server
from contract.tables import NAMES

FILES = 5_000
READERS = 4
COMMITS = 24


@contextmanager
def shared(server: Server, log: TableLog) -> Iterator[Table]:
    server.admin.tables.create("share1", "default", log.prefix, log.location, history=True)
    yield Table(server.alice, "share1", "default", log.prefix)
    server.admin.tables.delete("share1", "default", log.prefix)


def sketched(number: int) -> Action:
    """Return the add action of a file that nobody will download."""
    return {
        "add": {
            "path": f"day={number % 10}/part-{number:05d}.parquet",
            "partitionValues": {"day": str(number % 10)},
            "size": 1000 + number,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": 10, "minValues": {"x": number}, "maxValues": {"x": number + 9}}),
        }
    }


def ids(*replies: Reply) -> list[str]:
    return [line["id"] for reply in replies for line in reply.only("file")]


def test_a_large_response_is_complete_with_and_without_pages(server: Server) -> None:
    schema = pa.schema([column("day", pa.string()), column("x", pa.int64())])
    log = server.shelf.log("large", schema, partitions=("day",), timed=False)
    adds = [sketched(number) for number in range(FILES)]
    log.create(*adds[: FILES - 100])
    log.checkpoint(0, adds[: FILES - 100])
    log.commit(*adds[FILES - 100 :])
    with shared(server, log) as table:
        reply = table.query()
        assert sum(line["size"] for line in reply.only("file")) == sum(add["add"]["size"] for add in adds)
        assert len(set(ids(reply))) == FILES
        assert reply.only("metaData")[0]["numFiles"] == FILES
        packed = table.with_capabilities("responseformat=delta", accept_encoding="gzip").query()
        assert packed.headers["content-encoding"] == "gzip"
        assert [line["id"] for line in table.with_capabilities(fileidhash="delta").query().only("file")] == ids(packed)
        pages = [table.query(maxFiles=1999)]
        while token := pages[-1].end.get("nextPageToken"):
            pages.append(table.query(maxFiles=1999, pageToken=token))
        assert [len(page.only("file")) for page in pages] == [1999, 1999, 1002]
        assert ids(*pages) == ids(reply)
        matches = table.query(predicateHints=["day = '3'"]).only("file")
        assert len(matches) == FILES // 10
        assert {line["partitionValues"]["day"] for line in matches} == {"3"}
        assert len(table.query(predicateHints=["x >= 4990"]).only("file")) == 19
        assert len(table.query(limitHint=1000).only("file")) == 100


def test_each_response_has_the_content_of_its_version(server: Server) -> None:
    """Two writers commit and checkpoint while clients read, with and without pages."""
    log = server.shelf.log("busy", NAMES, timed=False)
    log.create()
    live: dict[int, list[str]] = {0: []}
    turn, done = threading.Lock(), threading.Event()
    adds: list[Action] = []

    def write() -> None:
        while True:
            with turn:
                if len(log.commits) > COMMITS:
                    done.set()
                    return
                added = log.add([{"name": str(len(adds))}])
                removed = adds.pop(0) if len(adds) > 5 else None
                adds.append(added)
                live[len(log.commits)] = [action["add"]["path"] for action in adds]
                version = log.commit(*([log.remove(removed)] if removed else []), added)
                if version % 5 == 0:
                    log.checkpoint(version, adds)

    def read() -> list[Reply]:
        replies = []
        while not done.is_set():
            replies.append(table.with_capabilities(fileidhash="delta").query())
            paged = [table.query(maxFiles=2)]
            while token := paged[-1].end.get("nextPageToken"):
                paged.append(table.query(maxFiles=2, pageToken=token))
            assert len({page.version for page in paged}) == 1
            assert len(set(ids(*paged))) == len(ids(*paged)) == len(live[paged[0].version])
            replies.append(table.with_capabilities(fileidhash="delta").query(version=replies[-1].version))
        return replies

    with shared(server, log) as table, ThreadPoolExecutor(READERS + 2) as pool:
        writers = [pool.submit(write) for _ in range(2)]
        results = [reply for reader in [pool.submit(read) for _ in range(READERS)] for reply in reader.result()]
        for writer in writers:
            writer.result()
        latest = table.with_capabilities(fileidhash="delta").query()
        assert latest.version == COMMITS
    assert len({reply.version for reply in results}) > 1
    for reply in [*results, latest]:
        assert sorted(ids(reply)) == sorted(hashed(path) for path in live[reply.version])
        assert reply.only("metaData")[0]["numFiles"] == len(live[reply.version])


def hashed(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()
