"""The arguments of a publication, and the command line that gives them."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from deltaic_pipeline.command import show_values_option
from deltaic_pipeline.datasets.ddl import WrongDdl, columns_of
from deltaic_pipeline.datasets.options import refused_options, unknown_options, unknown_properties
from deltaic_pipeline.failures import EXIT_CODES, PipelineError
from deltaic_pipeline.spark.printing import as_called, called
from deltaic_pipeline.table.catalog_entry import TableName
from deltaic_pipeline.table.sources import FORMATS, Source
from deltaic_pipeline.table.target import MODES, Target

LONGEST_WAIT_SECONDS = 86_400
"""A day: whoever waits longer for another writer has met one that will not end."""

VIEW = "source"
"""The name under which SQL sees what was read."""


@dataclass(frozen=True, slots=True)
class Job:
    """One publication."""

    source: Source
    target: Target
    sql: str | None = None
    """A query over the view `source`; None: the rows as they are."""

    name: TableName | None = None
    """Where it is shared; None: it is written and not registered."""

    history: bool = True
    """Recipients may read earlier versions and the change feed."""

    create_share: bool = False
    """Make the share if there is none."""

    storage: str = ""
    """The catalog's name of the store that `target.location` lies in; empty: AWS S3."""

    run_id: str = ""
    """Names this run: repeated with the same one, a job that had committed commits nothing. Empty: a new one."""

    wait: timedelta = timedelta(0)
    """How long to wait for another writer of the same table."""


EXAMPLES = """examples:
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

AWS is found as by every command of deltaic; `python -m deltaic_pipeline.publish`, which takes the same arguments, finds
it by AWS's own variables alone. The first run fetches 19 MB of jars into ~/.cache/deltaic (DELTAIC_CACHE;
DEFAULT_ARTIFACT_REPOSITORY names a mirror of Maven Central).
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line of the job."""
    line = argparse.ArgumentParser(
        prog=f"{called()} pipeline publish",
        description="Publish files or a table as a shared Delta table.",
        epilog=as_called(EXAMPLES) + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    reading.add_argument(
        "--option", action="append", default=[], metavar="K=V", help="option of Spark's reader, such as sep=;"
    )
    reading.add_argument("--schema", metavar="DDL", help="such as 'id bigint, day date'; else it is found out")
    reading.add_argument("--sql", help=f"query over the view `{VIEW}`")
    writing = line.add_argument_group("what to write")
    writing.add_argument("--to", required=True, metavar="S3_URL", help="location of the Delta table")
    writing.add_argument("--mode", choices=MODES, default="overwrite")
    writing.add_argument(
        "--key", action="append", default=[], metavar="COLUMN", help="column that identifies a row (merge)"
    )
    writing.add_argument("--partition-by", action="append", default=[], metavar="COLUMN")
    writing.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="K=V",
        help="table property; an existing table gets it after the rows",
    )
    writing.add_argument("--evolve-schema", action="store_true", help="accept new columns (overwrite: any schema)")
    writing.add_argument("--no-change-data-feed", action="store_true", help="do not turn the change data feed on")
    writing.add_argument("--run-id", default="", help="name of this run: a repetition makes no second version")
    writing.add_argument("--memory", default="", metavar="SIZE", help="Spark's heap on this machine, such as 4g (1g)")
    writing.add_argument(
        "--wait", type=_seconds, default=0.0, metavar="SECONDS", help="wait for another writer of the table"
    )
    sharing = line.add_argument_group("how to share")
    sharing.add_argument(
        "--table", metavar="SHARE.SCHEMA.TABLE", help="name for recipients; without it nothing is shared"
    )
    sharing.add_argument("--create-share", action="store_true", help="make the share if there is none")
    sharing.add_argument("--storage", default="", metavar="NAME", help="the catalog's storage that --to lies in")
    sharing.add_argument("--no-history", action="store_true", help="recipients see the latest version only")
    sharing.add_argument("--catalog", metavar="NAME", help="DynamoDB table of the catalog (default: CATALOG_TABLE)")
    show_values_option(line)
    return line


def job_of(arguments: argparse.Namespace) -> Job:
    """Return the job that a command line describes; raises `DeltaicError` when its values contradict each other."""
    target = Target(
        location=arguments.to,
        mode=arguments.mode,
        partition_by=tuple(arguments.partition_by),
        keys=tuple(arguments.key),
        change_data_feed=not arguments.no_change_data_feed,
        properties=_pairs(arguments.property),
        evolve_schema=arguments.evolve_schema,
    )
    target.check()
    source = Source(arguments.format, tuple(arguments.paths), _pairs(arguments.option), arguments.schema)
    _check_known(source, target)
    return Job(
        source=source,
        target=target,
        sql=arguments.sql,
        name=TableName.parse(arguments.table) if arguments.table else None,
        history=not arguments.no_history,
        create_share=arguments.create_share,
        storage=arguments.storage,
        run_id=arguments.run_id,
        wait=timedelta(seconds=arguments.wait),
    )


def _check_known(source: Source, target: Target) -> None:
    """Refuse what is known to be wrong without Spark."""
    refused = refused_options(source.options) if source.format in {"csv", "json"} else ()
    for name, message in [*unknown_options(source.format, source.options), *refused]:
        raise PipelineError(f"--option {name} {message}.")
    for name, message in unknown_properties(target.properties):
        raise PipelineError(f"--property {name} {message}.")
    if source.schema:
        try:
            columns_of(source.schema)
        except WrongDdl as wrong:
            raise PipelineError(f"--schema {wrong.message}.") from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:  # which a number that is none fails as well
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to {LONGEST_WAIT_SECONDS}")
    return seconds


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in given)
    if "" in pairs or any("=" not in pair for pair in given):
        raise PipelineError("options and properties are written NAME=VALUE.")
    return pairs
