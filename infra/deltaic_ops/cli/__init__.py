"""The `deltaic` command: one module for each noun, imported when a command line uses that noun.

`deltaic --stack deltaic-prod table show s.d.orders --json`, by module:

    COMMANDS            the nouns with module, help section and summary; global options can appear anywhere in the line
    catalog.table       the noun `table`: a function for each subcommand
    commands            pass the Operator to the function, and add the option --json
    aws_selection       select the AWS account, the stack and its tables; or the local server
    operator            print an item, JSON or an error, and set the exit code
    list_output         print a list page by page
    value_parsers       parse names, durations and key=value pairs

Commands parse and print; `deltaic.catalog.admin` and the rest of `deltaic_ops` read and change the catalog.
"""

import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from deltaic_terminal.printing import as_called, called, only_text
from typer.core import TyperGroup

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltaic.errors import DeltaicError


class _Command(NamedTuple):
    module: str
    attribute: str
    """The Typer application of a command with subcommands, or the function that is the whole command."""
    group: str
    """Heading of the command's section in the help."""
    help: str


_SHARE, _RECIPIENTS, _CHECK, _OPERATE, _LOCAL = "Share", "Recipients", "Check", "Operate", "Try on this machine"
COMMANDS = {
    "share": _Command("catalog.share", "app", _SHARE, "Manage shares, which you grant to recipients."),
    "schema": _Command("catalog.schema", "app", _SHARE, "Manage schemas, which group the tables of a share."),
    "table": _Command("catalog.table", "app", _SHARE, "Manage shared tables and who sees which rows."),
    "view": _Command("catalog.view", "app", _SHARE, "Manage views: results of SQL that Spark keeps up to date."),
    "volume": _Command("catalog.assets", "volume", _SHARE, "Manage volumes: shared folders of files."),
    "skill": _Command("catalog.assets", "skill", _SHARE, "Manage agent skills: shared folders with a SKILL.md."),
    "model": _Command("catalog.assets", "model", _SHARE, "Manage models: shared folders of files, one per version."),
    "storage": _Command("catalog.storage", "app", _SHARE, "Manage storages: object stores other than your own S3."),
    "pipeline": _Command("jobs.pipeline", "app", _SHARE, "Build and maintain shared tables with Spark."),
    "export": _Command("declared.declared", "export", _SHARE, "Write the catalog as YAML files."),
    "drift": _Command(
        "declared.declared", "drift", _SHARE, "Compare the catalog with YAML files and report differences."
    ),
    "plan": _Command("declared.apply", "plan", _SHARE, "Show how apply would change the catalog."),
    "apply": _Command("declared.apply", "apply", _SHARE, "Change the catalog to match YAML files."),
    "schema-file": _Command(
        "declared.declared", "schema_file", _SHARE, "Print the JSON Schema of the YAML files for plan and apply."
    ),
    "recipient": _Command(
        "recipients.recipient", "app", _RECIPIENTS, "Manage recipients: people and programs that read shares."
    ),
    "grant": _Command("recipients.grant", "app", _RECIPIENTS, "Manage grants: which recipient can read which share."),
    "token": _Command("recipients.token", "app", _RECIPIENTS, "Manage bearer tokens and their profile files."),
    "access": _Command(
        "recipients.access", "access", _RECIPIENTS, "Explain why a recipient can or cannot read a table."
    ),
    "expiring": _Command(
        "recipients.credential_use", "expiring", _RECIPIENTS, "List what expires soon: tokens, grants, recipients."
    ),
    "usage": _Command("jobs.usage", "app", _RECIPIENTS, "Report requests and downloaded bytes by recipient and table."),
    "pull": _Command("pull", "pull", _RECIPIENTS, "Download shared tables, volumes, skills or models."),
    "status": _Command("stack.status", "status", _CHECK, "Show server, counts, what expires, last read and findings."),
    "lint": _Command("stack.lint", "lint", _CHECK, "Check a Delta table for problems that recipients would hit."),
    "verify": _Command("stack.verify", "verify", _CHECK, "Check an endpoint end to end, as a recipient would use it."),
    "doctor": _Command("stack.doctor", "doctor", _CHECK, "Check a stack and suggest fixes."),
    "prove": _Command("stack.prove", "prove", _CHECK, "Check what only a real deployment shows, and write a report."),
    "conformance": _Command("stack.conformance", "conformance", _CHECK, "Check any server against the protocol."),
    "console": _Command("console", "console", _OPERATE, "Manage shares and recipients in a browser."),
    "template": _Command("stack.template", "template", _OPERATE, "Write the template and functions for `sam deploy`."),
    "remove": _Command("stack.remove", "remove", _OPERATE, "Remove a stack, but keep its catalog and tokens."),
    "demo": _Command("local.demo", "demo", _LOCAL, "Share sample tables on this machine and read them."),
    "serve": _Command("local.serve", "serve", _LOCAL, "Run a sharing server on this machine."),
    "env": _Command("local.env", "env", _LOCAL, "Print variables that connect tools to the local server."),
    "localstack": _Command("local.localstack", "app", _LOCAL, "Deploy the template to LocalStack."),
}
"""The first word of each command line, in the order of the help."""


