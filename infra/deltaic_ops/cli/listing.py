"""Lists as they come: a table that grows by pages for people, one array for scripts; none is held whole."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from deltaic_terminal.printing import one_line, text_console
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

_Listed = TypeVar("_Listed")

PAGE: Final = 100
"""So many rows are shown as soon as they are there; and so many of what `show` lists, unless all are asked for."""

Column = tuple[str, Callable[[Any], object]]
"""A heading, and what stands below it for an item."""


def fields(**attributes: str) -> list[Column]:
    """Return columns of attributes, by their headings; in these an underscore is a space."""
    return [(heading.replace("_", " "), attrgetter(name)) for heading, name in attributes.items()]


_STYLES = {
    "live": "green",
    "open": "green",
    "expired": "dim",
    "revoked": "red",
    "SUCCESS": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
}
_WIDE = 1000  # where nobody looks, nothing is folded: a line is a row for grep

Every = Annotated[bool, typer.Option("--all", help=f"All that there are, not the first {PAGE} alone.")]


def first(items: Iterable[_Listed], *, every: bool) -> tuple[list[_Listed], bool]:
    """Return the first page of items, or all, and whether there are more."""
    left = iter(items)
    found = list(left if every else islice(left, PAGE))
    return found, next(left, None) is not None


def pages(items: Iterable[_Listed]) -> Iterator[list[_Listed]]:
    """Yield the items by pages, each as soon as it is whole."""
    left = iter(items)
    while page := list(islice(left, PAGE)):
        yield page


def print_array(items: Iterable[Any]) -> None:
    """Print a JSON array; one that something breaks off is not closed, so that nobody takes it for the whole."""
    begin = "["
    for page in pages(items):
        told = ",\n".join(indent(json.dumps(item, indent=2), "  ") for item in page)
        typer.echo(f"{begin}\n{told}", nl=False)
        begin = ","
    typer.echo("[]" if begin == "[" else "\n]")


def print_table(listed: Iterable[object], columns: Sequence[Column], *, headed: bool) -> None:
    """Print a table of items: folded into a terminal's width, or else a line for each, for grep."""
    rows = [[one_line(shown_value(value(item))) for _, value in columns] for item in listed]
    terminal = console()
    if not terminal.is_terminal:
        rows = [[heading for heading, _ in columns], *rows] if headed else rows
        widths = [max(map(cell_len, column)) + 2 for column in zip(*rows, strict=True)]
        for row in rows:
            typer.echo("".join(map(set_cell_size, row, widths)).rstrip())
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), show_header=headed)
    for heading, _ in columns:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    terminal.print(table)


def print_lines(lines: Iterable[tuple[str, str]], *, stderr: bool = False) -> None:
    """Print lines with their styles, as they are read: at a terminal alone there are colours."""
    shown = console(stderr=stderr)
    for line, style in lines:
        shown.print(Text(one_line(line), style=style), soft_wrap=True)


def cell(shown: str) -> Text:
    """Return text as it stands in a table: states have colours."""
    return Text(shown, style=_STYLES.get(shown, ""))


def shown_value(value: object) -> str:
    """Return a value as people read it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{name}={_listed(content)}" for name, content in value.items())
        case _:
            return str(value)


def _listed(content: object) -> str:
    return f"[{', '.join(map(str, content))}]" if isinstance(content, list | tuple) else str(content)


def console(*, stderr: bool = False) -> "Console":
    """Return the terminal; or what is wide enough for any line, where there is none."""
    found = text_console(stderr=stderr)
    return found if found.is_terminal else text_console(stderr=stderr, width=_WIDE)
