"""What a command has at hand: the catalog it means, and the way to speak to people or to scripts."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, fields
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Item, Recipient, Token, View
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError, InvalidParameter, NotFound
from deltaic.partition_filters.properties import value_of
from deltaic.protocol import json_bodies
from deltaic.protocol.request_body import camel_case
from deltaic.urls import web_address
from deltaic_terminal.printing import as_called, one_line, text_console, visible
from rich.table import Table
from rich.text import Text

from deltaic_ops.cli.connection import Connection, Wishes, connection
from deltaic_ops.cli.listing import PAGE, Column, cell, console, pages, print_array, print_table, shown_value
from deltaic_ops.declared.mistakes import Mistakes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console

    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.shared_schema import SchemaReader

__all__ = ["ID", "VERDICTS", "Column", "Ids", "Operator", "Wishes", "Yes", "operator"]

Ids = Annotated[bool, typer.Option("--ids", help="Show ids too, by which logs name things.")]
ID: Column = ("ID", lambda one: one.id)
"""What a list with `--ids` shows too."""
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_Item = TypeVar("_Item", bound=Item)

_MISSING = re.compile(r"(share|schema|table|view|volume|skill|model|recipient|storage) '(.+)' not found")
_PERIODS = {"schema": 1, "table": 2, "view": 2, "volume": 2, "skill": 2, "model": 2}
"""What of a name tells the parents, by what is named."""
_WORDS = {"schema_name": "schema"}
VERDICTS = {"ok": "green", "warning": "yellow", "failed": "bold red", "not asked": "dim"}
"""Of findings, each with its style."""


class Operator:
    """One run of the command line; connected when a command first needs it."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self._open = ExitStack()
        self.as_json = False

    @cached_property
    def connection(self) -> Connection:
        """The AWS that is meant."""
        return self._open.enter_context(connection(self.wishes))

    @cached_property
    def admin(self) -> CatalogAdmin:
        """The catalog."""
        return self.connection.admin()

    @property
    def reader(self) -> CatalogReader:
        """The catalog as endpoints read it for recipients."""
        return CatalogReader(self.connection.catalog_table, self.connection.dynamo())

    @cached_property
    def schemas(self) -> "SchemaReader":
        """What reads the columns of shared tables."""
        return self.connection.schemas(self.admin.storages.get)

    def sharing_endpoint(self, told: str | None) -> str:
        """Return what profiles name; raises NotFound where nothing tells it, InvalidParameter for no address."""
        endpoint = told or self.connection.sharing_endpoint
        if not endpoint:
            raise NotFound("nothing tells where the server is: give --endpoint or DELTAIC_ENDPOINT")
        web_address(endpoint)
        return endpoint.rstrip("/")

    def close(self) -> None:
        """Let go of what the command opened."""
        self._open.close()

    def rows(self, items: Iterable[_Item], columns: Sequence[Column], nothing: str) -> None:
        """Answer with a list as it comes: pages of a table for people, an array for scripts."""
        if self.as_json:
            print_array(wire(item) for item in items)
            return
        shown = 0
        for page in pages(items):
            self.table(page, columns, headed=not shown or console().is_terminal)
            shown += len(page)
        if not shown:
            self.note(nothing)

    def some(self, listed: Sequence[object], columns: Sequence[Column], nothing: str, *, more: bool) -> None:
        """Show people the first of a list, or that there is none."""
        if listed:
            self.table(listed, columns)
        else:
            self.note(nothing)
        if more:
            self.note(f"these are the first {PAGE}: --all shows all")

    def table(self, listed: Iterable[object], columns: Sequence[Column], *, headed: bool = True) -> None:
        """Show people a table."""
        print_table(listed, columns, headed=headed)

    def show(self, item: Item, done: str = "", warnings: Sequence[str] = ()) -> None:
        """Answer with one thing, and to people also say what was done; warnings stand in the object, if any."""
        if self.as_json:
            self.json({**wire(item), **({"warnings": list(warnings)} if warnings else {})})
            return
        if done:
            self.note(done)
        self.facts(wire(item))
        for line in warnings:
            console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), one_line(line)), soft_wrap=True)

    def facts(self, told: Mapping[str, object]) -> None:
        """Show people what there is to say of one thing, a line for each heading."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for name, value in told.items():
            if value not in ("", [], (), {}, None):
                grid.add_row(name, cell(visible(shown_value(value))))
        console().print(grid)

    def note(self, text: str) -> None:
        """Say something to people; scripts do not hear it."""
        if not self.as_json:
            console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)

    def terminal(self) -> "Console":
        """Return what shows progress, on stderr."""
        return text_console(stderr=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], object]]:
        """Show people at a terminal that something is under way; the value it gives is told how far it is."""
        terminal = console(stderr=True)
        if self.as_json or not terminal.is_terminal:
            yield str
            return
        with terminal.status(text) as status:
            yield lambda more: status.update(Text.assemble(text, " ", (one_line(more), "dim")))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before what cannot be undone; raises InvalidParameter where nobody can answer and `yes` is not said."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise InvalidParameter("nothing is removed unasked: say --yes")
        typer.confirm(question, abort=True)

    def findings(
        self, findings: Iterable["Finding"], as_json: Callable[["Finding"], object] = asdict, before_remedy: str = ""
    ) -> list["Finding"]:
        """Answer with what checks see as they see it, a line each for people, an array for scripts; returns it."""
        shown = []
        for finding in findings:
            shown.append(finding)
            if not self.as_json:
                text_console().print(_finding_line(finding, before_remedy), soft_wrap=True)
        if self.as_json:
            self.json([as_json(finding) for finding in shown])
        return shown

    def end(self, found: Sequence["Finding"]) -> None:
        """Count findings by their verdicts, and end the command with 1 where one failed."""
        counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
        self.note(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
        if counts["failed"]:
            raise typer.Exit(1)

    def json(self, value: object) -> None:
        """Answer a script."""
        typer.echo(json.dumps(value, indent=2))

    def refuse(self, refusal: DeltaicError) -> None:
        """Say why not, and what to do; of a name that is not there also the nearest that is."""
        if isinstance(refusal, NotFound) and (missing := _MISSING.fullmatch(refusal.message)):
            with suppress(DeltaicError):
                refusal = self._with_the_nearest(*missing.groups())
        if self.as_json:
            typer.echo(json_bodies.error(refusal).decode(), err=True)
            return
        mark, err = Text("refused:", "bold red"), console(stderr=True)
        if not isinstance(refusal, Mistakes):
            err.print(Text.assemble(mark, " ", one_line(refusal.message).strip()), soft_wrap=True)
            return
        err.print(mark)
        for line in refusal.lines:
            err.print(Text(one_line(line)), soft_wrap=True)

    def _with_the_nearest(self, kind: str, name: str) -> NotFound:
        from deltaic_terminal.nearest import did_you_mean

        admin, (*above, last) = self.admin, name.rsplit(".", _PERIODS.get(kind, 0))
        try:
            within = above[:1] if kind == "view" else above
            there = list(getattr(admin, f"{kind}s").list(*within))
            names = [one.name for one in there if kind != "view" or one.schema_name == above[1]]
        except NotFound as higher:  # the share or the schema of what is missing
            missing = _MISSING.fullmatch(higher.message)
            return self._with_the_nearest(*missing.groups()) if missing else higher
        other = {"share": "recipient", "recipient": "share"}.get(kind)
        if other and name in {each.name for each in getattr(admin, f"{other}s").list()}:
            return NotFound(f"{kind} '{name}' not found: it is a {other}, and a grant names RECIPIENT before SHARE")
        return NotFound(f"{kind} '{name}' not found{did_you_mean(last, names)}")


def operator(ctx: typer.Context, as_json: bool) -> Operator:
    """Return what the command has at hand, told how to answer."""
    found: Operator = ctx.obj
    found.as_json = as_json
    return found


def finding_line(mark: str, style: str, check: str, said: str, remedy: str) -> Text:
    """Return what people see of a check: its mark, what it saw, and below that what to do where there is something."""
    text = Text.assemble((mark, style), f" {one_line(check)} ", (one_line(said), "dim"))
    if remedy:
        text.append(f"\n{one_line(as_called(remedy))}")
    return text


def _finding_line(finding: "Finding", before_remedy: str) -> Text:
    mark = finding.verdict.upper() if finding.verdict == "failed" else finding.verdict
    remedy = finding.remedy and f"   {before_remedy}{finding.remedy}"
    return finding_line(mark, VERDICTS[finding.verdict], finding.check, finding.said, remedy)


def wire(item: Item) -> dict[str, Any]:
    """Return an item as scripts see it: the protocol's names, times in UTC, nothing left out."""
    fields = {_WORDS.get(name) or camel_case(name): told_value(value) for name, value in item.attributes().items()}
    if isinstance(item, Token):
        del fields["revoked"], fields["salt"]
        fields["state"] = item.state()
    if isinstance(item, Recipient):
        fields["properties"] = told_properties(item)
        fields = {"name": fields["name"], "id": fields["id"], **fields}  # what it is, before what restricts it
    if isinstance(item, View):
        fields["lastRefresh"] = {camel_case(name): value for name, value in item.last_refresh.items()}
    return fields


def told_fields(read: "DataclassInstance") -> dict[str, Any]:
    """Return what was read of something as scripts see it, named and told as `wire` does."""
    return {camel_case(field.name): told_value(getattr(read, field.name)) for field in fields(read)}


def told_properties(recipient: Recipient) -> dict[str, Any]:
    """Return a recipient's properties, lists as lists."""
    return {name: told_value(value_of(text)) for name, text in recipient.properties.items()}


def told_value(value: object) -> object:
    """Return a value as scripts see it: times in UTC, tuples as lists."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return list(value) if isinstance(value, tuple) else value
