"""Decides what a command has at hand: the catalog it means, and the way to speak to people or to scripts."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.items import Item, Recipient, Token, View
from deltaic.errors import DeltaicError
from deltaic.partition_filters.properties import value_of
from deltaic.protocol import json_bodies
from deltaic.protocol.request_body import camel_case
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltaic_ops.cli.connection import Connection, Wishes, connection

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from deltaic_ops.shared_schema import SchemaReader

__all__ = ["AsJson", "Operator", "Wishes", "operator"]

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for scripts.")]
_Item = TypeVar("_Item", bound=Item)
_Finding = TypeVar("_Finding", bound="DataclassInstance")

Column = tuple[str, Callable[[Any], object]]
"""A heading, and what stands below it for an item."""

_WORDS = {"schema_name": "schema"}
_STYLES = {
    "live": "green",
    "expired": "dim",
    "revoked": "red",
    "SUCCESS": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
}
_WIDE = 1000  # where nobody looks, nothing is folded: a line is a row for grep


class Operator:
    """One run of the command line; connected when a command first needs it."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._open = ExitStack()
        self.as_json = False

    @property
    def state(self) -> Path:
        """The folder of the embedded AWS."""
        return Path(self._wishes.state)

    @property
    def stack(self) -> str:
        """The name of the stack that is meant."""
        return self._wishes.stack

    @cached_property
    def connection(self) -> Connection:
        """The AWS that is meant."""
        return self._open.enter_context(connection(self._wishes))

    @cached_property
    def admin(self) -> CatalogAdmin:
        """The catalog."""
        where = self.connection
        return CatalogAdmin(
            where.catalog_table, where.tokens_table, where.dynamo(), lambda: where.client("secretsmanager")
        )

    @cached_property
    def schemas(self) -> "SchemaReader":
        """What reads the columns of shared tables."""
        return self.connection.schemas(self.admin.storages.get)

    def close(self) -> None:
        """Let go of what the command opened."""
        self._open.close()

    def rows(self, items: Iterable[_Item], columns: Sequence[Column], nothing: str) -> None:
        """Answer with a list: a table for people, an array for scripts."""
        listed = list(items)
        if self.as_json:
            self.json([wire(item) for item in listed])
            return
        if listed:
            self.table(listed, columns)
        else:
            self.note(nothing)

    def table(self, listed: Iterable[object], columns: Sequence[Column]) -> None:
        """Show people a table."""
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for heading, _ in columns:
            table.add_column(heading, overflow="fold")
        for item in listed:
            table.add_row(*[_cell(value(item)) for _, value in columns])
        _console().print(table)

    def show(self, item: Item, done: str = "", warnings: Sequence[str] = ()) -> None:
        """Answer with one thing, and to people also say what was done; warnings stand in the object, if any."""
        if self.as_json:
            self.json({**wire(item), **({"warnings": list(warnings)} if warnings else {})})
            return
        if done:
            self.note(done)
        self.facts(wire(item))
        for line in warnings:
            _console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), one_line(line)), soft_wrap=True)

    def facts(self, told: Mapping[str, object]) -> None:
        """Show people what there is to say of one thing, a line for each heading."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for name, value in told.items():
            if value not in ("", [], (), {}, None):
                grid.add_row(name, _cell(value))
        _console().print(grid)

    def note(self, text: str) -> None:
        """Say something to people; scripts do not hear it."""
        if not self.as_json:
            _console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)

    def findings(self, found: Iterable[_Finding], line: Callable[[_Finding], Text]) -> list[_Finding]:
        """Answer with what checks find as they find it, a line each for people, an array for scripts; returns it."""
        seen = []
        for finding in found:
            seen.append(finding)
            if not self.as_json:
                Console(highlight=False).print(line(finding), soft_wrap=True)
        if self.as_json:
            self.json([asdict(finding) for finding in seen])
        return seen

    def json(self, value: object) -> None:
        """Answer a script."""
        typer.echo(json.dumps(value, indent=2))

    def refuse(self, refusal: DeltaicError) -> None:
        """Say why not, and what to do."""
        if self.as_json:
            typer.echo(json_bodies.error(refusal).decode(), err=True)
            return
        _console(stderr=True).print(Text.assemble(("refused: ", "bold red"), one_line(refusal.message)), soft_wrap=True)


def operator(ctx: typer.Context, as_json: bool) -> Operator:
    """Return what the command has at hand, told how to answer."""
    found: Operator = ctx.obj
    found.as_json = as_json
    return found


def finding_line(mark: str, style: str, check: str, said: str, remedy: str) -> Text:
    """Return what people see of a check: its mark, what it saw, and below that what to do where there is something."""
    text = Text.assemble((mark, style), f" {check} ", (said, "dim"))
    if remedy:
        text.append(f"\n{remedy}")
    return text


def one_line(message: str) -> str:
    """Return a message as one line, whatever an argument that it quotes holds."""
    return "".join(letter if letter.isprintable() else " " for letter in message).strip()


def wire(item: Item) -> dict[str, Any]:
    """Return an item as scripts see it: the protocol's names, times in UTC, nothing left out."""
    told = {_WORDS.get(name) or camel_case(name): _told(value) for name, value in item.attributes().items()}
    if isinstance(item, Token):
        del told["revoked"]
        told["state"] = item.state()
    if isinstance(item, Recipient):
        told["properties"] = told_properties(item)
    if isinstance(item, View):
        told["lastRefresh"] = {camel_case(name): value for name, value in item.last_refresh.items()}
    return told


def told_properties(recipient: Recipient) -> dict[str, Any]:
    """Return a recipient's properties, lists as lists."""
    return {name: _told(value_of(text)) for name, text in recipient.properties.items()}


def _told(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return list(value) if isinstance(value, tuple) else value


def _cell(value: object) -> Text:
    match value:
        case bool():
            return Text("yes" if value else "no")
        case datetime():
            return Text(f"{value:%Y-%m-%d %H:%M}")
        case list() | tuple():
            return Text(", ".join(map(str, value)))
        case dict():
            return Text(", ".join(f"{name}={_listed(content)}" for name, content in value.items()))
        case _:
            return Text(str(value), style=_STYLES.get(str(value), ""))


def _listed(content: object) -> str:
    return f"[{', '.join(map(str, content))}]" if isinstance(content, list | tuple) else str(content)


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDE)