HELP = """Run a Delta Sharing server: share tables, and manage who can read them.

\b
deltaic share create vaccine_share --comment "Trial results"
deltaic schema create vaccine_share.acme
deltaic table create vaccine_share.acme.patients --location s3://bucket/path
deltaic recipient create alice
deltaic grant create alice vaccine_share
deltaic token create alice --profile alice.share

The options select the AWS account and can appear anywhere on the command line. Without them, the command uses the
standard AWS environment variables, then the server that runs in the --state folder, then the AWS configuration files.

Most commands take --json. Exit codes: 0 success, 1 request refused, 2 usage error. `drift` also exits with 2 if it
finds differences.
"""


class Deltaic(TyperGroup):
    """The group of all commands: imports each command when it runs, and exits with code 1 after an error."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- Typer's signature
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command of this name and return it; None for an unknown name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if remedy := missing_extra(entry.module.partition(".")[0]):
            if ctx.resilient_parsing:  # a shell completes the line
                return None
            typer.echo(f"refused: {remedy}", err=True)
            raise typer.Exit(1)
        loaded = getattr(import_module(f"deltaic_ops.cli.{entry.module}"), entry.attribute)
        if not isinstance(loaded, typer.Typer):
            single = Commands(no_args_is_help=False)
            single.command(cmd_name)(loaded)
            loaded = single
        command = typer.main.get_command(loaded)
        command.name = cmd_name
        command.short_help = entry.help
        for each in reversed([*_within(command)]):
            each.rich_markup_mode = None
            # Raw docstrings spell the mark that keeps example lines apart as two characters; here it becomes one.
            text = (each.help or each.short_help or "").replace("\\b\n", "\b\n")
            each.help = as_called(text + _first_example(each))
            each.short_help = each.get_short_help_str(len(each.help))  # one sentence, which lists do not cut
            for argument in [param for param in each.params if param.param_type_name == "argument"]:
                argument.display_type_rich = lambda ctx: ""  # noqa: ARG005 -- the help names no Python types
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, on which global options may also follow the command."""
        ctx.info_name = called()
        movable = _with_value(self, ctx) - {"--profile"}  # after a command, --profile names a file
        if any(argument.partition("=")[0] in movable for argument in args):
            args = self._global_options_first(ctx, args, movable)
        return super().parse_args(ctx, args)

    def _global_options_first(self, ctx: Any, args: list[str], movable: set[str]) -> list[str]:
        """Move global options to the front; the command's own options and arguments after `--` keep their position."""
        first: list[str] = []
        rest: list[str] = []
        command: Any = self
        arguments = iter(args)
        for argument in arguments:
            if argument == "--" or command is None:
                return [*first, *rest, argument, *arguments]
            if not argument.startswith("-"):
                rest.append(argument)
                command = command.get_command(ctx, argument) if isinstance(command, TyperGroup) else command
                continue
            name, equals, _ = argument.partition("=")
            command_options = _with_value(command, ctx)
            moved = name in movable and (command is self or name not in command_options)
            takes_value = not equals and name in command_options | movable
            option = [argument, *islice(arguments, 1)] if takes_value else [argument]
            if moved and option == [name]:
                ctx.fail(f"Option '{name}' requires an argument.")
            (first if moved else rest).extend(option)
        return [*first, *rest]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; for a misspelled name suggest the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from deltaic_terminal.nearest import did_you_mean

            ctx.fail(f"No such command '{args[0]}'{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with examples that start with the command as the user typed it."""
        self.help = as_called(self.help or "")
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 -- click's signature
        """Write a section of the help for each group of commands."""
        for group in dict.fromkeys(entry.group for entry in COMMANDS.values()):
            with formatter.section(group):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.group == group])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program, and escape terminal control sequences in its output, which catalog names may contain."""
        with only_text():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit with code 1 after an error of the catalog or of the operating system."""
        from deltaic.errors import DeltaicError

        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            wrong.message = _value_error(wrong)
            raise
        except DeltaicError as refusal:
            ctx.obj.refuse(refusal)
            raise typer.Exit(1) from None
        except BrokenPipeError:  # the reader closed the pipe; click ends the command silently
            raise
        except OSError as error:
            ctx.obj.refuse(_machine_refused(error))
            raise typer.Exit(1) from None


