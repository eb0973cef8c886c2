"""Parse the command lines of jobs, the same for `deltaic`, `python -m deltaic_pipeline.JOB` and spark-submit."""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from shutil import get_terminal_size
from typing import Any, NamedTuple, NoReturn

from deltaic_terminal.nearest import did_you_mean
from deltaic_terminal.printing import as_called, called

from deltaic_pipeline.failures import EXIT_CODES
from deltaic_pipeline.table.row_limits import check_limit
from deltaic_pipeline.table.sources import FORMATS
from deltaic_pipeline.table.target import MODES

LONGEST_WAIT_SECONDS = 86_400
"""Maximum for --wait, one day: a writer that holds a table's lease for longer is assumed to hang."""

RUN = """\
deltaic pipeline run patients.yaml --dry-run
deltaic pipeline run patients.yaml --run-id 2026-11-22 --memory 4g
deltaic pipeline run patients.yaml --set day=2026-11-22 --set site=north
deltaic pipeline run s3://bucket/datasets/patients.yaml --json --wait 600

After a crash, start the run again with the same --run-id: it continues and writes no row twice.
"""

BACKFILL = """\
deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-01-31
deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-12-31 --step month --on emr

Finished steps are skipped, so the same command continues after Ctrl-C or a failure. --run-id is a
prefix of the steps' run ids; with another prefix, all steps are repeated. After a failed step,
modes append and overwrite_partitions continue. Other modes stop: later rows replace earlier ones.
"""

PUBLISH = """\
deltaic pipeline publish --from data/patients/*.csv --format csv --to s3://bucket/patients \\
    --partition-by day --table vaccine_share.acme.patients --create-share
deltaic pipeline publish --from s3://inbox/2026-11-21/ --format json --mode append \\
    --run-id 2026-11-21 --to s3://bucket/patients --table vaccine_share.acme.patients
deltaic pipeline publish --from corrections.parquet --format parquet --mode merge \\
    --key patient_id --sql "SELECT id AS patient_id, site, dose FROM source" --wait 600 \\
    --to s3://bucket/patients --table vaccine_share.acme.patients

The first run downloads 19 MB of jars into ~/.cache/deltaic, or DELTAIC_CACHE, from Maven Central
or its mirror DEFAULT_ARTIFACT_REPOSITORY.
"""

MAINTAIN = """\
deltaic pipeline maintain s3://bucket/patients --dry-run
deltaic pipeline maintain s3://bucket/patients --run-id 2026-11-22 --wait 600
deltaic pipeline maintain s3://bucket/patients --zorder-by patient_id --no-vacuum
deltaic pipeline maintain s3://bucket/patients --v2-checkpoints

Vacuum deletes files that no reader needs. It keeps files of the latest version, of versions that
were the latest within delta.deletedFileRetentionDuration (at least the lifetime of page tokens and
URLs), of shared history, and of versions that a stream in --stream-checkpoint has not read. It
never deletes commits. After a crash, start the run again: it continues.
"""

USAGE = """\
deltaic usage collect
deltaic usage collect --requests 's3://logs/endpoints/2026/11/2*/*' \\
    --fetches 's3://logs/s3/2026-11-2*' --to s3://bucket/usage --run-id 2026-11-22
deltaic usage collect --requests ... --fetches ... --to s3://bucket/usage \\
    --table audit.usage.accesses

Requests are JSON lines of the functions' log group, exported or from a subscription, gzipped or
not. Fetches are S3 server access logs of the data buckets. Logs can be late and can overlap,
because rows are merged by request id. After a crash, start the run again with the same --run-id.

The command needs no Spark. For more than 10 million lines in one run, use Spark with the same
result: --spark on this machine, or --on emr.
"""

VIEWS = """\
deltaic view refresh sales.europe.orders_for_partners
deltaic view refresh --due --json --wait 600

A view is due if a refresh was requested (new recipient, changed properties), if it is older than
its maximum staleness, if rows of a recipient are missing, or if it has no schedule and was never
refreshed. If one view fails, the others are still refreshed, and the exit code is that of the
failure. After a crash, start the run again: it writes no row twice.
"""


class CommandLine(argparse.ArgumentParser):
    """Argument parser whose help and errors look like those of the other commands."""

    def error(self, message: str) -> NoReturn:
        """Print the error, with a suggestion for an unknown option, and exit with code 2."""
        _, unknown, rest = message.partition("unrecognized arguments: ")
        near = did_you_mean(rest.split(maxsplit=1)[0].partition("=")[0], self._option_string_actions) if unknown else ""
        self.print_usage(sys.stderr)
        text = re.sub("^Argument (.+?):", r"Invalid value for '\1':", message[:1].upper() + message[1:])
        self.exit(2, f"Try '{self.prog} --help' for help.\n\nError: {text}{near}\n")


