"""Rehearse a command: run its checks, also the conditions of its transaction in DynamoDB, but change nothing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import typer
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Item
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import check
from deltaic.errors import DeltaicError, InvalidParameter

from deltaic_ops.cli import app
from deltaic_ops.cli.operator import Column, Operator
from deltaic_ops.console.provider import Rehearsal

_NEVER: Final = Key("rehearsal", "rehearsal")
"""Key of an item that does not exist: a transaction with a condition on it is always cancelled."""

_WARN_LATER: Final = "(share|volume|table|grant) create|(table|grant) update|recipient invite|token rotate"
"""Commands that write nothing but one entry, and show warnings afterwards."""


class _Passed(Exception):
    """Not an error: all checks before the command's first change have passed."""


class _ConditionsOnly(Dynamo):
    """DynamoDB client that has DynamoDB check the conditions of transactions, but never writes."""

    continues_after_write = False
    """Whether the command continues after its first transaction, as if that was written."""

    def transact(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Check the conditions of a transaction; raises ConditionFailed for the first that fails."""
        items = list(writes)
        try:
            super().transact([*items, check(next(iter(items[0].values()))["TableName"], _NEVER)])
        except ConditionFailed as failed:
            if failed.index < len(items):
                raise
        if not self.continues_after_write:
            raise _Passed
        self.continues_after_write = False

    def update(self, write: Mapping[str, Any]) -> None:  # noqa: ARG002 -- never sent
        """End the rehearsal before a write without a transaction."""
        raise _Passed


class _RehearsingOperator(Operator):
    """The context of a rehearsed command: a catalog that is not changed, and no output."""

    def __init__(self, cli: Operator, arguments: Sequence[str]) -> None:
        super().__init__(cli.options)
        self.result = Rehearsal([], [])
        self.connection = cli.connection
        dynamo = _ConditionsOnly(lambda: cli.connection.dynamo().client)
        dynamo.continues_after_write = re.fullmatch(_WARN_LATER, " ".join(arguments[:2])) is not None
        self.admin = self.connection.admin(dynamo)

    def show(self, item: Item, done: str = "", warnings: Sequence[str] = (), **more: str) -> None:  # noqa: ARG002
        """Keep the warnings, and end the command before it does more."""
        self.result.warnings.extend(warnings)
        raise _Passed

    def table(self, items: Iterable[object], columns: Sequence[Column], *, headed: bool = True) -> None:  # noqa: ARG002
        """Keep the rows that the command shows before it asks for confirmation."""
        self.result.preview.extend({heading: str(read(item)) for heading, read in columns} for item in items)

    def note(self, text: str) -> None:
        """Keep a note about the preview; other notes are not printed."""
        self.result.warnings.extend([text] if self.result.preview else [])

    def confirm(self, question: str, *, yes: bool) -> None:  # noqa: ARG002 -- nobody is asked
        """End a command that has shown a preview, because it writes after the confirmation."""
        if self.result.preview:
            raise _Passed


def rehearse(cli: Operator, arguments: Sequence[str]) -> Rehearsal:
    """Run a command up to its first change, of the catalog or of a table.

    Raises the command's error, or InvalidParameter, whose `detail` is an option's name.
    """
    rehearsing = _RehearsingOperator(cli, arguments)
    root: Any = typer.main.get_command(app)
    command = root.get_command(typer.Context(root), arguments[0])  # without the root's options, which select an account
    try:
        command.main([*arguments[1:]], standalone_mode=False, obj=rehearsing)
    except _Passed:
        pass
    except typer.BadParameter as error:
        option = getattr(error, "param", None)
        raise InvalidParameter(error.message, option.opts[0] if option else "") from None
    except DeltaicError as refusal:
        raise rehearsing.suggest(refusal) from refusal
    return rehearsing.result
