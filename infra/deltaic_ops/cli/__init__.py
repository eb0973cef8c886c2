"""Decides what the `deltaic` command is: one module per noun, loaded when its noun is typed."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from deltaic_ops.cli.plain_values import read_plainly

if TYPE_CHECKING:
    from deltaic.errors import DeltaicError


class _Noun(NamedTuple):
    module: str
    command: str
    """The Typer application of a noun with verbs, or the function that is the whole command."""
    help: str


NOUNS = {
    "share": _Noun("share", "app", "Shares: what is granted to recipients as one."),
    "schema": _Noun("schema", "app", "Schemas: the groups of tables in a share."),
    "table": _Noun("table", "app", "Tables: which Delta table is shared under which name, and how."),
    "view": _Noun("view", "app", "Views: what a SQL shows of a table to each recipient, kept fresh by Spark."),
    "storage": _Noun("storage", "app", "Storages: S3-compatible stores and roles other than AWS S3 with the stack's."),
    "recipient": _Noun("recipient", "app", "Recipients: who may read."),
    "grant": _Noun("grant", "app", "Grants: which recipient holds which share."),
    "token": _Noun("token", "app", "Bearer tokens and the profile files that carry them."),
    "pipeline": _Noun("pipeline", "app", "Datasets: files that say how shared tables are built with Spark."),
    "usage": _Noun("usage", "app", "Usage: who asked for what, and what was fetched, to the byte."),
    "verify": _Noun("verify", "verify", "Play a recipient against the endpoint, and say what holds."),
    "conformance": _Noun("conformance", "conformance", "Check any Delta Sharing server against the protocol."),
    "doctor": _Noun("doctor", "doctor", "Look for what is wrong with a stack, and say what to do."),
    "backup": _Noun("backup", "backup", "Write the catalog into a file."),
    "restore": _Noun("backup", "restore", "Write such a file into an empty stack."),
    "remove": _Noun("remove", "remove", "Remove a stack, and say what stays."),
    "serve": _Noun("serve", "serve", "Serve shares on this machine."),
    "env": _Noun("env", "env", "Print how other programs reach the embedded AWS."),
    "localstack": _Noun("localstack", "app", "LocalStack: the template on an emulator of AWS, on this machine."),
    "demo": _Noun("demo", "demo", "Share a sample dataset on this machine and read it."),
}


HELP = """Run a Delta Sharing server: what is shared, with whom, and how they get in.

\b
deltaic share create vaccine_share --comment "Trial results"
deltaic schema create vaccine_share.acme
deltaic table create vaccine_share.acme.patients --location s3://bucket/path
deltaic recipient create alice
deltaic grant create alice vaccine_share
deltaic token create alice --profile alice.share

The AWS that is meant is told by these options, else by the ordinary AWS
variables; else it is LocalStack if it is up in the state folder, else the
embedded one there, else what AWS's own files say. Commands on the catalog
take --json.

Exit codes: 0 done, 1 refused, 2 not understood.
"""


_LISTING = "deltaic.listing"
"""In a context's `meta`: the nouns are only named."""


class Deltaic(TyperGroup):
    """The nouns, each imported when it is asked for; and refusals as a message with exit code 1."""

    def get_params(self, ctx: Any) -> Any:
        """Return the global options."""
        found = super().get_params(ctx)
        read_plainly(found)
        return found

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- Typer's signature
        """Return the nouns in the order in which one needs them."""
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a noun; None for a word that is none."""
        noun = NOUNS.get(cmd_name)
        if noun is None:
            return None
        if ctx is not None and ctx.meta.get(_LISTING):
            return TyperCommand(cmd_name, short_help=noun.help)
        loaded = getattr(import_module(f"deltaic_ops.cli.{noun.module}"), noun.command)
        if not isinstance(loaded, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(cmd_name)(loaded)
            loaded = single
        command = typer.main.get_command(loaded)
        command.name = cmd_name
        command.short_help = noun.help
        for each in (command, *getattr(command, "commands", {}).values()):
            each.rich_markup_mode = None
            if ctx is not None:
                read_plainly(each.get_params(ctx))
            # Raw docstrings spell the mark that keeps example lines apart as two characters; here it becomes one.
            each.help = (each.help or "").replace("\\b\n", "\b\n")
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the nouns without loading them: each brings what it works with."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the catalog or the machine refuses ends it with exit code 1."""
        from deltaic.errors import DeltaicError

        try:
            return super().invoke(ctx)
        except DeltaicError as refusal:
            ctx.obj.refuse(refusal)
            raise typer.Exit(1) from None
        except OSError as error:
            ctx.obj.refuse(_machine_refused(error))
            raise typer.Exit(1) from None


def _machine_refused(error: OSError) -> "DeltaicError":
    """Return what a file, folder or disk of this machine that cannot be used means to who typed the command."""
    from deltaic.errors import Unavailable

    where = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "a file"
    why = error.strerror or str(error)
    return Unavailable(f"{where} cannot be used ({why}): name another place, or make room or rights there")


# Help is plain text: Typer's other way imports a reader of Markdown, for a quarter of a second.
app = typer.Typer(cls=Deltaic, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback(help=HELP)
def deltaic(  # noqa: PLR0913, PLR0917 -- the global options
    ctx: typer.Context,
    catalog: Annotated[str | None, typer.Option(envvar="CATALOG_TABLE", help="DynamoDB table of the catalog.")] = None,
    tokens: Annotated[str | None, typer.Option(envvar="TOKENS_TABLE", help="DynamoDB table of the tokens.")] = None,
    stack: Annotated[
        str, typer.Option(envvar="DELTAIC_STACK", help="Stack whose outputs name the tables.")
    ] = "deltaic",
    profile: Annotated[str | None, typer.Option(help="AWS profile (else AWS_PROFILE).")] = None,
    region: Annotated[str | None, typer.Option(help="AWS region (else AWS_REGION).")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Where AWS is (else AWS_ENDPOINT_URL).")] = None,
    state: Annotated[
        str, typer.Option(envvar="DELTAIC_STATE", help="Folder of the embedded AWS, used if no AWS is named.")
    ] = ".deltaic",
) -> None:
    """Remember what is meant until a command needs it."""
    # Imported here: help needs none of it.
    from deltaic_ops.cli.operator import Operator, Wishes

    ctx.obj = Operator(
        Wishes(
            catalog=catalog,
            tokens=tokens,
            stack=stack,
            profile=profile,
            region=region,
            endpoint_url=endpoint_url,
            state=state,
        )
    )
    ctx.call_on_close(ctx.obj.close)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except OSError as error:  # before there is a command: where not even the help can be written
        with suppress(OSError):
            typer.echo(f"refused: {_machine_refused(error).message}", err=True)
        sys.exit(1)