class _HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Layout of the help pages of the other commands, which Typer writes."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=min(get_terminal_size().columns, 100) - 2)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:  # noqa: ARG002
        arguments = [action for action in actions if not action.option_strings]
        names = [f" {{{each.metavar}}}" if each.required else f" [{each.metavar}]..." for each in arguments]
        super().add_usage(f"%(prog)s [OPTIONS]{''.join(names)}", actions, groups, "Usage: ")

    def _get_help_string(self, action: argparse.Action) -> str:
        return (action.help or "") + " [required]" * action.required

    def start_section(self, heading: str | None) -> None:
        super().start_section({"positional arguments": "Arguments"}.get(heading or "", (heading or "").capitalize()))

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 -- argparse's signature
        fill = partial(textwrap.fill, width=width - 2, break_on_hyphens=False)
        parts = text.strip().split("\n\n")
        filled = [part if part.startswith(called()) else fill(part) for part in parts]
        return textwrap.indent("\n\n".join(filled), "  ")


def parser(job: str) -> CommandLine:
    """Return the argument parser of a job, such as `publish`."""
    spec = _JOBS[job]
    line = CommandLine(
        prog=f"{called()} {spec.command}",
        description=f"{spec.description}\n\n{as_called(spec.examples)}",
        epilog=EXIT_CODES,
        formatter_class=_HelpLayout,
        allow_abbrev=False,
        add_help=False,
    )
    spec.options(line)
    run = line.add_argument_group("how to run")
    _option(run, "--run-id", "NAME", "Id of this run. A run that finished with this id is not repeated.", default="")
    text = "Wait up to SECONDS for another writer of the table. [default: 0]"
    _option(run, "--wait", "SECONDS", text, type=_seconds, default=0.0)
    _option(run, "--catalog", "NAME", "DynamoDB table of the catalog. [default: $CATALOG_TABLE]")
    _option(run, "--memory", "SIZE", "Java heap of Spark, such as 4g. [default on this machine: 1g]", default="")
    _flag(run, "--show-values", "Show Spark's full error messages, which may contain row data.")
    if job != "publish":
        _flag(run, "--json", "Print one JSON object per line.")
    line.add_argument("--help", action="help", help="Show this message and exit.")
    return line


def _run(line: CommandLine) -> None:
    _dataset(line)
    _flag(line, "--dry-run", "Show the plan, schema differences and row counts, but change nothing.")


def _backfill(line: CommandLine) -> None:
    _dataset(line)
    steps = line.add_argument_group("which steps")
    _option(steps, "--from", "TIME", "First value of the variable, such as 2026-01-01.", dest="first", required=True)
    _option(steps, "--to", "TIME", "Last value of the variable, inclusive.", dest="last", required=True)
    steps.add_argument("--step", choices=("day", "week", "month"), default="day", help="Size of a step. [default: day]")
    _option(steps, "--variable", "NAME", "Variable to set in each step. [default: the only date variable]", default="")


def _dataset(line: CommandLine) -> None:
    _option(line, "file", "FILE", "Dataset file: a path or s3://bucket/key.")
    text = "Maximum number or percentage of keys that this run may delete, such as 50%%. [default: at_most in the file]"
    _option(line, "--delete-at-most", "LIMIT", text, type=_limit)
    _repeated(line, "--set", "NAME=VALUE", "Set a variable. Can be repeated.", type=assignment, dest="variables")
    _repeated(line, "--jar", "PATH", "Jar for the class path, such as a JDBC driver. Can be repeated.")
    text = "Location of the runs table. [default: $DELTAIC_RUNS, or the target's location followed by _runs]"
    _option(line, "--runs", "S3_URL", text, default=os.environ.get("DELTAIC_RUNS", ""))


def _publish(line: CommandLine) -> None:
    reading = line.add_argument_group("what to read")
    text = "Files, folders, globs (local or s3://), or one table."
    _option(reading, "--from", "PATH", text, dest="paths", nargs="+", required=True)
    reading.add_argument(
        "--format", choices=FORMATS, required=True, help="Format of --from. table: a table of Spark's catalog."
    )
    _repeated(reading, "--option", "K=V", "Option of Spark's reader, such as sep=';'. Can be repeated.")
    _option(reading, "--schema", "DDL", "Columns and types, such as 'id bigint, day date'. [default: inferred]")
    reading.add_argument("--sql", help="SQL query that selects rows from the view `source`.")
    writing = line.add_argument_group("what to write")
    _option(writing, "--to", "S3_URL", "Location of the Delta table.", required=True)
    writing.add_argument("--mode", choices=MODES, default="overwrite", help="How to write rows. [default: overwrite]")
    _repeated(writing, "--key", "COLUMN", "Key column (merge). Together, they identify a row. Can be repeated.")
    _repeated(writing, "--partition-by", "COLUMN", "Partition column. Can be repeated.")
    _repeated(writing, "--property", "K=V", "Table property, set after the rows are written. Can be repeated.")
    _flag(writing, "--evolve-schema", "Accept new columns. With --mode overwrite, accept any schema.")
    _flag(writing, "--no-change-data-feed", "Do not enable the change data feed.")
    _flag(_sharing(line), "--no-history", "Share only the latest version.")


