"""What goes wrong when part of an answer has left: no client can take what it has for the whole."""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from contract.recipient import Reply
from faults.place import FILES_IN_PART, PARTS, Place
from faults.plays import cut, s3
from faults.proxy import Plan, Play

pytestmark = pytest.mark.slow

LAST = f".checkpoint.{PARTS:010d}.{PARTS:010d}.parquet"
PLAYS: dict[str, Play] = {
    "reset within the body": cut("reset"),
    "expired credentials": s3(400, "ExpiredToken"),
    "access denied": s3(403, "AccessDenied"),
    "throttling": s3(503, "SlowDown"),
}
TOLD = {
    "parquet": "responseformat=parquet",
    "delta with endStreamAction": "responseformat=delta;includeendstreamaction=true",
}
SPARED = 2
"""The footer of the part and its totals, which are read before the answer begins."""
CASES = [(play, told) for play in PLAYS for told in TOLD]


@dataclass(frozen=True)
class Outcome:
    """What a client got while the end of a log could not be read, and afterwards."""

    broken: bytes
    """What came before the answer broke off."""
    afterwards: Reply


def played(place: Place, number: int, play: str, told: str) -> Outcome:
    case = place.large(f"large{number:03d}")
    asker = case.with_capabilities(TOLD[told])
    plan = Plan("get", (f"{case.name}/_delta_log/{1:020d}{LAST}",), PLAYS[play], spared=SPARED)
    with place.proxy.playing(plan), pytest.raises(http.client.IncompleteRead) as broke:
        asker.post(f"{case.table}/query", {})
    return Outcome(broke.value.partial, asker.post(f"{case.table}/query", {}))


@pytest.fixture(scope="module")
def outcomes(place: Place) -> Iterator[dict[tuple[str, str], "Future[Outcome]"]]:
    """Play all cases, four at once, since most of their time is waiting."""
    with ThreadPoolExecutor(4) as pool:
        yield {case: pool.submit(played, place, number, *case) for number, case in enumerate(CASES)}


@pytest.mark.parametrize(("play", "told"), CASES)
def test_the_client_notices(outcomes: dict[tuple[str, str], "Future[Outcome]"], play: str, told: str) -> None:
    outcome = outcomes[play, told].result()
    lines = outcome.broken.splitlines()
    assert len(lines) > FILES_IN_PART
    if "endStreamAction" in told:
        assert json.loads(lines[-1])["endStreamAction"]["errorMessage"]
    else:
        with pytest.raises(ValueError, match=r"\S"):
            json.loads(lines[-1])
    assert outcome.afterwards.kinds.count("file") == PARTS * FILES_IN_PART
