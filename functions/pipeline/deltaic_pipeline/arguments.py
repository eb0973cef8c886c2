"""Parse the command lines of jobs, the same for `deltaic`, `python -m deltaic_pipeline.JOB` and spark-submit."""

import argparse
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from deltaic_terminal.nearest import did_you_mean
from deltaic_terminal.printing import as_called, called

from deltaic_pipeline.failures import EXIT_CODES
from deltaic_pipeline.table.row_limits import check_limit
from deltaic_pipeline.table.sources import FORMATS
from deltaic_pipeline.table.target import MODES

LONGEST_WAIT_SECONDS = 86_400
"""Maximum for --wait, one day: a writer that holds a table's lease for longer is assumed to hang."""

RUN = """examples:
  deltaic pipeline run patients.yaml --dry-run
  deltaic pipeline run patients.yaml --run-id 2026-11-22 --memory 4g
  deltaic pipeline run patients.yaml --set day=2026-11-22 --set site=north
  deltaic pipeline run s3://bucket/datasets/patients.yaml --json --wait 600

After a crash, start the run again with the same --run-id: it continues and writes no row twice.
"""

BACKFILL = """examples:
  # one run for each day of January: --set day=2026-01-01 with run id patients-2026-01-01, and so on
  deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-01-31
  deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-12-31 --step month --on emr

Finished steps are skipped, so the same command continues after Ctrl-C or a failure. --run-id is a
prefix of the steps' run ids; with another prefix, all steps are repeated. After a failed step,
modes append and overwrite_partitions continue. Other modes stop: later rows replace earlier ones.
"""

PUBLISH = """examples:
  # create a table from CSV files with a header, partitioned by day, and share it
  deltaic pipeline publish --from data/patients/*.csv --format csv --to s3://bucket/patients \\
      --partition-by day --table vaccine_share.acme.patients --create-share

  # append the rows of the next day; the run id makes it safe to repeat
  deltaic pipeline publish --from s3://inbox/2026-11-21/ --format json --mode append \\
      --run-id 2026-11-21 --to s3://bucket/patients --table vaccine_share.acme.patients

  # merge corrections by key, select columns with SQL, and wait for another writer
  deltaic pipeline publish --from corrections.parquet --format parquet --mode merge \\
      --key patient_id --sql "SELECT id AS patient_id, site, dose FROM source" --wait 600 \\
      --to s3://bucket/patients --table vaccine_share.acme.patients

The first run downloads 19 MB of jars into ~/.cache/deltaic, or DELTAIC_CACHE, from Maven Central
or its mirror DEFAULT_ARTIFACT_REPOSITORY.
"""

MAINTAIN = """examples:
  # show what would be done, and which files are kept for which readers
  deltaic pipeline maintain s3://bucket/patients --dry-run

  # maintain the table every day
  deltaic pipeline maintain s3://bucket/patients --run-id 2026-11-22 --wait 600

  # sort rows that are read together into the same files, and delete nothing
  deltaic pipeline maintain s3://bucket/patients --zorder-by patient_id --no-vacuum

  # use v2 checkpoints from now on, for a table with many files
  deltaic pipeline maintain s3://bucket/patients --v2-checkpoints

Vacuum deletes files that no reader needs. It keeps files of the latest version, of versions that
were the latest within delta.deletedFileRetentionDuration (at least the lifetime of page tokens and
URLs), of shared history, and of versions that a stream in --stream-checkpoint has not read. It
never deletes commits. After a crash, start the run again: it continues.
"""

USAGE = """examples:
  # collect the logs of `deltaic serve`
  deltaic usage collect

  # collect the logs of the last days, every day; entries are not counted twice
  deltaic usage collect --requests 's3://logs/endpoints/2026/11/2*/*' \\
      --fetches 's3://logs/s3/2026-11-2*' --to s3://bucket/usage --run-id 2026-11-22

  # share the table with recipients who may see all accesses
  deltaic usage collect --requests ... --fetches ... --to s3://bucket/usage \\
      --table audit.usage.accesses

Requests are JSON lines of the functions' log group, exported or from a subscription, gzipped or
not. Fetches are S3 server access logs of the data buckets. Logs can be late and can overlap,
because rows are merged by request id. After a crash, start the run again with the same --run-id.
"""

