"""Compare full-table queries of this server with those of another one, in fresh and in warm processes.

Both servers read the same objects in the same run, one after the other, and must return the same files.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from bench import measured_tables, process
from bench.figures import Figure, files_subject
from bench.scenarios import Cost, cost_of
from bench.serving import Server

LARGE = 1_000_000
ROUNDS = 3
"""Number of processes that are started of each server, alternately."""

Start = Callable[[], AbstractContextManager[Server]]
Count = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another sharing server, which reads the same objects and is compared with ours."""

    name: str
    fresh: Start
    promised: Callable[[str, int], float | None]
    """Returns the goal for a figure and a number of files: the minimum ratio to our value; None if it has no goal."""

    @property
    def subject_suffix(self) -> str:
        """Text that follows the number of files in the subject of this competitor's figures."""
        return f" compared with the {self.name}"


class _FileAction(msgspec.Struct):
    id: str
    size: int


class _Line(msgspec.Struct):
    file: _FileAction | None = None


@dataclass(slots=True)
class ServerCosts:
    """Measured costs of one server: lists with an item for each process or query."""

    fresh: list[Cost] = field(default_factory=list)
    warm: list[Cost] = field(default_factory=list)
    fresh_peaks: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    def values(self) -> Iterator[tuple[str, str, list[float]]]:
        """Yield the name, the unit and the measured values of each figure."""
        for state, costs, peaks in (
            ("fresh process", self.fresh, self.fresh_peaks),
            ("warm process", self.warm, self.peaks),
        ):
            yield f"{state}: first byte", "ms", [cost.timing.first * 1000 for cost in costs]
            yield f"{state}: last byte", "s", [cost.timing.last for cost in costs]
            yield f"{state}: CPU", "s", [cost.cpu for cost in costs]
            yield f"{state}: S3 requests", "", [cost.requests for cost in costs]
            yield f"{state}: peak memory", "MB", peaks


def compare(files: int, requests: Count, ours: Start, rival: Rival, warm: int) -> Iterator[Figure]:
    """Measure both servers and yield the medians, and the minimum for times that were measured repeatedly.

    "fresh process" is the first query of a process, after one list request; `warm` further queries follow. `requests`
    returns the number of S3 requests since the store started. Raises RuntimeError if the responses differ.
    """
    our_costs, their_costs = ServerCosts(), ServerCosts()
    large = files >= LARGE
    for _ in range(1 if large else ROUNDS):
        our_files = _measure(our_costs, files, requests, ours, warm)
        _check_same(our_files, _measure(their_costs, files, requests, rival.fresh, min(warm, 2) if large else warm))
    for (name, unit, values), (_, _, their_values) in zip(our_costs.values(), their_costs.values(), strict=True):
        subject, their_median = files_subject(files) + rival.subject_suffix, median(their_values)
        factor = rival.promised(name, files)
        yield Figure(subject, name, median(values), unit, factor and their_median / factor, rival.name, their_median)
        if unit in {"ms", "s"} and len(values) > 1:
            yield Figure(subject, f"{name}, minimum", min(values), unit, None, rival.name, min(their_values))


def files_of(body: bytes) -> dict[str, int]:
    """Return the file sizes by id in a response body; raises RuntimeError if a file occurs twice."""
    sizes: dict[str, int] = {}
    decoder = msgspec.json.Decoder(_Line)
    count = 0
    for text in body.splitlines():
        if file := decoder.decode(text).file:
            sizes[file.id] = file.size
            count += 1
    if count != len(sizes):
        raise RuntimeError(f"{count - len(sizes)} files were returned twice")
    return sizes


def _measure(costs: ServerCosts, files: int, requests: Count, start: Start, warm: int) -> dict[str, int]:
    name = measured_tables.name(files)
    with start() as server:
        first = cost_of(requests, server, lambda client: client.query(name, keep=True))
        costs.fresh.append(replace(first, timing=replace(first.timing, body=b"")))
        costs.fresh_peaks.append(process.peak(server.pid))
        costs.warm += [cost_of(requests, server, lambda client: client.query(name)) for _ in range(warm)]
        costs.peaks.append(process.peak(server.pid))
    return files_of(first.timing.body)


def _check_same(ours: dict[str, int], theirs: dict[str, int]) -> None:
    if ours != theirs:
        missing, extra = len(theirs.keys() - ours.keys()), len(ours.keys() - theirs.keys())
        different = sum(ours[name] != theirs[name] for name in ours.keys() & theirs.keys())
        raise RuntimeError(f"our response differs: {missing} files missing, {extra} more, {different} of another size")
