"""The context of a command: its connection to the catalog, and output as text or JSON."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from deltaic.urls import parse_endpoint
from deltaic_terminal.printing import as_called, one_line, text_console, visible
from rich.table import Table
from rich.text import Text

from deltaic_ops.cli.aws_selection import Connection, GlobalOptions, connection
from deltaic_ops.cli.list_output import PAGE, Column, cell, console, pages, print_array, print_table, shown_value
from deltaic_ops.declared.file_errors import Mistakes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console

    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.shared_schema import SchemaReader

__all__ = ["ID", "VERDICTS", "Column", "GlobalOptions", "Ids", "Operator", "Yes", "operator"]

Ids = Annotated[bool, typer.Option("--ids", help="Show ids, which appear in logs.")]
PORT_HELP = "Port on 127.0.0.1; 0 selects a free port."
HISTORY_HELP = "Share earlier versions and the change data feed."
ID_HELP = "Keep this id, for example from another server. [default: random]"
ID: Column = ("ID", lambda item: item.id)
"""The additional column of lists with `--ids`."""
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
_Item = TypeVar("_Item", bound=Item)

_MISSING = re.compile(r"(share|schema|table|view|volume|skill|model|recipient|storage) '(.+)' not found")
_PERIODS = {"schema": 1, "table": 2, "view": 2, "volume": 2, "skill": 2, "model": 2}
"""Number of periods after the share in a full name, by kind of object."""
_NAMES = {"schema_name": "schema"}
VERDICTS = {"ok": "green", "warning": "yellow", "failed": "bold red", "not tried": "dim"}
"""Verdicts of findings, each with its Rich style."""


class Operator:
    """The context of one command run; it connects to AWS when a command first needs it."""

    def __init__(self, options: GlobalOptions) -> None:
        self.options = options
        self.as_json = False

    @cached_property
    def connection(self) -> Connection:
        """The connection to the selected AWS account, or to the local server."""
        return connection(self.options)

    @cached_property
    def admin(self) -> CatalogAdmin:
        """The catalog, with all changes that operators can make."""
        return self.connection.admin()

    @property
    def reader(self) -> CatalogReader:
        """The catalog, as the sharing endpoints read it for recipients."""
        return CatalogReader(self.connection.catalog_table, self.connection.dynamo())

    @cached_property
    def schemas(self) -> "SchemaReader":
        """A reader of the columns of shared tables, with the operator's credentials."""
        return self.connection.schemas(self.admin.storages.get)

    def sharing_endpoint(self, option: str | None) -> str:
        """Return the sharing endpoint; raises NotFound if it is unknown, InvalidParameter if it is not a URL."""
        endpoint = option or self.connection.sharing_endpoint
        if not endpoint:
            raise NotFound("the endpoint of the server is unknown: set --endpoint or DELTAIC_ENDPOINT")
        parse_endpoint(endpoint)
        return endpoint.rstrip("/")

    def of_recipient(self, store: Any, name: str | None) -> Any:
        """Return the tokens, clients or policies of a recipient, or without a name those of all recipients."""
        return store.list_all() if name is None else store.list(self.admin.recipients.get(name).id)

    def rows(self, items: Iterable[_Item], columns: Sequence[Column], empty: str) -> None:
        """Print items while they are read: as pages of a table, or a JSON array. Without items, print `empty`."""
        if self.as_json:
            print_array(wire(item) for item in items)
            return
        count = 0
        for page in pages(items):
            self.table(page, columns, headed=not count or console().is_terminal)
            count += len(page)
        if not count:
            self.note(empty)

    def first_page(self, items: Sequence[object], columns: Sequence[Column], empty: str, *, more: bool) -> None:
        """Print the first items of a list as a table, or a note that it is empty."""
        if items:
            self.table(items, columns)
        else:
            self.note(empty)
        if more:
            self.note(f"showing the first {PAGE}; use --all to show all")

    def table(self, items: Iterable[object], columns: Sequence[Column], *, headed: bool = True) -> None:
        """Print a table of items."""
        print_table(items, columns, headed=headed)

    def show(self, item: Item, done: str = "", warnings: Sequence[str] = (), **more: str) -> None:
        """Print one item, or only the message `done` about it, and warnings.

        With --json, print the item, `more` fields that are not empty, and warnings, but no message.
        """
        if self.as_json:
            extra = {**more, "warnings": list(warnings)}
            self.json({**wire(item), **{name: value for name, value in extra.items() if value}})
        elif done:
            console(stderr=True).print(Text(one_line(done)), soft_wrap=True)
        else:
            self.facts(wire(item))
        for line in () if self.as_json else warnings:
            console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), one_line(line)), soft_wrap=True)

    def updated(self, title: str, before: Item, after: Item, warnings: Sequence[str] = (), *notes: str) -> None:
        """Print which fields of an item have changed and their new values, notes and warnings; or the item as JSON."""
        old, new = before.attributes(), after.attributes()
        changed = [name for name in new if new[name] != old[name] and name != "requested_at"]
        fields = [_field_text(name, new[name]) for name in changed]
        changes = ", ".join([*fields, *filter(None, notes)])
        self.show(after, f"updated {title}: {changes}" if changes else f"{title} has these values already", warnings)

    def facts(self, facts: Mapping[str, object]) -> None:
        """Print names and values, one per line, without empty values."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for name, value in facts.items():
            if value not in ("", [], (), {}, None):
                grid.add_row(name, cell(visible(shown_value(value))))
        console().print(grid)

    def note(self, text: str) -> None:
        """Print a message to stderr, unless the output is JSON."""
        if not self.as_json:
            console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)

    def terminal(self) -> "Console":
        """Return a console on stderr, for progress."""
        return text_console(stderr=True)

    @contextmanager
    def progress_step(self, text: str) -> Iterator[Callable[[str], object]]:
        """Show a spinner on a terminal while the block runs; call the yielded function to update its text."""
        terminal = console(stderr=True)
        if self.as_json or not terminal.is_terminal:
            yield str
            return
        with terminal.status(text) as status:
            yield lambda detail: status.update(Text.assemble(text, " ", (one_line(detail), "dim")))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation unless `yes` is set; raises InvalidParameter without a terminal."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise InvalidParameter("cannot ask for confirmation here: use --yes")
        typer.confirm(question, abort=True)

    def findings(self, findings: Iterable["Finding"]) -> list["Finding"]:
        """Print the findings of checks while the checks run, one per line or as a JSON array, and return them."""
        printed = []
        for finding in findings:
            printed.append(finding)
            if not self.as_json:
                text_console().print(_finding_line(finding), soft_wrap=True)
        if self.as_json:
            self.json([{**asdict(finding), "holds": finding.holds} for finding in printed])
        return printed

    def end(self, findings: Sequence["Finding"]) -> None:
        """Print the number of findings by verdict, and exit with code 1 if a check failed."""
        counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in VERDICTS}
        self.note(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
        if counts["failed"]:
            raise typer.Exit(1)

    def json(self, value: object) -> None:
        """Print a value as JSON."""
        typer.echo(json.dumps(value, indent=2))

    def suggest(self, refusal: DeltaicError) -> DeltaicError:
        """Return an error; if it is about a name that does not exist, with the nearest existing name."""
        if isinstance(refusal, NotFound) and (missing := _MISSING.fullmatch(refusal.message)):
            with suppress(DeltaicError):
                return self._with_the_nearest(*missing.groups())
        return refusal

    def refuse(self, refusal: DeltaicError) -> None:
        """Print an error; for a name that does not exist, suggest the nearest existing name."""
        refusal = self.suggest(refusal)
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
            parents = above[:1] if kind == "view" else above
            siblings = list(getattr(admin, f"{kind}s").list(*parents))
            names = [item.name for item in siblings if kind != "view" or item.schema_name == above[1]]
        except NotFound as parent_error:  # the share or the schema is missing too
            missing = _MISSING.fullmatch(parent_error.message)
            return self._with_the_nearest(*missing.groups()) if missing else parent_error
        swapped = {"share": "recipient", "recipient": "share"}.get(kind)
        if swapped and name in {item.name for item in getattr(admin, f"{swapped}s").list()}:
            return NotFound(f"{kind} '{name}' not found: '{name}' is a {swapped}. Write RECIPIENT before SHARE")
        return NotFound(f"{kind} '{name}' not found{did_you_mean(last, names)}")


def _field_text(name: str, value: object) -> str:
    """Return a field's name and new value, without a value of many lines, such as SQL."""
    text = "none" if value in ("", (), {}, None) else f"{value:,}" if type(value) is int else shown_value(value)
    return name.replace("_", " ") + f" {text}" * ("\n" not in text)


