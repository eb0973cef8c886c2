"""Define checks: functions that send requests to a server and compare the responses with the protocol."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from delta_sharing_conformance.catalog import Catalog, ListedTable

Outcome = Literal["holds", "fails", "not tried"]


class CheckFailed(Exception):
    """The server violates the protocol. The message describes the wrong response."""


class CheckSkipped(Exception):
    """The check cannot be applied to the shared tables and assets. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement of the protocol, and the function that checks whether a server meets it."""

    id: str
    """Permanent name of the check in JSON reports. It does not change if the check is renamed."""
    title: str
    section: str
    """Section that defines the requirement, in PROTOCOL.md or in the OpenSharing specification."""
    remedy: str
    """What a server must do to meet the requirement."""
    run: Callable[[Catalog], str]
    """Returns a summary of the responses; raises CheckFailed or CheckSkipped."""


def check(section: str, *, id: str = "") -> Callable[[Callable[[Catalog], str]], Check]:  # noqa: A002
    """Return a decorator that converts a function to a `Check`: its name is the title, its docstring the remedy."""

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
    """Return a decorator that converts a function of one table to a `Check` that calls it for each of `tables`."""

    def make(function: Callable[[ListedTable], None]) -> Check:
        def run(catalog: Catalog) -> str:
            return run_on_each(tables(catalog)[:max_tables], function, requirement)

        return check(section, id=id)(wraps(function)(run))

    return make


def run_on_each(tables: Sequence[ListedTable], function: Callable[[ListedTable], None], requirement: str) -> str:
    """Run a check's function on each table and return a summary; raises CheckSkipped if it skips all tables."""
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
