"""Fixtures of the faults: the place, and all cases played at once, since most of their time is waiting."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from faults.place import Outcome, Place, failing
from faults.plays import stalls, trickles
from faults.table import CALLS, FAULTS, Fault

AT_ONCE = 24
LONGEST = (stalls, trickles)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return the server whose AWS fails."""
    with failing(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.fixture(scope="session")
def healthy(place: Place) -> Mapping[str, str]:
    """Return what each call answers when nothing fails."""
    calls = sorted({call for calls in CALLS.values() for call in calls})
    return {call: place.healthy(call) for call in calls}


@pytest.fixture(scope="session")
def outcome(
    place: Place, healthy: Mapping[str, str], request: pytest.FixtureRequest
) -> Iterator[Callable[[Fault, str], Outcome]]:
    """Return what became of each case; those that are tested in this session are played at once, the slowest first."""
    assert healthy
    asked: set[Any] = {
        (item.callspec.params["fault"], item.callspec.params["call"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "outcome" in item.fixturenames
    }
    ordered = sorted(asked, key=lambda case: (case[0].play not in LONGEST, FAULTS.index(case[0]), case[1]))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # Each case is created here, in this thread: its table or recipient is not what the case tests.
        played: dict[tuple[Fault, str], Future[Outcome]] = {
            (fault, call): pool.submit(place.play, place.case(fault.part, f"case{number:04d}"), fault, call)
            for number, (fault, call) in enumerate(ordered)
        }
        yield lambda fault, call: played[fault, call].result()
