"""Runs the checks in the order of both protocols, and says of each whether it holds, fails, or could not be tried."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import httpx

from delta_sharing_conformance import changes, formats, hints, listings, queries, submissions, urls, versions
from delta_sharing_conformance.check import Check, Fails, NotTried, Outcome, check
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.opensharing import iceberg, models, skills, tables, volumes
from delta_sharing_conformance.shared import Shared
from delta_sharing_conformance.untrusted_http import UnsafeResponse

TABLES = 20
"""Of each share, unless more are asked for."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check."""

    check: str
    section: str
    """As that of a check."""
    result: Outcome
    said: str
    remedy: str = ""
    """What the server must do, where it does not."""


@check("REST APIs")
def no_answer_was_a_server_error(shared: Shared) -> str:
    """Answer with 5xx only for failures in passing: clients repeat such requests for minutes."""
    if broken := shared.client.broken:
        raise Fails(f"{len(broken)} answers, as {broken[0]}")
    return "none of all answers before"


def _checks_of(module: ModuleType) -> Iterator[Check]:
    return (one for one in vars(module).values() if isinstance(one, Check))


_DELTA_SHARING = (listings, versions, formats, queries, hints, changes, urls, submissions)
_OPENSHARING = (tables, volumes, skills, models, iceberg)

CHECKS: Sequence[Check] = [
    *(one for module in _DELTA_SHARING for one in _checks_of(module)),
    *(one for module in _OPENSHARING for one in (*getattr(module, "LISTINGS", ()), *_checks_of(module))),
    no_answer_was_a_server_error,
]


def run(client: SharingClient, checks: Sequence[Check] = CHECKS, most: int = TABLES) -> Iterator[CheckResult]:
    """Yield what comes of each check on what the client can see, on `most` tables of each share at most."""
    shared = Shared(client, most)
    for one in checks:
        outcome: Outcome = "fails"
        try:
            outcome, message = "holds", one.ask(shared)
        except NotTried as reason:
            outcome, message = "not tried", str(reason)
        except (Fails, UnsafeResponse) as failure:
            message = str(failure)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            message = f"no answer: {type(error).__name__}"
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # an answer of no shape that was thought of
            message = f"an answer of another shape: {error!r}"[:200]
        yield CheckResult(one.name, one.section, outcome, message, one.remedy * (outcome == "fails"))
