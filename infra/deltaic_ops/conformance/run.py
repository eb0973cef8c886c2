"""Runs the checks in the protocol's order, and says of each whether it holds, fails, or could not be tried."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

from deltaic_ops.conformance import changes, formats, hints, listings, queries, submissions, urls, versions
from deltaic_ops.conformance.caller import Caller
from deltaic_ops.conformance.check import Check, Fails, NotTried, Result, check
from deltaic_ops.conformance.shared import Shared

TABLES = 20
"""Of each share, unless more are asked for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one check."""

    check: str
    section: str
    """The heading of PROTOCOL.md."""
    result: Result
    said: str
    remedy: str = ""
    """What the server must do, where it does not."""


@check("REST APIs")
def no_answer_was_a_server_error(shared: Shared) -> str:
    """Answer with 5xx only for failures in passing: clients repeat such requests for minutes."""
    if broken := shared.caller.broken:
        raise Fails(f"{len(broken)} answers, as {broken[0]}")
    return "none of all answers before"


CHECKS: Sequence[Check] = [
    *(
        one
        for module in (listings, versions, formats, queries, hints, changes, urls, submissions)
        for one in vars(module).values()
        if isinstance(one, Check)
    ),
    no_answer_was_a_server_error,
]


def run(caller: Caller, checks: Sequence[Check] = CHECKS, most: int = TABLES) -> Iterator[Finding]:
    """Yield what comes of each check on what the caller can see, on `most` tables of each share at most."""
    shared = Shared(caller, most)
    for one in checks:
        try:
            yield Finding(one.name, one.section, "holds", one.ask(shared))
        except NotTried as reason:
            yield Finding(one.name, one.section, "not tried", str(reason))
        except Fails as failure:
            yield Finding(one.name, one.section, "fails", str(failure), one.remedy)
        except httpx.HTTPError as error:
            yield Finding(one.name, one.section, "fails", f"no answer: {type(error).__name__}", one.remedy)
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # an answer of no shape that was thought of
            yield Finding(one.name, one.section, "fails", f"an answer of another shape: {error!r}"[:200], one.remedy)
