"""The command lines of the jobs: the same options through `deltaic`, `python -m deltaic_pipeline.JOB`, spark-submit."""

import argparse
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from deltaic_terminal.nearest import did_you_mean
from deltaic_terminal.printing import as_called, called

from deltaic_pipeline.failures import EXIT_CODES
from deltaic_pipeline.table.limits import limit
from deltaic_pipeline.table.sources import FORMATS
from deltaic_pipeline.table.target import MODES

LONGEST_WAIT_SECONDS = 86_400
"""A day: whoever waits longer for another writer has met one that will not end."""

RUN = """examples:
  deltaic pipeline run patients.yaml --dry-run
  deltaic pipeline run patients.yaml --run-id 2026-11-22 --memory 4g
  deltaic pipeline run patients.yaml --set day=2026-11-22 --set site=north
  deltaic pipeline run s3://bucket/datasets/patients.yaml --json --wait 600

A run that was killed is started again with its --run-id: what it had written is not written twice.
"""

BACKFILL = """examples:
  # a run for each day of January, with --set day=2026-01-01 and the run id patients-2026-01-01, and so on
  deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-01-31
  deltaic pipeline backfill patients.yaml --from 2026-01-01 --to 2026-12-31 --step month --variable day --on emr

What a run with its run id has done is skipped, so the same command goes on after Ctrl-C or a failure; with another
--run-id, which run ids then begin with, all is done again. Steps of append and overwrite_partitions go on behind one
that failed; those of the other modes, of which a later one's rows stand above an earlier one's, do not.
"""

PUBLISH = """examples:
  # CSV files with a header become a table, partitioned by day, and are shared
  deltaic pipeline publish --from data/patients/*.csv --format csv --to s3://bucket/vaccine/patients \\
      --partition-by day --table vaccine_share.acme_vaccine_data.vaccine_patients --create-share

  # the next day's rows are appended; repeated with the same run id, nothing is appended twice
  deltaic pipeline publish --from s3://inbox/2026-11-21/ --format json --mode append --run-id 2026-11-21 \\
      --to s3://bucket/vaccine/patients --table vaccine_share.acme_vaccine_data.vaccine_patients

  # corrections are merged by key; SQL selects and renames; another writer is waited for
  deltaic pipeline publish --from corrections.parquet --format parquet --mode merge --key patient_id \\
      --sql "SELECT id AS patient_id, site, dose FROM source WHERE site IS NOT NULL" --wait 600 \\
      --to s3://bucket/vaccine/patients --table vaccine_share.acme_vaccine_data.vaccine_patients

The first run fetches 19 MB of jars into ~/.cache/deltaic (DELTAIC_CACHE; DEFAULT_ARTIFACT_REPOSITORY names a mirror of
Maven Central).
"""

MAINTAIN = """examples:
  # what would be done, and what is kept for whom
  deltaic pipeline maintain s3://bucket/vaccine/patients --dry-run

  # every day
  deltaic pipeline maintain s3://bucket/vaccine/patients --run-id 2026-11-22 --wait 600

  # rows that are read together lie together; nothing is deleted
  deltaic pipeline maintain s3://bucket/vaccine/patients --zorder-by patient_id --no-vacuum

  # many files: v2 checkpoints from now on, in order by partition and clustering
  deltaic pipeline maintain s3://bucket/vaccine/patients --v2-checkpoints

A file is deleted when no version that somebody may read has it: not the latest one, not one that was the latest within
the window (delta.deletedFileRetentionDuration, and at least as long as page tokens and their URLs live), none of a
history that is shared, none that a stream named by --stream-checkpoint has yet to read. Commits are never deleted.
A run that was killed is started again, and goes on.
"""

USAGE = """examples:
  # the logs that `deltaic serve` keeps
  deltaic usage collect

  # every day, over the logs of the last days; what is there already is not counted twice
  deltaic usage collect --requests 's3://logs/endpoints/2026/11/2*/*' \\
      --fetches 's3://logs/s3/2026-11-2*' --to s3://bucket/usage --run-id 2026-11-22

  # and the table is shared under a name, with those who may see who reads what
  deltaic usage collect --requests ... --fetches ... --to s3://bucket/usage --table audit.usage.accesses

Requests are JSON lines of the functions' log group, exported or delivered by a subscription, gzipped or not; fetches
are S3's server access logs of the data buckets. Logs may come late and overlap: rows are merged by the ids of requests.
A run that was killed is started again with its --run-id.
"""