VIEWS = """examples:
  deltaic view refresh sales.europe.orders_for_partners
  deltaic view refresh --due --json --wait 600

A view is due if a refresh was requested (new recipient, changed properties), if it is older than
its maximum staleness, if rows of a recipient are missing, or if it has no schedule and was never
refreshed. If one view fails, the others are still refreshed, and the exit code is that of the
failure. After a crash, start the run again: it writes no row twice.
"""


class CommandLine(argparse.ArgumentParser):
    """Argument parser that suggests the nearest option for a misspelled one."""

    def error(self, message: str) -> NoReturn:
        """Print the error, with a suggestion for an unknown option, and exit with code 2."""
        _, unknown, rest = message.partition("unrecognized arguments: ")
        near = did_you_mean(rest.split(maxsplit=1)[0].partition("=")[0], self._option_string_actions) if unknown else ""
        super().error(message + near)


def parser(job: str) -> CommandLine:
    """Return the argument parser of a job, such as `publish`."""
    spec = _JOBS[job]
    line = CommandLine(
        prog=f"{called()} {spec.command}",
        description=spec.description,
        epilog=as_called(spec.examples) + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    spec.options(line)
    run = line.add_argument_group("how to run")
    _option(run, "--run-id", "NAME", "id of this run; a run that finished with this id is not repeated", default="")
    text = "wait up to SECONDS for another writer of the table (default: 0)"
    _option(run, "--wait", "SECONDS", text, type=_seconds, default=0.0)
    _option(run, "--catalog", "NAME", "DynamoDB table of the catalog (default: CATALOG_TABLE)")
    _option(run, "--memory", "SIZE", "Java heap of Spark, such as 4g (local default: 1g)", default="")
    _flag(run, "--show-values", "show Spark's full error messages, which may contain row data")
    if job != "publish":
        _flag(run, "--json", "print one JSON object per line")
    return line


def _run(line: CommandLine) -> None:
    _dataset(line)
    _flag(line, "--dry-run", "show the plan, schema differences and row counts, but change nothing")


def _backfill(line: CommandLine) -> None:
    _dataset(line)
    steps = line.add_argument_group("which steps")
    _option(steps, "--from", "TIME", "first value of the variable, such as 2026-01-01", dest="first", required=True)
    _option(steps, "--to", "TIME", "last value of the variable, inclusive", dest="last", required=True)
    steps.add_argument("--step", choices=("day", "week", "month"), default="day", help="size of a step (default: day)")
    _option(steps, "--variable", "NAME", "variable to set in each step (default: the only date variable)", default="")


def _dataset(line: CommandLine) -> None:
    _option(line, "file", "FILE", "dataset file: a path or s3://bucket/key")
    text = "maximum number or percentage of keys that this run may delete, such as 50%% (default: at_most in the file)"
    _option(line, "--delete-at-most", "LIMIT", text, type=_limit)
    _repeated(line, "--set", "NAME=VALUE", "set a variable; can be repeated", type=assignment, dest="variables")
    _repeated(line, "--jar", "PATH", "jar for the class path, such as a JDBC driver; can be repeated")
    text = "location of the runs table (default: DELTAIC_RUNS, or the target's location followed by _runs)"
    _option(line, "--runs", "S3_URL", text, default=os.environ.get("DELTAIC_RUNS", ""))


def _publish(line: CommandLine) -> None:
    reading = line.add_argument_group("what to read")
    text = "files, folders, globs (local or s3://), or one table"
    _option(reading, "--from", "PATH", text, dest="paths", nargs="+", required=True)
    reading.add_argument(
        "--format", choices=FORMATS, required=True, help="format of --from; table: a table of Spark's catalog"
    )
    _repeated(reading, "--option", "K=V", "option of Spark's reader, such as sep=';'; can be repeated")
    _option(reading, "--schema", "DDL", "columns and types, such as 'id bigint, day date' (default: inferred)")
    reading.add_argument("--sql", help="SQL query that selects rows from the view `source`")
    writing = line.add_argument_group("what to write")
    _option(writing, "--to", "S3_URL", "location of the Delta table", required=True)
    writing.add_argument("--mode", choices=MODES, default="overwrite", help="how to write rows (default: overwrite)")
    _repeated(writing, "--key", "COLUMN", "key column (merge); together, they identify a row; can be repeated")
    _repeated(writing, "--partition-by", "COLUMN", "partition column; can be repeated")
    _repeated(writing, "--property", "K=V", "table property, set after the rows are written; can be repeated")
    _flag(writing, "--evolve-schema", "accept new columns; with --mode overwrite, accept any schema")
    _flag(writing, "--no-change-data-feed", "do not enable the change data feed")
    _flag(_sharing(line), "--no-history", "share only the latest version")


def _maintain(line: CommandLine) -> None:
    _option(line, "location", "S3_URL", "location of the Delta table")
    _flag(line, "--dry-run", "show what would be done and kept, but change nothing")
    for part, action in (
        ("optimize", "compact small files"),
        ("checkpoint", "write a checkpoint if one is due"),
        ("sort", "sort v2 checkpoints by partition and clustering columns"),
        ("vacuum", "delete files that no reader needs"),
    ):
        text = f"{action} (default: yes)"
        line.add_argument(f"--{part}", action=argparse.BooleanOptionalAction, default=True, help=text)
    _repeated(line, "--zorder-by", "COLUMN", "Z-order column, not for clustered tables; can be repeated")
    _option(line, "--checkpoint-after", "N", "write a checkpoint after this many commits (default: 10)", type=int)
    _flag(line, "--v2-checkpoints", "enable v2 checkpoints, which old readers cannot read")
    _option(line, "--keep", "DAYS", "keep versions readable for at least this many days", type=float)
    _option(line, "--url-ttl", "SECONDS", "lifetime of signed URLs (default: URL_TTL_SECONDS, or 3600)", type=int)
    _repeated(line, "--stream-checkpoint", "PATH", "checkpoint of a stream that reads the table; can be repeated")


def _usage(line: CommandLine) -> None:
    logs = {"--requests": "logs of the functions", "--fetches": "S3 server access logs"}
    for option, text in logs.items():
        _option(line, option, "PATH", f"{text}: files, folders, globs", nargs="+", action="extend")
    text = "location of the usage table (default: DELTAIC_USAGE)"
    _option(line, "--to", "S3_URL", text, default=os.environ.get("DELTAIC_USAGE", ""))
    signing = "role that signs URLs; can be repeated (default: SIGNING_ROLE_ARN and the roles of storages)"
    _repeated(line, "--role", "NAME", signing)
    _sharing(line)


def _views(line: CommandLine) -> None:
    which = line.add_mutually_exclusive_group(required=True)
    _option(which, "names", "SHARE.SCHEMA.VIEW", "views to refresh", nargs="*", default=[])
    _flag(which, "--due", "refresh all views that are due (see deltaic view list)")
    _flag(which, "--all", "refresh all views")


def _sharing(line: CommandLine) -> "argparse._ArgumentGroup":
    sharing = line.add_argument_group("how to share")
    _option(sharing, "--table", "SHARE.SCHEMA.TABLE", "share the table under this name (default: do not share it)")
    _flag(sharing, "--create-share", "create the share if it does not exist")
    _option(sharing, "--storage", "NAME", "storage of --to (see deltaic storage)", default="")
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
