"""What a check is: a function that asks a server and says what it saw, named with the section that it holds it to."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from delta_sharing_conformance.shared import ListedTable, Shared

Outcome = Literal["holds", "fails", "not tried"]


class Fails(Exception):
    """The server does something else than the protocol says; the text is what it does."""


class NotTried(Exception):
    """Nothing that the profile can see fits; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the protocol says of a server."""

    name: str
    section: str
    """The heading of PROTOCOL.md that says it, or the chapter of OpenSharing's specification."""
    remedy: str
    """What a server must do."""
    ask: Callable[[Shared], str]
    """Return what was seen; raises Fails or NotTried."""


def check(section: str) -> Callable[[Callable[[Shared], str]], Check]:
    """Make a check of a function: its name is the function's, and its remedy the function's docstring."""
    return lambda ask: _named(section, ask, ask)


def check_each_table(
    section: str,
    wanted: str = "can be queried",
    *,
    of: Callable[[Shared], Sequence[ListedTable]] = lambda shared: shared.readable,
    most: int | None = None,
) -> Callable[[Callable[[ListedTable], None]], Check]:
    """Make a check of a function that asks one table, of the first tables that `of` picks; see `on_each`."""
    return lambda ask: _named(section, ask, lambda shared: on_each(of(shared)[:most], ask, wanted))


def _named(section: str, said: Callable[..., object], ask: Callable[[Shared], str]) -> Check:
    return Check(said.__name__.replace("_", " "), section, " ".join((inspect.getdoc(said) or "").split()), ask)


def on_each(tables: Sequence[ListedTable], ask: Callable[[ListedTable], None], wanted: str) -> str:
    """Ask every table; those that do not fit raise NotTried. Raises NotTried if none fits (`wanted` says which)."""
    wrong, reasons, tried = [], [], 0
    for table in tables:
        try:
            ask(table)
            tried += 1
        except Fails as failure:
            tried += 1
            wrong.append(f"{table.name}: {failure}")
        except NotTried as reason:
            reasons.append(str(reason))
    if wrong:
        raise Fails(f"{len(wrong)} of {tried} tables, as {wrong[0]}")
    if not tried:
        raise NotTried(reasons[0] if reasons else f"no table that the profile sees {wanted}")
    return f"{tried} tables" if tried > 1 else "1 table"
