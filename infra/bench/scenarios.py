"""Measure table queries over HTTP: response times, and CPU seconds and memory of the server process."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench import measured_tables, process, rivals
from bench.figures import Figure, files_subject
from bench.http_timing import Client, Timing
from bench.object_store import BUCKET, ObjectStore
from bench.serving import Server, Service, row_filtered

Log = Callable[[str], None]
PAGE = 5000
SMALL = measured_tables.name(100)
_FIRST_DAY = json.dumps(
    {
        "op": "equal",
        "children": [
            {"op": "column", "name": "date", "valueType": "date"},
            {"op": "literal", "value": measured_tables.FIRST_DAY.isoformat(), "valueType": "date"},
        ],
    }
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one request: time for the client, CPU and memory of the server, requests to the store."""

    timing: Timing
    cpu: float
    requests: int


@dataclass(frozen=True, slots=True)
class Bench:
    """The measured scenarios, with the object store and the service that they use."""

    objects: ObjectStore
    service: Service
    log: Log

    def of_size(self, files: int, *, warm: int) -> Iterator[Figure]:
        """Measure queries of a table in all scenarios: in a fresh process, warm, gzipped, pruned, paged and so on."""
        subject, name = files_subject(files), measured_tables.name(files)
        rival = self._rival(name)
        with self.service.fresh() as server:
            yield from self._fresh(subject, name, files, server, rival)
            yield from self._warm(subject, name, server, warm)
            yield from self._small(subject, name, server)
            yield from self._pruned(subject, name, files, server)
            if files >= 2 * PAGE:
                yield from self._paged(subject, name, files, server)
            yield from self._after_commit(subject, name, files, server)
        yield from self._filtered(subject, name, files)

    def parallel(self, files: int, readers: int) -> Iterator[Figure]:
        """Measure parallel queries of a table; raises RuntimeError for an incomplete response."""
        name = measured_tables.name(files)
        with self.service.fresh() as server:
            line_count = server.client.query(name).lines
            times = []
            with ThreadPoolExecutor(readers) as pool:
                for _ in range(5):
                    began = time.perf_counter()
                    answers = list(pool.map(server.client.query, [name] * readers))
                    times.append(time.perf_counter() - began)
                    if [answer.lines for answer in answers] != [line_count] * readers:
                        raise RuntimeError("a response to a parallel query was incomplete")
        yield Figure(files_subject(files), f"{readers} parallel queries, all complete", min(times), "s", 0.8)

    def _rival(self, name: str) -> dict[str, float]:
        self.log("deltalake: open, list files")
        return rivals.run_deltalake(f"s3://{BUCKET}/{name}", self.objects.endpoint)

    def _fresh(self, subject: str, name: str, files: int, server: Server, rival: dict[str, float]) -> Iterator[Figure]:
        self.log("first query of the process, of another table")
        first = self._cost(server, lambda client: client.query(SMALL))
        yield Figure(subject, "first query of a process, first byte (100 files)", _ms(first.timing.first), "ms")
        self.log("fresh: first query of this table")
        process.forget_peak(server.pid)
        before = process.resident(server.pid)
        cost = self._cost(server, lambda client: client.query(name))
        growth, peak = process.peak(server.pid) - before, process.peak(server.pid)
        large = files >= 1_000_000  # noqa: PLR2004 -- a million
        _check_complete(cost.timing, files)
        yield Figure(
            subject, "fresh: first byte", _ms(cost.timing.first), "ms", 150, "deltalake, open", _ms(rival["open"])
        )
        yield Figure(
            subject,
            "fresh: last byte, all URLs",
            cost.timing.last,
            "s",
            10 if large else 1.5 if files == 100_000 else None,  # noqa: PLR2004 -- the promised sizes
            "deltalake, add actions",
            rival["listed"],
        )
        yield Figure(subject, "fresh: CPU per line", cost.cpu / cost.timing.lines * 1e6, "us")
        yield Figure(subject, "fresh: S3 requests per query", cost.requests, "", 18 if files == 100_000 else None)  # noqa: PLR2004
        yield Figure(subject, "fresh: memory growth", growth, "MB", 200, "deltalake", rival["growth"])
        yield Figure(subject, "fresh: peak memory", peak, "MB", 300 if large else None, "deltalake", rival["peak"])

    def _warm(self, subject: str, name: str, server: Server, times: int) -> Iterator[Figure]:
        self.log(f"warm: {times} queries")
        costs = [self._cost(server, lambda client: client.query(name)) for _ in range(times)]
        lines = costs[0].timing.lines
        has_goal = subject == "100k files"
        mean = sum(cost.cpu for cost in costs) / times
        yield Figure(subject, "warm: first byte", _ms(min(cost.timing.first for cost in costs)), "ms", 150)
        yield Figure(subject, "warm: last byte", min(cost.timing.last for cost in costs), "s")
        yield Figure(subject, "warm: CPU per line, minimum", min(cost.cpu for cost in costs) / lines * 1e6, "us")
        yield Figure(subject, "warm: CPU per line, mean", mean / lines * 1e6, "us", 4 if has_goal else None)
        yield Figure(subject, "warm: S3 requests per query", costs[-1].requests, "")
        yield Figure(subject, "warm: resident memory", process.resident(server.pid), "MB")
        self.log("warm, gzip")
        compressed = [
            self._cost(server, lambda client: replace(client, gzip=True).query(name)) for _ in range(max(times // 2, 1))
        ]
        yield Figure(subject, "warm, gzip: first byte", _ms(min(cost.timing.first for cost in compressed)), "ms")
        yield Figure(subject, "warm, gzip: CPU per line", min(cost.cpu for cost in compressed) / lines * 1e6, "us")
        smaller = costs[0].timing.nbytes / compressed[0].timing.nbytes
        yield Figure(subject, "warm, gzip: times smaller", smaller, "x", more_is_better=True)

    def _small(self, subject: str, name: str, server: Server) -> Iterator[Figure]:
        self.log("metadata, version")
        has_goal = subject == "100k files"
        base = f"/shares/bench/schemas/logs/tables/{name}"
        for kind, bar in (("metadata", 6), ("version", 2)):
            costs = [self._cost(server, partial(Client.get, target=f"{base}/{kind}")) for _ in range(5)]
            yield Figure(subject, f"warm: {kind}", _ms(min(cost.timing.last for cost in costs)), "ms")
            yield Figure(subject, f"warm: S3 requests for {kind}", costs[-1].requests, "", bar if has_goal else None)
        with self.service.fresh() as alone:
            alone.client.get(f"/shares/bench/schemas/logs/tables/{SMALL}/metadata")
            cost = self._cost(alone, lambda client: client.get(f"{base}/metadata"))
        yield Figure(subject, "fresh: S3 requests for metadata", cost.requests, "", 6 if has_goal else None)

    def _pruned(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        self.log("pruned: one partition, one range of a column")
        body = json.dumps({"jsonPredicateHints": _FIRST_DAY}).encode()
        costs = [self._cost(server, lambda client: client.query(name, body)) for _ in range(5)]
        bar = 150 if files >= 1_000_000 else None  # noqa: PLR2004 -- a million
        lines = costs[0].timing.lines - 2
        yield Figure(subject, f"warm: one partition ({lines} files), last byte", _ms(_least(costs)), "ms", bar)
        small_values = {
            "op": "lessThan",
            "children": [
                {"op": "column", "name": "c0", "valueType": "long"},
                {"op": "literal", "value": str(10 * min(1000, files)), "valueType": "long"},
            ],
        }
        body = json.dumps({"jsonPredicateHints": json.dumps(small_values)}).encode()
        costs = [self._cost(server, lambda client: client.query(name, body)) for _ in range(5)]
        lines = costs[0].timing.lines - 2
        bar = 60 if files == 100_000 else None  # noqa: PLR2004 -- the promised size
        yield Figure(subject, f"warm: JSON hint ({lines} files), last byte", _ms(_least(costs)), "ms", bar)

    def _filtered(self, subject: str, name: str, files: int) -> Iterator[Figure]:
        """Measure a table of which only one partition is shared, compared with a predicate hint for that partition."""
        self.log("filtered to one partition, compared with a hint")
        costs: dict[str, tuple[Cost, Cost]] = {}
        for kind, small, table, body in (
            ("hint", SMALL, name, {"jsonPredicateHints": _FIRST_DAY}),
            ("filter", row_filtered(SMALL), row_filtered(name), {}),
        ):
            content = json.dumps(body).encode()
            with self.service.fresh() as server:
                server.client.query(small, content)  # loads what such a query needs
                fresh = self._cost(server, lambda client: client.query(table, content))  # noqa: B023 -- called at once
                warm = min(
                    (self._cost(server, lambda client: client.query(table, content)) for _ in range(9)),  # noqa: B023
                    key=lambda cost: cost.timing.first,
                )
            costs[kind] = fresh, warm
        if costs["hint"][0].timing.lines != costs["filter"][0].timing.lines:
            raise RuntimeError("a partition filter and a hint for the same partition returned different files")
        has_goal = files == 100_000  # noqa: PLR2004 -- the promised size
        for position, state in enumerate(("fresh", "warm")):
            hinted, filtered = costs["hint"][position], costs["filter"][position]
            reference = _ms(hinted.timing.first)
            yield Figure(
                subject,
                f"{state}: filtered to one partition, first byte",
                _ms(filtered.timing.first),
                "ms",
                1.5 * reference + 5 if has_goal else None,
                "same partition by a hint",
                reference,
            )
            yield Figure(
                subject,
                f"{state}: filtered to one partition, S3 requests",
                filtered.requests,
                "",
                hinted.requests + 1 if has_goal else None,
                "same partition by a hint",
                hinted.requests,
            )

    def _paged(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        pages = min(files // PAGE, 100)
        self.log(f"pages 1 to {pages} of {PAGE}")
        times, token = [], ""
        for _ in range(pages):
            body = {"maxFiles": PAGE} | ({"pageToken": token} if token else {})
            answer = server.client.query(name, json.dumps(body).encode(), keep=True)
            times.append(answer.last)
            last = answer.body.rstrip(b"\n").rpartition(b"\n")[2]
            token = json.loads(last)["endStreamAction"].get("nextPageToken", "")
        first = server.client.query(name, json.dumps({"maxFiles": PAGE}).encode()).last
        last_pages = min(times[-3:])
        yield Figure(subject, "page 1", _ms(min(first, times[0])), "ms")
        yield Figure(subject, f"page {pages}", _ms(last_pages), "ms", 2 * _ms(min(first, times[0])))

    def _after_commit(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        bar = 60 if files >= 1_000_000 else None  # noqa: PLR2004 -- a million
        self.log("one new commit")
        with_checksum = self._new_versions(name, files, server, checksum=True)
        yield Figure(subject, "warm: one new commit, then limitHint 1", _ms(with_checksum), "ms", bar)
        without = self._new_versions(name, files, server, checksum=False)
        yield Figure(subject, "warm: one new commit without a checksum, then limitHint 1", _ms(without), "ms")

    def _new_versions(self, name: str, files: int, server: Server, *, checksum: bool) -> float:
        """Return the shortest time to the last byte of a query after each of three new commits; delete the commits."""
        keys: list[str] = []
        times = []

        def put(suffix: str, content: bytes) -> None:
            keys.append(f"{name}/_delta_log/{version:020d}.{suffix}")
            self.objects.client.put_object(Bucket=BUCKET, Key=keys[-1], Body=content)

        try:
            for number in range(1, 4):
                version = measured_tables.CHECKPOINT_VERSION + measured_tables.COMMITS + number
                if checksum:
                    put("crc", measured_tables.checksum(version, files))
                # The server has cached the versions before, so this content must differ from theirs.
                put("json", measured_tables.commit(version if checksum else version + 10, files))
                times.append(server.client.query(name, b'{"limitHint":1}').last)
        finally:
            for key in reversed(keys):
                self.objects.client.delete_object(Bucket=BUCKET, Key=key)
        return min(times)

    def _cost(self, server: Server, send: Callable[[Client], Timing]) -> Cost:
        return cost_of(self.objects.requests, server, send)


def cost_of(requests: Callable[[], int], server: Server, send: Callable[[Client], Timing]) -> Cost:
    """Send a request and return its cost; `requests` returns the number of S3 requests since the store started."""
    before, cpu = requests(), process.cpu_seconds(server.pid)
    timing = send(server.client)
    return Cost(timing, process.cpu_seconds(server.pid) - cpu, requests() - before)


def _least(costs: list[Cost]) -> float:
    return min(cost.timing.last for cost in costs)


def _ms(seconds: float) -> float:
    return seconds * 1000


def _check_complete(timing: Timing, files: int) -> None:
    expected = files + measured_tables.COMMITS * (measured_tables.ADDS_PER_COMMIT - measured_tables.REMOVES_PER_COMMIT)
    if abs(timing.lines - 2 - expected) > measured_tables.COMMITS * measured_tables.REMOVES_PER_COMMIT:
        raise RuntimeError(f"the response has {timing.lines} lines for a table with about {expected} files")


def write_logs(root: Path, sizes: list[int], log: Log) -> dict[str, Path]:
    """Write the missing Delta logs of tables of these sizes, and return the tables' folders by name."""
    folders = {}
    for files in (100, *sizes):
        log(f"log of {files:,} files")
        folder = measured_tables.write(root, files)
        folders[folder.name] = folder
    return folders
