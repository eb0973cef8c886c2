"""Run all checks, in the order of the Delta Sharing protocol and the OpenSharing specification."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import httpx

from delta_sharing_conformance import changes, formats, hints, listings, queries, submissions, urls, versions
from delta_sharing_conformance.catalog import Catalog
from delta_sharing_conformance.check import Check, CheckFailed, CheckSkipped, Outcome, check
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.opensharing import iceberg, models, skills, tables, volumes
from delta_sharing_conformance.untrusted_http import UnsafeResponse

MAX_TABLES = 20
"""Default maximum number of tables to check in each share."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check. Its fields are the keys of JSON reports; `check` is the id of the check."""

    check: str
    title: str
    section: str
    result: Outcome
    message: str
    """Summary of the responses, or the reason for the result."""
    remedy: str = ""
    """What the server must do, if the check fails."""


@check("REST APIs", id="no answer was a server error")
def no_request_returned_5xx(catalog: Catalog) -> str:
    """Return 5xx only for temporary failures, because clients repeat such requests for minutes."""
    if errors := catalog.client.server_errors:
        raise CheckFailed(f"{len(errors)} responses, for example {errors[0]}")
    return "all requests of this run"


def _checks_of(module: ModuleType) -> Iterator[Check]:
    values = (*getattr(module, "LISTINGS", ()), *vars(module).values())
    return (value for value in values if isinstance(value, Check))


_DELTA_SHARING = (listings, versions, formats, queries, hints, changes, urls, submissions)
_OPENSHARING = (tables, volumes, skills, models, iceberg)

CHECKS: Sequence[Check] = [
    *(item for module in (*_DELTA_SHARING, *_OPENSHARING) for item in _checks_of(module)),
    no_request_returned_5xx,
]


def run(client: SharingClient, checks: Sequence[Check] = CHECKS, max_tables: int = MAX_TABLES) -> Iterator[CheckResult]:
    """Run the checks and yield their results, with at most `max_tables` tables of each share."""
    catalog = Catalog(client, max_tables)
    for item in checks:
        outcome: Outcome = "fails"
        try:
            outcome, message = "holds", item.run(catalog)
        except CheckSkipped as reason:
            outcome, message = "not tried", str(reason)
        except (CheckFailed, UnsafeResponse) as failure:
            message = str(failure)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            message = f"no response: {type(error).__name__}"
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # a malformed response
            message = f"malformed response: {error!r}"[:200]
        yield CheckResult(item.id, item.title, item.section, outcome, message, item.remedy * (outcome == "fails"))
