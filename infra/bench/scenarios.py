"""Figures of a table of some size, over HTTP, at the gateway process's cost."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench import measured_tables, process, rivals
from bench.figures import Figure, files_named
from bench.http_timing import Client, Timing, unframed
from bench.object_store import BUCKET, ObjectStore
from bench.serving import Server, Service, row_filtered

Say = Callable[[str], None]
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
    """One request, seen from both ends."""

    timing: Timing
    cpu: float
    requests: int


@dataclass(frozen=True, slots=True)
class Bench:
    """What the scenarios share."""

    objects: ObjectStore
    service: Service
    say: Say

    def of_size(self, files: int, *, warm: int) -> Iterator[Figure]:
        """Measure one table: fresh, warm, gzipped, pruned, paged, after a commit; and deltalake on the same log."""
        subject, name = files_named(files), measured_tables.name(files)
        rival = self._rival(name)
        with self.service.fresh() as server:
            yield from self._fresh(subject, name, files, server, rival)
            yield from self._warm(subject, name, server, warm)
            yield from self._small(subject, name, server)
            yield from self._pruned(subject, name, files, server)
            if files >= 2 * PAGE:
                yield from self._paged(subject, name, files, server)
            yield from self._committed(subject, name, files, server)
        yield from self._narrowed(subject, name, files)

    def parallel(self, files: int, readers: int) -> Iterator[Figure]:
        """Measure some readers of one table at once; each must get a whole answer."""
        name = measured_tables.name(files)
        with self.service.fresh() as server:
            whole = server.client.query(name).lines
            times = []
            with ThreadPoolExecutor(readers) as pool:
                for _ in range(5):
                    began = time.perf_counter()
                    answers = list(pool.map(server.client.query, [name] * readers))
                    times.append(time.perf_counter() - began)
                    if [answer.lines for answer in answers] != [whole] * readers:
                        raise RuntimeError("an answer was not whole")
        yield Figure(files_named(files), f"{readers} parallel queries, all done", min(times), "s", 0.8)

    def _rival(self, name: str) -> dict[str, float]:
        self.say("deltalake: open, list files")
        return rivals.ask("deltalake", f"s3://{BUCKET}/{name}", self.objects.endpoint)

    def _fresh(self, subject: str, name: str, files: int, server: Server, rival: dict[str, float]) -> Iterator[Figure]:
        self.say("first query of the process, of another table")
        other = self._cost(server, lambda client: client.query(SMALL))
        yield Figure(subject, "first query of a process, first byte (a table of 100)", _ms(other.timing.first), "ms")
        self.say("fresh: first query of this table")
        process.forget_peak(server.pid)
        before = process.resident(server.pid)
        cost = self._cost(server, lambda client: client.query(name))
        growth, peak = process.peak(server.pid) - before, process.peak(server.pid)
        large = files >= 1_000_000  # noqa: PLR2004 -- a million
        _complete(cost.timing, files)
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
        yield Figure(subject, "fresh: CPU a line", cost.cpu / cost.timing.lines * 1e6, "us")
        yield Figure(subject, "fresh: S3 requests of a query", cost.requests, "", 18 if files == 100_000 else None)  # noqa: PLR2004
        yield Figure(subject, "fresh: memory growth", growth, "MB", 200, "deltalake", rival["growth"])
        yield Figure(subject, "fresh: peak memory", peak, "MB", 300 if large else None, "deltalake", rival["peak"])

    def _warm(self, subject: str, name: str, server: Server, times: int) -> Iterator[Figure]:
        self.say(f"warm: {times} queries")
        costs = [self._cost(server, lambda client: client.query(name)) for _ in range(times)]
        lines = costs[0].timing.lines
        promised = subject == "100k files"
        mean = sum(cost.cpu for cost in costs) / times
        yield Figure(subject, "warm: first byte", _ms(min(cost.timing.first for cost in costs)), "ms", 150)
        yield Figure(subject, "warm: last byte", min(cost.timing.last for cost in costs), "s")
        yield Figure(subject, "warm: CPU a line, least", min(cost.cpu for cost in costs) / lines * 1e6, "us")
        yield Figure(subject, "warm: CPU a line, mean", mean / lines * 1e6, "us", 4 if promised else None)
        yield Figure(subject, "warm: S3 requests of a query", costs[-1].requests, "")
        yield Figure(subject, "warm: resident memory", process.resident(server.pid), "MB")
        self.say("warm, gzip")
        packed = [
            self._cost(server, lambda client: replace(client, gzip=True).query(name)) for _ in range(max(times // 2, 1))
        ]
        yield Figure(subject, "warm, gzip: first byte", _ms(min(cost.timing.first for cost in packed)), "ms")
        yield Figure(subject, "warm, gzip: CPU a line", min(cost.cpu for cost in packed) / lines * 1e6, "us")
        smaller = costs[0].timing.nbytes / packed[0].timing.nbytes
        yield Figure(subject, "warm, gzip: times smaller", smaller, "x", more_is_better=True)

    def _small(self, subject: str, name: str, server: Server) -> Iterator[Figure]:
        self.say("metadata, version")
        promised = subject == "100k files"
        base = f"/shares/bench/schemas/logs/tables/{name}"
        for what, bar in (("metadata", 6), ("version", 2)):
            costs = [self._cost(server, partial(Client.get, target=f"{base}/{what}")) for _ in range(5)]
            yield Figure(subject, f"warm: {what}", _ms(min(cost.timing.last for cost in costs)), "ms")
            yield Figure(subject, f"warm: S3 requests of {what}", costs[-1].requests, "", bar if promised else None)
        with self.service.fresh() as alone:
            alone.client.get(f"/shares/bench/schemas/logs/tables/{SMALL}/metadata")
            cost = self._cost(alone, lambda client: client.get(f"{base}/metadata"))
        yield Figure(subject, "fresh: S3 requests of metadata", cost.requests, "", 6 if promised else None)

    def _pruned(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        self.say("pruned: one partition, one range of a column")
        body = json.dumps({"jsonPredicateHints": _FIRST_DAY}).encode()
        costs = [self._cost(server, lambda client: client.query(name, body)) for _ in range(5)]
        bar = 150 if files >= 1_000_000 else None  # noqa: PLR2004 -- a million
        lines = costs[0].timing.lines - 2
        yield Figure(subject, f"warm: one partition ({lines} files), last byte", _ms(_least(costs)), "ms", bar)
        low = {
            "op": "lessThan",
            "children": [
                {"op": "column", "name": "c0", "valueType": "long"},
                {"op": "literal", "value": str(10 * min(1000, files)), "valueType": "long"},
            ],
        }
        body = json.dumps({"jsonPredicateHints": json.dumps(low)}).encode()
        costs = [self._cost(server, lambda client: client.query(name, body)) for _ in range(5)]
        lines = costs[0].timing.lines - 2
        bar = 60 if files == 100_000 else None  # noqa: PLR2004 -- the promised size
        yield Figure(subject, f"warm: JSON hint ({lines} files), last byte", _ms(_least(costs)), "ms", bar)

    def _narrowed(self, subject: str, name: str, files: int) -> Iterator[Figure]:
        """Measure a table of which one partition is shared, beside the whole table asked for that partition."""
        self.say("narrowed to one partition by a filter, beside a hint")
        costs: dict[str, tuple[Cost, Cost]] = {}
        for what, small, table, body in (
            ("hint", SMALL, name, {"jsonPredicateHints": _FIRST_DAY}),
            ("filter", row_filtered(SMALL), row_filtered(name), {}),
        ):
            sent = json.dumps(body).encode()
            with self.service.fresh() as server:
                server.client.query(small, sent)  # loads what such a query needs
                fresh = self._cost(server, lambda client: client.query(table, sent))  # noqa: B023 -- called at once
                warm = min(
                    (self._cost(server, lambda client: client.query(table, sent)) for _ in range(9)),  # noqa: B023
                    key=lambda cost: cost.timing.first,
                )
            costs[what] = fresh, warm
        if costs["hint"][0].timing.lines != costs["filter"][0].timing.lines:
            raise RuntimeError("a filter and a hint for the same partition gave other files")
        promised = files == 100_000  # noqa: PLR2004 -- the promised size
        for at, state in enumerate(("fresh", "warm")):
            hinted, filtered = costs["hint"][at], costs["filter"][at]
            theirs = _ms(hinted.timing.first)
            yield Figure(
                subject,
                f"{state}: narrowed to one partition, first byte",
                _ms(filtered.timing.first),
                "ms",
                1.5 * theirs + 5 if promised else None,
                "the same by a hint",
                theirs,
            )
            yield Figure(
                subject,
                f"{state}: narrowed to one partition, S3 requests",
                filtered.requests,
                "",
                hinted.requests + 1 if promised else None,
                "the same by a hint",
                hinted.requests,
            )

    def _paged(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        wanted = min(files // PAGE, 100)
        self.say(f"pages 1 to {wanted} of {PAGE}")
        times, token = [], ""
        for _ in range(wanted):
            body = {"maxFiles": PAGE} | ({"pageToken": token} if token else {})
            answer = server.client.query(name, json.dumps(body).encode(), keep=True)
            times.append(answer.last)
            last = unframed(answer.body).rstrip(b"\n").rpartition(b"\n")[2]
            token = json.loads(last)["endStreamAction"].get("nextPageToken", "")
        first = server.client.query(name, json.dumps({"maxFiles": PAGE}).encode()).last
        last_pages = min(times[-3:])
        yield Figure(subject, "page 1", _ms(min(first, times[0])), "ms")
        yield Figure(subject, f"page {wanted}", _ms(last_pages), "ms", 2 * _ms(min(first, times[0])))

    def _committed(self, subject: str, name: str, files: int, server: Server) -> Iterator[Figure]:
        bar = 60 if files >= 1_000_000 else None  # noqa: PLR2004 -- a million
        self.say("one new commit")
        with_checksum = self._new_versions(name, files, server, checksum=True)
        yield Figure(subject, "warm: one new commit, then limitHint 1", _ms(with_checksum), "ms", bar)
        without = self._new_versions(name, files, server, checksum=False)
        yield Figure(subject, "the same by a writer of no checksums", _ms(without), "ms")

    def _new_versions(self, name: str, files: int, server: Server, *, checksum: bool) -> float:
        """Return the least time to the last byte after each of three commits, which are removed again."""
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
                # Other content than that of the versions before: those are known here.
                put("json", measured_tables.commit(version if checksum else version + 10, files))
                times.append(server.client.query(name, b'{"limitHint":1}').last)
        finally:
            for key in reversed(keys):
                self.objects.client.delete_object(Bucket=BUCKET, Key=key)
        return min(times)

    def _cost(self, server: Server, ask: Callable[[Client], Timing]) -> Cost:
        return cost_of(self.objects.requests, server, ask)


def cost_of(requests: Callable[[], int], server: Server, ask: Callable[[Client], Timing]) -> Cost:
    """Send one request and return what it cost both ends; `requests` counts those of the store so far."""
    asked, cpu = requests(), process.cpu_seconds(server.pid)
    timing = ask(server.client)
    return Cost(timing, process.cpu_seconds(server.pid) - cpu, requests() - asked)


def _least(costs: list[Cost]) -> float:
    return min(cost.timing.last for cost in costs)


def _ms(seconds: float) -> float:
    return seconds * 1000


def _complete(timing: Timing, files: int) -> None:
    live = files + measured_tables.COMMITS * (measured_tables.ADDS_PER_COMMIT - measured_tables.REMOVES_PER_COMMIT)
    if abs(timing.lines - 2 - live) > measured_tables.COMMITS * measured_tables.REMOVES_PER_COMMIT:
        raise RuntimeError(f"{timing.lines} lines for about {live} files")


def written(root: Path, sizes: list[int], say: Say) -> dict[str, Path]:
    """Write the logs that are missing; returns folders by table name."""
    found = {}
    for files in (100, *sizes):
        say(f"log of {files:,} files")
        folder = measured_tables.write(root, files)
        found[folder.name] = folder
    return found
