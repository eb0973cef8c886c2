"""The `deltaic` command: one module per noun, loaded when its noun is typed."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from deltaic_pipeline.spark.printing import as_called, called, only_text
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "volume": _Noun("volume", "app", "Volumes: folders of any files, shared whole."),
    "skill": _Noun("skill", "app", "Skills: folders that agents load (agentskills.io)."),
    "model": _Noun("model", "app", "Models: folders of files by version, such as MLflow's."),
    "storage": _Noun("storage", "app", "Storages: S3-compatible stores and roles other than AWS S3 with the stack's."),
    "recipient": _Noun("recipient", "app", "Recipients: who may read."),
    "access": _Noun("rights", "access", "Say whether a recipient may read a table, and by which rule."),
    "grant": _Noun("grant", "app", "Grants: which recipient holds which share."),
    "token": _Noun("token", "app", "Bearer tokens and the profile files that carry them."),
    "expiring": _Noun("expiring", "expiring", "List what ends soon."),
    "pipeline": _Noun("pipeline", "app", "Datasets: files that say how shared tables are built with Spark."),
    "usage": _Noun("usage", "app", "Usage: who asked for what, and what was fetched, to the byte."),
    "verify": _Noun("verify", "verify", "Play a recipient against the endpoint, and say what holds."),
    "pull": _Noun("pull", "pull", "Bring what is shared with a recipient onto this disk."),
    "conformance": _Noun("conformance", "app", "Check any Delta Sharing server against the protocol."),
    "lint": _Noun("lint", "lint", "Say what recipients of a Delta table would run into, before it is shared."),
    "doctor": _Noun("doctor", "doctor", "Look for what is wrong with a stack, and say what to do."),
    "console": _Noun("console", "console", "Open a page of this machine about all of this, with your own rights."),
    "template": _Noun("template", "template", "Write what `sam deploy` deploys into a folder."),
    "export": _Noun("declared", "export", "Write the catalog as YAML files, to be kept beside code."),
    "schema-file": _Noun("declared", "schema_file", "Print the JSON Schema of the catalog as files."),
    "drift": _Noun("declared", "drift", "Say how the catalog differs from such files."),
    "plan": _Noun("applying", "plan", "Say what would make the catalog what such files say."),
    "apply": _Noun("applying", "apply", "Make the catalog what such files say."),
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

The AWS that is meant is told by these options, which may stand anywhere in
the line, else by the ordinary AWS variables; else it is LocalStack if it is up in the state folder, else the
embedded one there, else what AWS's own files say. Commands on the catalog
take --json.

Exit codes: 0 done, 1 refused, 2 not understood; drift ends with 2 where
something differs, and jobs have codes of their own.
"""


_LISTING = "deltaic.listing"
"""In a context's `meta`: the nouns are only named."""


class Deltaic(TyperGroup):
    """The nouns, each imported when it is asked for; and refusals as a message with exit code 1."""

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
        for each in _within(command):
            each.rich_markup_mode = None
            # Raw docstrings spell the mark that keeps example lines apart as two characters; here it becomes one.
            each.help = as_called((each.help or "").replace("\\b\n", "\b\n"))
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line; its global options may stand behind the command too."""
        ctx.info_name = called()
        wanted = _with_value(self, ctx) - {"--profile"}  # behind a command that is a file
        if any(word.partition("=")[0] in wanted for word in args):
            args = self._global_options_first(ctx, args, wanted)
        return super().parse_args(ctx, args)

    def _global_options_first(self, ctx: Any, args: list[str], wanted: set[str]) -> list[str]:
        """Move what is wanted to the front; the command's own options, all values and what follows `--` stay."""
        first: list[str] = []
        rest: list[str] = []
        command: Any = self
        words = iter(args)
        for word in words:
            if word == "--" or command is None:
                return [*first, *rest, word, *words]
            if not word.startswith("-"):
                rest.append(word)
                command = command.get_command(ctx, word) if isinstance(command, TyperGroup) else command
                continue
            name, given, _ = word.partition("=")
            own = _with_value(command, ctx)
            moved = name in wanted and (command is self or name not in own)
            option = [word] if given or name not in own | wanted else [word, *islice(words, 1)]
            if moved and option == [name]:
                ctx.fail(f"Option '{name}' requires an argument.")
            (first if moved else rest).extend(option)
        return [*first, *rest]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the noun that is typed; of a misspelt one the nearest is told."""
        if args and args[0] not in NOUNS and not args[0].startswith("-"):
            from deltaic.nearest import did_you_mean

            ctx.fail(f"No such command '{args[0]}'{did_you_mean(args[0], NOUNS)}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the nouns without loading them: each brings what it works with."""
        ctx.meta[_LISTING] = True
        self.help = as_called(self.help or "")
        super().format_help(ctx, formatter)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the whole program, of which nothing but text is printed: names may come from anybody."""
        with only_text():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the catalog or the machine refuses ends it with exit code 1."""
        from deltaic.errors import DeltaicError

        try:
            return super().invoke(ctx)
        except DeltaicError as refusal:
            ctx.obj.refuse(refusal)
            raise typer.Exit(1) from None
        except BrokenPipeError:  # whoever reads has read enough, which click ends without a word
            raise
        except OSError as error:
            ctx.obj.refuse(_machine_refused(error))
            raise typer.Exit(1) from None