VIEWS = """examples:
  deltaic view refresh sales.europe.orders_for_partners
  deltaic view refresh --due --json --wait 600

Due are views whose refresh is requested (a recipient came, or its properties changed), that are older than their
maximal staleness, that lack the rows of a recipient, or that have no schedule and were never refreshed.
A run that was killed is started again: rows that are there already are not written again. When one view fails the
others are refreshed all the same, and the exit code is that of the failure.
"""


class CommandLine(argparse.ArgumentParser):
    """A parser that tells the option nearest to one that is misspelt."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        _, unknown, words = message.partition("unrecognized arguments: ")
        near = (
            did_you_mean(words.split(maxsplit=1)[0].partition("=")[0], self._option_string_actions) if unknown else ""
        )
        super().error(message + near)


def parser(job: str) -> CommandLine:
    """Return the command line of a job."""
    words = _JOBS[job]
    line = CommandLine(
        prog=f"{called()} {words.command}",
        description=words.description,
        epilog=as_called(words.examples) + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words.options(line)
    run = line.add_argument_group("how to run")
    run.add_argument(
        "--run-id", default="", metavar="NAME", help="name of this run: repeated with it, nothing is done twice"
    )
    run.add_argument(
        "--wait", type=_seconds, default=0.0, metavar="SECONDS", help="wait for another writer of the table"
    )
    run.add_argument("--catalog", metavar="NAME", help="DynamoDB table of the catalog (default: CATALOG_TABLE)")
    run.add_argument("--memory", default="", metavar="SIZE", help="Spark's heap, such as 4g (default: 1g here)")
    run.add_argument(
        "--show-values", action="store_true", help="show all that Spark said of a refusal, values of rows among it"
    )
    if job != "publish":
        run.add_argument("--json", action="store_true", help="a JSON object a line on stdout instead of text")
    return line


def _run(line: CommandLine) -> None:
    _dataset(line)
    line.add_argument("--dry-run", action="store_true", help="show plan, differences and counts; change nothing")


def _backfill(line: CommandLine) -> None:
    _dataset(line)
    steps = line.add_argument_group("which steps")
    steps.add_argument("--from", dest="first", required=True, metavar="TIME", help="the first value: 2026-01-01")
    steps.add_argument("--to", dest="last", required=True, metavar="TIME", help="the last one, which is run too")
    steps.add_argument(
        "--step", choices=("day", "week", "month"), default="day", help="from one value to the next (default: day)"
    )
    steps.add_argument(
        "--variable", default="", metavar="NAME", help="the one that is stepped through (default: the only date)"
    )


def _dataset(line: CommandLine) -> None:
    line.add_argument("file", metavar="FILE", help="the dataset file: a path or s3://bucket/key")
    line.add_argument(
        "--delete-at-most",
        type=_limit,
        metavar="LIMIT",
        help="so many keys may this run delete for want of a row: 50%% (default: at_most of the dataset)",
    )
    text = "value of a variable; can be repeated"
    _repeated(line, "--set", "NAME=VALUE", text, type=assignment, dest="variables")
    _repeated(line, "--jar", "PATH", "put on the class path, as a database's driver; can be repeated")
    line.add_argument(
        "--runs",
        default=os.environ.get("DELTAIC_RUNS", ""),
        metavar="S3_URL",
        help="table that gets a row for each run (default: DELTAIC_RUNS, or the target's location with _runs)",
    )


def _publish(line: CommandLine) -> None:
    reading = line.add_argument_group("what to read")
    reading.add_argument(
        "--from",
        dest="paths",
        nargs="+",
        required=True,
        metavar="PATH",
        help="files, folders, globs (local or s3://), or one table",
    )
    reading.add_argument(
        "--format", choices=FORMATS, required=True, help="delta: a location; table: a name in Spark's catalog"
    )
    _repeated(reading, "--option", "K=V", "option of Spark's reader, such as sep=;")
    reading.add_argument("--schema", metavar="DDL", help="such as 'id bigint, day date'; else it is found out")
    reading.add_argument("--sql", help="query over the view `source`")
    writing = line.add_argument_group("what to write")
    writing.add_argument("--to", required=True, metavar="S3_URL", help="location of the Delta table")
    writing.add_argument("--mode", choices=MODES, default="overwrite")
    _repeated(writing, "--key", "COLUMN", "column that identifies a row (merge)")
    _repeated(writing, "--partition-by", "COLUMN")
    _repeated(writing, "--property", "K=V", "table property; an existing table gets it after the rows")
    writing.add_argument("--evolve-schema", action="store_true", help="accept new columns (overwrite: any schema)")
    writing.add_argument("--no-change-data-feed", action="store_true", help="do not turn the change data feed on")
    _sharing(line).add_argument("--no-history", action="store_true", help="recipients see the latest version only")


def _maintain(line: CommandLine) -> None:
    line.add_argument("location", metavar="S3_URL", help="location of the Delta table")
    line.add_argument("--dry-run", action="store_true", help="show what would be done and what is kept; change nothing")
    for part, default in (
        ("optimize", "join small files"),
        ("checkpoint", "write one where it is due"),
        ("sort", "put v2 checkpoints in order by partition and clustering"),
        ("vacuum", "delete what nobody needs"),
    ):
        line.add_argument(f"--{part}", action=argparse.BooleanOptionalAction, default=True, help=f"{default} (does)")
    _repeated(line, "--zorder-by", "COLUMN", "not for clustered tables, which say it")
    line.add_argument("--checkpoint-after", type=int, metavar="N", help="commits after the last one (10)")
    line.add_argument(
        "--v2-checkpoints", action="store_true", help="choose them for the table; old readers cannot read it any more"
    )
    line.add_argument("--keep", type=float, metavar="DAYS", help="versions stay readable at least as long")
    line.add_argument(
        "--url-ttl", type=int, metavar="SECONDS", help="life of the server's URLs (default: URL_TTL_SECONDS, or 3600)"
    )
    _repeated(line, "--stream-checkpoint", "PATH", "of a stream that reads the table")


def _usage(line: CommandLine) -> None:
    logs = {"--requests": "the functions' log: files, folders, globs", "--fetches": "S3's access logs: the same"}
    for option, text in logs.items():
        line.add_argument(option, nargs="+", action="extend", metavar="PATH", help=text)
    line.add_argument(
        "--to",
        default=os.environ.get("DELTAIC_USAGE", ""),
        metavar="S3_URL",
        help="location of the usage table (default: DELTAIC_USAGE)",
    )
    signing = "a role whose sessions sign (default: that of SIGNING_ROLE_ARN and those of the catalog's storages)"
    _repeated(line, "--role", "NAME", signing)
    _sharing(line)


def _views(line: CommandLine) -> None:
    which = line.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="SHARE.SCHEMA.VIEW", help="the views")
    which.add_argument("--due", action="store_true", help="all that are due (deltaic view list)")
    which.add_argument("--all", action="store_true", help="all that there are")


def _sharing(line: CommandLine) -> "argparse._ArgumentGroup":
    sharing = line.add_argument_group("how to share")
    sharing.add_argument(
        "--table", metavar="SHARE.SCHEMA.TABLE", help="name for recipients; without it nothing is shared"
    )
    sharing.add_argument("--create-share", action="store_true", help="make the share if there is none")
    sharing.add_argument("--storage", default="", metavar="NAME", help="the catalog's storage that --to lies in")
    return sharing


def _repeated(line: "argparse._ActionsContainer", name: str, value: str, text: str | None = None, **more: Any) -> None:
    line.add_argument(name, action="append", default=[], metavar=value, help=text, **more)


class _Job(NamedTuple):
    command: str
    description: str
    examples: str
    options: Callable[[CommandLine], None]


_JOBS: Mapping[str, _Job] = {
    "run": _Job("pipeline run", "Build a dataset as its file says.", RUN, _run),
    "backfill": _Job("pipeline backfill", "Build a dataset for each step of a time.", BACKFILL, _backfill),
    "publish": _Job("pipeline publish", "Publish files or a table as a shared Delta table.", PUBLISH, _publish),
    "maintain": _Job(
        "pipeline maintain",
        "Keep a table cheap to read: join files, write a checkpoint, delete what nobody needs.",
        MAINTAIN,
        _maintain,
    ),
    "usage": _Job(
        "usage collect",
        "Merge the access logs of the functions and of S3 into a Delta table: who read what.",
        USAGE,
        _usage,
    ),
    "views": _Job(
        "view refresh", "Refresh views: bring their rows to the latest version of what they are made of.", VIEWS, _views
    ),
}


def assignment(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if name and equals:
        return name, value
    raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE, such as day=2026-11-22")


def _limit(text: str) -> str:
    with suppress(ValueError):
        return limit(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no limit, such as 50% or '100 rows'")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds <= LONGEST_WAIT_SECONDS:  # which a number that is none fails as well
            return seconds
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to {LONGEST_WAIT_SECONDS}")
