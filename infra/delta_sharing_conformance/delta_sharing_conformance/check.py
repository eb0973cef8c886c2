"""Define checks: functions that send requests to a server and compare the responses with the protocol."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from delta_sharing_conformance.catalog import Catalog, ListedTable

Outcome = Literal["holds", "fails", "not tried"]


class CheckFailed(Exception):
    """The server violates the protocol. The message describes its response."""


class CheckSkipped(Exception):
    """The check does not apply to the shared items. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement of the protocol."""

    id: str
    """Permanent name in JSON reports. A check that was renamed keeps its first name here."""
    title: str
    section: str
    """Heading in PROTOCOL.md, or chapter of the OpenSharing specification."""
    remedy: str
    """What a server must do."""
    run: Callable[[Catalog], str]
    """Returns a summary of the responses; raises CheckFailed or CheckSkipped."""


def check(section: str, *, id: str = "") -> Callable[[Callable[[Catalog], str]], Check]:  # noqa: A002
    """Make a check from a function. Its name becomes the title, its docstring the remedy."""

    def make(function: Callable[[Catalog], str]) -> Check:
        title = function.__name__.replace("_", " ")
        return Check(id or title, title, section, " ".join((inspect.getdoc(function) or "").split()), function)

    return make


def check_each_table(
    section: str,
    requirement: str = "can be queried",
    *,
    tables: Callable[[Catalog], Sequence[ListedTable]] = lambda catalog: catalog.readable,
    max_tables: int | None = None,
    id: str = "",  # noqa: A002
) -> Callable[[Callable[[ListedTable], None]], Check]:
    """Make a check from a function that checks one table; see `run_on_each`."""

    def make(function: Callable[[ListedTable], None]) -> Check:
        def run(catalog: Catalog) -> str:
            return run_on_each(tables(catalog)[:max_tables], function, requirement)

        return check(section, id=id)(wraps(function)(run))

    return make


def run_on_each(tables: Sequence[ListedTable], function: Callable[[ListedTable], None], requirement: str) -> str:
    """Run a function on each table, and raise CheckSkipped if it skips all of them."""
    failures, reasons, checked = [], [], 0
    for table in tables:
        try:
            function(table)
            checked += 1
        except CheckFailed as failure:
            checked += 1
            failures.append(f"{table.name}: {failure}")
        except CheckSkipped as reason:
            reasons.append(str(reason))
    if failures:
        raise CheckFailed(f"{len(failures)} of {checked} tables, for example {failures[0]}")
    if not checked:
        raise CheckSkipped(reasons[0] if reasons else f"no shared table {requirement}")
    return f"{checked} tables" if checked > 1 else "1 table"
