"""A log of very many files under two writers: every response is of one correct version.

The oracle folds the writers' own commits over the first checkpoint: how many files are live, their bytes, and the
exclusive or of their ids, which any file too many, too few or of another version changes.
"""

import hashlib
import http.client
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from botocore.exceptions import ClientError
from contract.logs import Action, TableLog, column
from contract.recipient import Reply, Table
from contract.server import Server
from contract.tables import CDF_ON

FILES: Final = 1_000_000 if "DELTAIC_LONG" in os.environ else 400_000
PARTS: Final = 1000
MOST_TURNS: Final = 200
"""Delay of a writer between commits, because readers repeat the feed of all commits."""
PAUSE_SECONDS: Final = 1.0
"""Delay of a reader of small responses between them, because the large ones take half a minute."""
FIRST: Final = 1
"""The version of the checkpoint with all of them."""
SCHEMA = pa.schema([column("part", pa.string()), column("x", pa.int64())])
ID, SIZE = re.compile(rb'"id":"([0-9a-f]{32})"'), re.compile(rb'"size":(\d+)')


class Sum(NamedTuple):
    """Count, size and checksum of files."""

    files: int = 0
    size: int = 0
    ids: int = 0

    def with_(self, path: str, size: int, sign: int) -> "Sum":
        return Sum(self.files + sign, self.size + sign * size, self.ids ^ file_id(path))


def file_id(path: str) -> int:
    return int(hashlib.md5(path.encode(), usedforsecurity=False).hexdigest(), 16)


def first_path(number: int) -> str:
    return f"part={number % PARTS:03d}/{number:07d}.parquet"


def first_adds() -> pa.StructArray:
    """Return the first adds as a column of a checkpoint."""
    numbers = np.arange(FILES)
    parts = pc.utf8_lpad(pa.array(numbers % PARTS).cast(pa.string()), 3, "0")
    names = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 7, "0")
    joined = pc.binary_join_element_wise("part=", parts, "/", names, ".parquet", "")
    values = pa.MapArray.from_arrays(np.arange(FILES + 1, dtype=np.int32), pa.array(["part"] * FILES), parts)
    return pa.StructArray.from_arrays(
        [
            joined,
            values,
            pa.array(1000 + numbers),
            pa.array(numbers),
            pa.array(np.ones(FILES, dtype=bool)),
            pa.array(['{"numRecords":3}'] * FILES),
        ],
        ["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"],
    )


@dataclass
class History:
    """The committed versions with their sums."""

    log: TableLog
    commits: dict[int, list[Action]] = field(default_factory=dict)

    @property
    def latest(self) -> int:
        """The latest version, or a lower bound while writers are running."""
        return FIRST + len(self.commits)

    def write(self, writer: int, done: threading.Event) -> int:
        """Commit until the end, independently of the other writer; return the number of conflicts."""
        version, lost = FIRST, 0
        for turn in itertools.count():
            if done.wait(0.1) or turn == MOST_TURNS:
                return lost
            # Each writer removes different files, so that it can retry the next version after a conflict.
            removed_files = [writer + 2 * (turn * 3 + number) for number in range(3)]
            path = f"part={turn % PARTS:03d}/new-{writer}-{turn}.parquet"
            actions = [*(removed(first_path(number), 1000 + number) for number in removed_files), added(path, 7 + turn)]
            version += 1
            while not self._put(version, actions):
                version, lost = version + 1, lost + 1
            self.commits[version] = actions
        raise AssertionError

    def _put(self, version: int, actions: list[Action]) -> bool:
        body = "".join(json.dumps(action) + "\n" for action in actions)
        key = f"{self.log.prefix}/_delta_log/{version:020d}.json"
        try:
            self.log.s3.put_object(Bucket=self.log.bucket, Key=key, Body=body.encode(), IfNoneMatch="*")
        except ClientError as refused:
            if refused.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict"}:
                return False
            raise
        return True

    def sums(self, below: str | None = None) -> dict[int, Sum]:
        """Replay the commits: sum the files of each version, all files or those of the partitions below one."""
        numbers = [number for number in range(FILES) if below is None or f"{number % PARTS:03d}" < below]
        sizes = sum(numbers) + 1000 * len(numbers)
        first_sum = Sum(len(numbers), sizes, reduce(xor, (file_id(first_path(number)) for number in numbers)))
        sums_ = {FIRST: first_sum}
        for version in range(FIRST + 1, self.latest + 1):
            for kind, action in (pair for line in self.commits[version] for pair in line.items()):
                if below is None or action["partitionValues"]["part"] < below:
                    first_sum = first_sum.with_(action["path"], action["size"], 1 if kind == "add" else -1)
            sums_[version] = first_sum
        return sums_


def added(path: str, size: int) -> Action:
    values = {"part": path[5:8]}
    return {"add": {"path": path, "partitionValues": values, "size": size, "modificationTime": 1, "dataChange": True}}


def removed(path: str, size: int) -> Action:
    values = {"part": path[5:8]}
    return {
        "remove": {
            "path": path,
            "partitionValues": values,
            "size": size,
            "deletionTimestamp": 1,
            "dataChange": True,
            "extendedFileMetadata": True,
        }
    }


class Summary(NamedTuple):
    """Summary of a response or of the pages of one."""

    version: int
    known_before: int
    """The latest version at the time of the request."""
    announced: tuple[int, int]
    """Number and size of the files, as the metadata says."""
    sum: Sum