_VALUE_ERRORS = {
    "int_parsing": "'{input}' is not a whole number: write digits, such as 3",
    "float_parsing": "'{input}' is not a number: write digits, such as 1.5",
    "greater_than_equal": "{input} is too small: write {ctx[ge]} or more",
    "less_than_equal": "{input} is too large: write {ctx[le]} or less",
}
"""Messages for errors of pydantic, with which Typer validates values."""


def _value_error(wrong: typer.BadParameter) -> str:
    for details in getattr(wrong.__cause__, "errors", list)()[:1]:
        if text := _VALUE_ERRORS.get(details["type"]):
            return text.format_map(details)
    return wrong.message.removeprefix("Value error, ")


def _machine_refused(error: OSError) -> "DeltaicError":
    from deltaic.errors import Unavailable

    path = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "a file"
    reason = error.strerror or str(error)
    return Unavailable(f"{path} cannot be used ({reason}): check permissions and free space, or choose another path")


def _within(command: Any) -> "Iterator[Any]":
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _within(each)


def _first_example(command: Any) -> str:
    """Return the first example of a group's most common subcommand, for the group's help; "" for a single command."""
    commands = getattr(command, "commands", {})
    for verb in [name for name in ("create", "check", "report", "deploy", *commands) if name in commands]:
        return "\n\n\b\n" + re.split(r"(?<!\\)\n", commands[verb].help.partition("\b\n")[2])[0]
    return ""


def _with_value(command: Any, ctx: Any) -> set[str]:
    return {name for each in command.get_params(ctx) if getattr(each, "is_flag", True) is False for name in each.opts}


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"deltaic {version('deltaic')}")
        raise typer.Exit


# Help is plain text: Typer's other way imports a reader of Markdown, for a quarter of a second.
app = typer.Typer(
    cls=Deltaic,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)


_CATALOG = "DynamoDB table with the catalog: shares, recipients and grants."
_TOKENS = "DynamoDB table with the recipients' tokens."
_STACK = "CloudFormation stack whose outputs name both DynamoDB tables. [default: deltaic]"
_PROFILE = "AWS profile. [default: $AWS_PROFILE]"
_ENDPOINT_URL = "AWS endpoint URL. [default: $AWS_ENDPOINT_URL]"
_STATE = "State folder of the local server, which is used if no AWS account is selected."


@app.callback(help=HELP)
def deltaic(  # noqa: PLR0913, PLR0917 -- the global options
    ctx: typer.Context,
    catalog: Annotated[str | None, typer.Option(envvar="CATALOG_TABLE", metavar="TABLE", help=_CATALOG)] = None,
    tokens: Annotated[str | None, typer.Option(envvar="TOKENS_TABLE", metavar="TABLE", help=_TOKENS)] = None,
    stack: Annotated[str | None, typer.Option(envvar="DELTAIC_STACK", metavar="NAME", help=_STACK)] = None,
    profile: Annotated[str | None, typer.Option("--aws-profile", metavar="NAME", help=_PROFILE)] = None,
    profile_: Annotated[str | None, typer.Option("--profile", hidden=True, help="Older name of --aws-profile.")] = None,
    region: Annotated[str | None, typer.Option(metavar="NAME", help="AWS region. [default: $AWS_REGION]")] = None,
    endpoint_url: Annotated[str | None, typer.Option(metavar="URL", help=_ENDPOINT_URL)] = None,
    state: Annotated[str, typer.Option(envvar="DELTAIC_STATE", metavar="FOLDER", help=_STATE)] = ".deltaic",
    version: Annotated[  # noqa: ARG001 -- its callback has answered
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep the global options until a command needs them."""
    from deltaic_ops.cli.operator import GlobalOptions, Operator

    def typed(name: str, value: str | None) -> str | None:
        source = ctx.get_parameter_source(name)
        return value if source is not None and source.name == "COMMANDLINE" else None

    # A stack on the command line overrides tables in environment variables, which may belong to another account.
    only_typed = bool(typed("stack", stack))
    ctx.obj = Operator(
        GlobalOptions(
            catalog=typed("catalog", catalog) if only_typed else catalog,
            tokens=typed("tokens", tokens) if only_typed else tokens,
            stack=stack or None,
            stack_first=only_typed,
            profile=profile or profile_,
            region=region,
            endpoint_url=endpoint_url,
            state=Path(state),
        )
    )


def main() -> None:
    """Run the command line."""
    try:
        app()
    except OSError as error:  # raised before a command runs, for example if the help cannot be written
        with suppress(OSError):
            typer.echo(f"refused: {_machine_refused(error).message}", err=True)
        sys.exit(1)
