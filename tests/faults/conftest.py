"""Fixtures of the fault tests: a server with a failing AWS, and results of all cases, played concurrently."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from faults.place import FailingServer, FaultResult, start_failing_server
from faults.plays import stall, trickle
from faults.table import CALLS, FAULTS, Fault

MAX_CONCURRENT = 24
SLOWEST = (stall, trickle)


@pytest.fixture(scope="session")
def failing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingServer]:
    """Return a server with a failing AWS."""
    with start_failing_server(tmp_path_factory.mktemp("faults")) as server:
        yield server


@pytest.fixture(scope="session")
def healthy_content(failing_server: FailingServer) -> Mapping[str, Mapping[str, str]]:
    """Return the response to each call without faults, by the part that it uses."""
    return {part: failing_server.healthy_content(part) for part in CALLS}


@pytest.fixture(scope="session")
def fault_results(
    failing_server: FailingServer, healthy_content: Mapping[str, Mapping[str, str]], request: pytest.FixtureRequest
) -> Iterator[Callable[[Fault, str], FaultResult]]:
    """Return the result of each case; the selected cases are played concurrently, the slowest first."""
    assert healthy_content
    cases: set[Any] = {
        (item.callspec.params["fault"], item.callspec.params["call"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and "fault_results" in item.fixturenames
        and item.get_closest_marker("skip") is None
    }
    ordered = sorted(cases, key=lambda case: (case[0].play not in SLOWEST, FAULTS.index(case[0]), case[1]))
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        # Create each table or recipient in this thread, because the fault must not affect its creation.
        futures: dict[tuple[Fault, str], Future[FaultResult]] = {
            case: pool.submit(failing_server.play, failing_server.create_case(case[0].part, f"case{number:04d}"), *case)
            for number, case in enumerate(ordered)
        }
        yield lambda fault, call: futures[fault, call].result()
