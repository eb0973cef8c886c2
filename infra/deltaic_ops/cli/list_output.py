"""Print lists while they are read: as a table page by page, or as one JSON array."""

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

_Item = TypeVar("_Item")

PAGE: Final = 100
"""Number of rows that are printed at once, and of items that `show` commands list without --all."""

Column = tuple[str, Callable[[Any], object]]
"""A table column: its heading, and a function that returns its value for an item."""


def fields(**attributes: str) -> list[Column]:
    """Return columns that show attributes of items (HEADING="attribute"); underscores in headings become spaces."""
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
_WIDE = 1000  # outside a terminal, rows are not folded, so that grep finds whole rows

Every = Annotated[bool, typer.Option("--all", help=f"Show all entries, not only the first {PAGE}.")]


def first(items: Iterable[_Item], *, every: bool) -> tuple[list[_Item], bool]:
    """Return the first page of items, or all items if `every` is set; also whether more items remain."""
    iterator = iter(items)
    page = list(iterator if every else islice(iterator, PAGE))
    return page, next(iterator, None) is not None


def pages(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield the items in pages, each as soon as it is complete."""
    iterator = iter(items)
    while page := list(islice(iterator, PAGE)):
        yield page


def print_array(items: Iterable[Any]) -> None:
    """Print a JSON array; after an error it has no closing bracket, so that no reader takes it as complete."""
    begin = "["
    for page in pages(items):
        objects = ",\n".join(indent(json.dumps(item, indent=2), "  ") for item in page)
        typer.echo(f"{begin}\n{objects}", nl=False)
        begin = ","
    typer.echo("[]" if begin == "[" else "\n]")


def print_table(items: Iterable[object], columns: Sequence[Column], *, headed: bool) -> None:
    """Print a table of items: folded to the width of a terminal, or one line per item for grep."""
    rows = [[one_line(shown_value(value(item))) for _, value in columns] for item in items]
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
    """Print pairs of line and style while they are read; only terminals show colors."""
    output = console(stderr=stderr)
    for line, style in lines:
        output.print(Text(one_line(line), style=style), soft_wrap=True)


def cell(text: str) -> Text:
    """Return the Rich text of a table cell; states such as `expired` have colors."""
    return Text(text, style=_STYLES.get(text, ""))


def shown_value(value: object) -> str:
    """Return a value as it is displayed in a table."""
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{name}={_list_text(content)}" for name, content in value.items())
        case _:
            return str(value)


def _list_text(content: object) -> str:
    return f"[{', '.join(map(str, content))}]" if isinstance(content, list | tuple) else str(content)


def console(*, stderr: bool = False) -> "Console":
    """Return a Rich console with the width of the terminal, or 1000 columns wide if there is no terminal."""
    terminal = text_console(stderr=stderr)
    return terminal if terminal.is_terminal else text_console(stderr=stderr, width=_WIDE)