@pytest.fixture(scope="module")
def history(server: Server) -> Iterator[tuple[History, Table]]:
    log = server.shelf.log("large", SCHEMA, partitions=("part",), timed=False, configuration=dict(CDF_ON))
    log.create()
    log.commit()
    log.checkpoint(FIRST, [], columns=first_adds())
    server.admin.tables.create("share1", "default", "large", log.location, history=True)
    yield History(log), Table(server.alice, "share1", "default", "large")
    server.admin.tables.delete("share1", "default", "large")


def streamed(table: Table, body: Action) -> tuple[int, list[Any], Iterator[bytes]]:
    """Query, and return the version, the two head lines, and the rest in pieces of whole lines."""
    address = urlsplit(table.recipient.endpoint)
    connection = http.client.HTTPConnection(address.netloc, timeout=120)
    headers = {"authorization": f"Bearer {table.recipient.token}", "content-type": "application/json"}
    connection.request("POST", f"{address.path}{table.path}/query", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    head = [json.loads(answer.readline()) for _ in range(2)]

    def pieces() -> Iterator[bytes]:
        remainder = b""
        while piece := answer.read(1 << 20):
            lines, _, remainder = (remainder + piece).rpartition(b"\n")
            yield lines
        assert remainder == b""
        connection.close()

    return int(answer.headers["delta-table-version"]), head, pieces()


def summed(pieces: Iterable[bytes]) -> tuple[Sum, bytes]:
    """Return what the file lines come to, and the last line."""
    files = size = ids = 0
    last = b""
    for piece in pieces:
        matches = ID.findall(piece)
        files += len(matches)
        ids = reduce(xor, (int(text, 16) for text in matches), ids)
        size += sum(map(int, SIZE.findall(piece)))
        last = piece.rpartition(b"\n")[2] or last
    return Sum(files, size, ids), last


def read(history: History, table: Table, **body: Any) -> Summary:
    """Read a snapshot, page by page where it has pages."""
    before = history.latest
    version, head, pieces = streamed(table, body)
    total, last = summed(pieces)
    while "maxFiles" in body and (token := json.loads(last)["endStreamAction"].get("nextPageToken")):
        second_page, same_head, pieces = streamed(table, body | {"pageToken": token})
        assert (second_page, same_head) == (version, head)
        more, last = summed(pieces)
        total = Sum(total.files + more.files, total.size + more.size, total.ids ^ more.ids)
    metadata = head[1]["metaData"]
    return Summary(version, before, (metadata["numFiles"], metadata["size"]), total)


def repeat(done: threading.Event, ask: Callable[[], Any]) -> list[Any]:
    results = [ask()]
    while not done.wait(PAUSE_SECONDS):
        results.append(ask())
    return results


@pytest.mark.slow
def test_every_response_is_of_one_version(history: tuple[History, Table]) -> None:
    history_, table = history
    done = threading.Event()

    def versions() -> tuple[int, int]:
        return history_.latest, table.at().version

    def metadata() -> tuple[int, Reply]:
        return history_.latest, table.metadata()

    def feed() -> tuple[int, Reply]:
        return history_.latest, table.changes(f"?startingVersion={FIRST}")

    with ThreadPoolExecutor(7) as pool:
        writers = [pool.submit(history_.write, number, done) for number in range(2)]
        try:
            small = [pool.submit(repeat, done, ask) for ask in (versions, metadata, feed)]
            pruned = pool.submit(repeat, done, lambda: read(history_, table, predicateHints=["part < '002'"]))
            paged = read(history_, table, predicateHints=["part < '100'"], maxFiles=FILES // 25)
            complete = read(history_, table)
            repeated = read(history_, table, version=paged.version, predicateHints=["part < '100'"])
        finally:
            done.set()
        lost = sum(writer.result() for writer in writers)
        version_ranges, described, fed = (future.result() for future in small)
        partial = pruned.result()
    assert sorted(history_.commits) == list(range(FIRST + 1, history_.latest + 1))
    assert lost > 10, "the writers never met"

    all_, tenth, few = history_.sums(), history_.sums("100"), history_.sums("002")
    for sums_seen, sums in (
        (complete, all_),
        (paged, tenth),
        (repeated, tenth),
        *((summary, few) for summary in partial),
    ):
        assert sums_seen.sum == sums[sums_seen.version]
        assert sums_seen.announced == all_[sums_seen.version][:2]
    assert repeated.version == paged.version < complete.version
    for sums_seen in (complete, paged, *partial):
        assert sums_seen.known_before <= sums_seen.version
    assert all(before <= version <= history_.latest for before, version in version_ranges)
    for before, reply in described:
        (future,) = reply.only("metaData")
        assert before <= reply.version
        assert (future["numFiles"], future["size"]) == all_[reply.version][:2]
    for before, reply in fed:
        latest = reply.only("metaData")[0]["version"]
        assert (before <= latest, reply.version) == (True, FIRST)
        assert changes(reply) == [
            (version, kind, file_id(action["path"]))
            for version in range(FIRST + 1, latest + 1)
            for line in history_.commits[version]
            for kind, action in line.items()
        ]
    assert len({reply.version for _, reply in described}) > 1


def changes(reply: Reply) -> list[tuple[int, str, int]]:
    lines = (pair for line in reply.lines[2:] for pair in line.items())
    return [(content["version"], kind, int(content["id"], 16)) for kind, content in lines]
