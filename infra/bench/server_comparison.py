"""Compares with another server: the whole of a table, by a fresh process and by a warm one.

Both read the same objects in the same run, one after the other, and must give the same files.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from bench import measured_tables, process
from bench.figures import Figure, files_named
from bench.http_timing import unframed
from bench.scenarios import Cost, cost_of
from bench.serving import Server

LARGE = 1_000_000
ROUNDS = 3
"""Processes of each, by turns."""

Start = Callable[[], AbstractContextManager[Server]]
Count = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another server over the same objects."""

    name: str
    fresh: Start
    promised: Callable[[str, int], float | None]
    """How many times less than its own each figure of so many files is to be; None: nothing was promised."""

    @property
    def beside(self) -> str:
        """What follows the number of files in the subject of a figure."""
        return f" beside the {self.name}"


class _File(msgspec.Struct):
    id: str
    size: int


class _Line(msgspec.Struct):
    file: _File | None = None


@dataclass(slots=True)
class Measured:
    """What one server took; an entry for each process or query."""

    fresh: list[Cost] = field(default_factory=list)
    warm: list[Cost] = field(default_factory=list)
    fresh_peaks: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    def values(self) -> Iterator[tuple[str, str, list[float]]]:
        """Yield each figure's name, unit and measured values."""
        for what, costs, peaks in (
            ("fresh process", self.fresh, self.fresh_peaks),
            ("warm process", self.warm, self.peaks),
        ):
            yield f"{what}: first byte", "ms", [one.timing.first * 1000 for one in costs]
            yield f"{what}: last byte", "s", [one.timing.last for one in costs]
            yield f"{what}: CPU", "s", [one.cpu for one in costs]
            yield f"{what}: S3 requests", "", [one.requests for one in costs]
            yield f"{what}: peak memory", "MB", peaks


def compared(files: int, requests: Count, ours: Start, rival: Rival, warm: int) -> Iterator[Figure]:
    """Measure both and yield the medians; where a time was taken more than once, the least of them too.

    "fresh process" is its first query, after one listing; `warm` more of the same process follow. One process of each
    for a million files. `requests` counts those of the store so far. Raises RuntimeError if the answers differ.
    """
    us, them = Measured(), Measured()
    large = files >= LARGE
    for _ in range(1 if large else ROUNDS):
        told = _measure(us, files, requests, ours, warm)
        _same(told, _measure(them, files, requests, rival.fresh, min(warm, 2) if large else warm))
    for (name, unit, values), (_, _, others) in zip(us.values(), them.values(), strict=True):
        subject, other = files_named(files) + rival.beside, median(others)
        times = rival.promised(name, files)
        yield Figure(subject, name, median(values), unit, times and other / times, rival.name, other)
        if unit in {"ms", "s"} and len(values) > 1:
            yield Figure(subject, f"{name}, least", min(values), unit, None, rival.name, min(others))


def files_of(body: bytes) -> dict[str, int]:
    """Return the sizes by id of the files in an answer's chunked body; raises RuntimeError if one comes twice."""
    sizes: dict[str, int] = {}
    decoder = msgspec.json.Decoder(_Line)
    count = 0
    for text in unframed(body).splitlines():
        if file := decoder.decode(text).file:
            sizes[file.id] = file.size
            count += 1
    if count != len(sizes):
        raise RuntimeError(f"{count - len(sizes)} files came twice")
    return sizes


def _measure(into: Measured, files: int, requests: Count, start: Start, warm: int) -> dict[str, int]:
    name = measured_tables.name(files)
    with start() as server:
        first = cost_of(requests, server, lambda client: client.query(name, keep=True))
        into.fresh.append(replace(first, timing=replace(first.timing, body=b"")))
        into.fresh_peaks.append(process.peak(server.pid))
        into.warm += [cost_of(requests, server, lambda client: client.query(name)) for _ in range(warm)]
        into.peaks.append(process.peak(server.pid))
    return files_of(first.timing.body)


def _same(ours: dict[str, int], theirs: dict[str, int]) -> None:
    if ours != theirs:
        missing, more = len(theirs.keys() - ours.keys()), len(ours.keys() - theirs.keys())
        other = sum(ours[name] != theirs[name] for name in ours.keys() & theirs.keys())
        raise RuntimeError(f"the answers differ: {missing} files missing, {more} more, {other} of another size")