def _maintain(line: CommandLine) -> None:
    _option(line, "location", "S3_URL", "Location of the Delta table.")
    _flag(line, "--dry-run", "Show what would be done and kept, but change nothing.")
    for part, action in (
        ("optimize", "Compact small files."),
        ("checkpoint", "Write a checkpoint if one is due."),
        ("sort", "Sort v2 checkpoints by partition and clustering columns."),
        ("vacuum", "Delete files that no reader needs."),
    ):
        text = f"{action} [default: yes]"
        line.add_argument(f"--{part}", action=argparse.BooleanOptionalAction, default=True, help=text)
    _repeated(line, "--zorder-by", "COLUMN", "Z-order column, not for clustered tables. Can be repeated.")
    _option(line, "--checkpoint-after", "N", "Write a checkpoint after this many commits. [default: 10]", type=int)
    _flag(line, "--v2-checkpoints", "Enable v2 checkpoints, which old readers cannot read.")
    _option(line, "--keep", "DAYS", "Keep versions readable for at least this many days.", type=float)
    _option(line, "--url-ttl", "SECONDS", "Lifetime of signed URLs. [default: $URL_TTL_SECONDS, or 3600]", type=int)
    _repeated(line, "--stream-checkpoint", "PATH", "Checkpoint of a stream that reads the table. Can be repeated.")


def _usage(line: CommandLine) -> None:
    logs = {"--requests": "Logs of the functions", "--fetches": "S3 server access logs"}
    for option, text in logs.items():
        _option(line, option, "PATH", f"{text}: files, folders, globs.", nargs="+", action="extend")
    text = "Location of the usage table. [default: $DELTAIC_USAGE]"
    _option(line, "--to", "S3_URL", text, default=os.environ.get("DELTAIC_USAGE", ""))
    signing = "Role that signs URLs. Can be repeated. [default: $SIGNING_ROLE_ARN and the roles of storages]"
    _repeated(line, "--role", "NAME", signing)
    _flag(line, "--spark", "Use Spark, for more than 10 million lines in one run.")
    _sharing(line)


def _views(line: CommandLine) -> None:
    which = line.add_mutually_exclusive_group(required=True)
    _option(which, "names", "SHARE.SCHEMA.VIEW", "Views to refresh.", nargs="*", default=[])
    _flag(which, "--due", "Refresh all views that are due (see deltaic view list).")
    _flag(which, "--all", "Refresh all views.")


def _sharing(line: CommandLine) -> "argparse._ArgumentGroup":
    sharing = line.add_argument_group("how to share")
    _option(sharing, "--table", "SHARE.SCHEMA.TABLE", "Share the table under this name. [default: do not share it]")
    _flag(sharing, "--create-share", "Create the share if it does not exist.")
    _option(sharing, "--storage", "NAME", "Storage of --to (see deltaic storage).", default="")
    return sharing


def _option(line: "argparse._ActionsContainer", name: str, value: str, text: str | None, **more: Any) -> None:
    line.add_argument(name, metavar=value, help=text, **more)


def _repeated(line: "argparse._ActionsContainer", name: str, value: str, text: str | None = None, **more: Any) -> None:
    _option(line, name, value, text, action="append", default=[], **more)


def _flag(line: "argparse._ActionsContainer", name: str, text: str) -> None:
    line.add_argument(name, action="store_true", help=text)


class _JobSpec(NamedTuple):
    command: str
    description: str
    examples: str
    options: Callable[[CommandLine], None]


_JOBS: Mapping[str, _JobSpec] = {
    "run": _JobSpec("pipeline run", "Build a dataset from its file.", RUN, _run),
    "backfill": _JobSpec("pipeline backfill", "Build a dataset for each step of a period.", BACKFILL, _backfill),
    "publish": _JobSpec("pipeline publish", "Write files or a table to a Delta table and share it.", PUBLISH, _publish),
    "maintain": _JobSpec(
        "pipeline maintain",
        "Maintain a Delta table: compact files, write a checkpoint, delete unused files.",
        MAINTAIN,
        _maintain,
    ),
    "usage": _JobSpec(
        "usage collect", "Collect the access logs of the functions and of S3 into the usage table.", USAGE, _usage
    ),
    "views": _JobSpec("view refresh", "Refresh views from the latest versions of their sources.", VIEWS, _views),
}


def assignment(text: str) -> tuple[str, str]:
    """Split `NAME=VALUE` into name and value."""
    name, equals, value = text.partition("=")
    if name and equals:
        return name, value
    raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE, such as day=2026-11-22")


def _limit(text: str) -> str:
    with suppress(ValueError):
        return check_limit(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a limit such as 50% or '100 rows'")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds <= LONGEST_WAIT_SECONDS:  # false for NaN too
            return seconds
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to {LONGEST_WAIT_SECONDS}")