def operator(ctx: typer.Context, as_json: bool) -> Operator:
    """Return the Operator of a command, and set its output format."""
    context: Operator = ctx.obj
    context.as_json = as_json
    return context


def _finding_line(finding: "Finding") -> Text:
    """Return the line for a check's result: verdict, check and observation, and on a second line its remedy, if any."""
    mark = finding.verdict.upper() if finding.verdict == "failed" else finding.verdict
    message = (one_line(finding.message), "dim")
    text = Text.assemble((mark, VERDICTS[finding.verdict]), f" {one_line(finding.check)} ", message)
    return text.append(f"\n{one_line(as_called(f'   {finding.remedy}'))}") if finding.remedy else text


def wire(item: Item) -> dict[str, Any]:
    """Return a catalog item as a JSON object with all fields, camelCase names and times in UTC."""
    fields = {_NAMES.get(name) or camel_case(name): json_value(value) for name, value in item.attributes().items()}
    if isinstance(item, Token):
        del fields["revoked"], fields["salt"]
        fields["state"] = item.state()
    if isinstance(item, Recipient):
        fields["properties"] = json_properties(item)
        fields = {"name": fields["name"], "id": fields["id"], **fields}  # name and id first
    if isinstance(item, View):
        fields["lastRefresh"] = {camel_case(name): value for name, value in item.last_refresh.items()}
    return fields


def json_fields(result: "DataclassInstance") -> dict[str, Any]:
    """Return a dataclass instance as a JSON object, with names and values as in `wire`."""
    return {camel_case(field.name): json_value(getattr(result, field.name)) for field in fields(result)}


def json_properties(recipient: Recipient) -> dict[str, Any]:
    """Return a recipient's properties as JSON values; a list property becomes a JSON array."""
    return {name: json_value(value_of(text)) for name, text in recipient.properties.items()}


def json_value(value: object) -> object:
    """Return a value for JSON: times in UTC, tuples as lists."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return list(value) if isinstance(value, tuple) else value
