"""Test that clients notice a fault after a part of the response was sent."""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from contract.recipient import Reply
from faults.place import FILES_IN_PART, PARTS, FailingServer
from faults.plays import cut, s3
from faults.proxy import FaultPlan, Play

pytestmark = pytest.mark.slow

LAST_PART = f".checkpoint.{PARTS:010d}.{PARTS:010d}.parquet"
PLAYS: dict[str, Play] = {
    "reset within the body": cut("reset"),
    "expired credentials": s3(400, "ExpiredToken"),
    "access denied": s3(403, "AccessDenied"),
    "throttling": s3(503, "SlowDown"),
}
CAPABILITIES = {
    "parquet": "responseformat=parquet",
    "delta with endStreamAction": "responseformat=delta;includeendstreamaction=true",
}
SKIPPED = 2
"""Reads of the part's footer and totals, which are done before the response starts."""
CASES = [(play, capabilities) for play in PLAYS for capabilities in CAPABILITIES]


@dataclass(frozen=True)
class BrokenResponse:
    """Received part of a broken response, and the response to the next request."""

    received: bytes
    next_reply: Reply


def play_case(failing_server: FailingServer, number: int, play: str, capabilities: str) -> BrokenResponse:
    case = failing_server.create_large_table(f"large{number:03d}")
    recipient = case.with_capabilities(CAPABILITIES[capabilities])
    plan = FaultPlan("get", (f"{case.name}/_delta_log/{1:020d}{LAST_PART}",), PLAYS[play], skipped=SKIPPED)
    with failing_server.proxy.play_fault(plan), pytest.raises(http.client.IncompleteRead) as error:
        recipient.post(f"{case.table}/query", {})
    return BrokenResponse(error.value.partial, recipient.post(f"{case.table}/query", {}))


@pytest.fixture(scope="module")
def outcomes(failing_server: FailingServer) -> Iterator[dict[tuple[str, str], "Future[BrokenResponse]"]]:
    """Play all cases, four at a time, because most of the time is waiting."""
    with ThreadPoolExecutor(4) as pool:
        yield {case: pool.submit(play_case, failing_server, number, *case) for number, case in enumerate(CASES)}


@pytest.mark.parametrize(("play", "capabilities"), CASES)
def test_client_notices_a_broken_response(
    outcomes: dict[tuple[str, str], "Future[BrokenResponse]"], play: str, capabilities: str
) -> None:
    outcome = outcomes[play, capabilities].result()
    lines = outcome.received.splitlines()
    assert len(lines) > FILES_IN_PART
    if "endStreamAction" in capabilities:
        assert json.loads(lines[-1])["endStreamAction"]["errorMessage"]
    else:
        with pytest.raises(ValueError, match=r"\S"):
            json.loads(lines[-1])
    assert outcome.next_reply.kinds.count("file") == PARTS * FILES_IN_PART