def _machine_refused(error: OSError) -> "DeltaicError":
    """Return what a file, folder or disk of this machine that cannot be used means to who typed the command."""
    from deltaic.errors import Unavailable

    where = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "a file"
    why = error.strerror or str(error)
    return Unavailable(f"{where} cannot be used ({why}): name another place, or make room or rights there")


def _within(command: Any) -> "Iterator[Any]":
    """Yield a command and all below it."""
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _within(each)


def _with_value(command: Any, ctx: Any) -> set[str]:
    """Return the names of a command's options that take a value."""
    return {name for each in command.get_params(ctx) if getattr(each, "is_flag", True) is False for name in each.opts}


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"deltaic {version('deltaic')}")
        raise typer.Exit


# Help is plain text: Typer's other way imports a reader of Markdown, for a quarter of a second.
app = typer.Typer(cls=Deltaic, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback(help=HELP)
def deltaic(  # noqa: PLR0913, PLR0917 -- the global options
    ctx: typer.Context,
    catalog: Annotated[str | None, typer.Option(envvar="CATALOG_TABLE", help="DynamoDB table of the catalog.")] = None,
    tokens: Annotated[str | None, typer.Option(envvar="TOKENS_TABLE", help="DynamoDB table of the tokens.")] = None,
    stack: Annotated[
        str | None, typer.Option(envvar="DELTAIC_STACK", help="Stack whose outputs name the tables (else deltaic).")
    ] = None,
    profile: Annotated[str | None, typer.Option("--aws-profile", help="AWS profile (else AWS_PROFILE).")] = None,
    profile_: Annotated[str | None, typer.Option("--profile", hidden=True, help="The older name.")] = None,
    region: Annotated[str | None, typer.Option(help="AWS region (else AWS_REGION).")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Where AWS is (else AWS_ENDPOINT_URL).")] = None,
    state: Annotated[
        str, typer.Option(envvar="DELTAIC_STATE", help="Folder of the embedded AWS, used if no AWS is named.")
    ] = ".deltaic",
    version: Annotated[  # noqa: ARG001 -- its callback has answered
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Remember what is meant until a command needs it."""
    # Imported here: help needs none of it.
    from deltaic_ops.cli.operator import Operator, Wishes

    def typed(name: str, value: str | None) -> str | None:
        source = ctx.get_parameter_source(name)
        return value if source is not None and source.name == "COMMANDLINE" else None

    # A stack that is typed goes before tables that the shell's variables name: they may be another AWS's.
    only_typed = bool(typed("stack", stack))
    ctx.obj = Operator(
        Wishes(
            catalog=typed("catalog", catalog) if only_typed else catalog,
            tokens=typed("tokens", tokens) if only_typed else tokens,
            stack=stack or None,
            stack_first=only_typed,
            profile=profile or profile_,
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
