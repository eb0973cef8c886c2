"""The job that keeps the usage table: who asked for what, and what was fetched, from both access logs by merge."""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import NotFound
from deltaic.settings import settings
from deltaic.storage.sessions import session_name

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.command import Tell, conduct, going_on
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.spark.progress import Progress, step, tasks_shown
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.table.catalog_entry import Catalog, Entry, TableName, connect
from deltaic_pipeline.table.lease import TIME_TO_LIVE
from deltaic_pipeline.table.leased_run import Attempt, finish, leased_run
from deltaic_pipeline.table.locations import Places
from deltaic_pipeline.table.sources import catalog_location, spark_path
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.writing import Transaction, committed, exists, write
from deltaic_pipeline.usage_log.access_logs import Lines, fetches, lines_of, requests, understood
from deltaic_pipeline.usage_log.attribution import COLUMNS, of_recipients, transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIER_DAYS = 2
"""How far before the oldest line that is read the table is asked for requests: URLs live for an hour at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """One collection."""

    requests: Sequence[str]
    """Files, folders or globs of the functions' log."""

    fetches: Sequence[str]
    """The same of S3's access log."""

    target: str
    run_id: str
    name: TableName | None = None
    roles: Sequence[str] = ()
    """Names of the roles whose sessions sign; those of known recipients are recognised without."""

    storage: str = ""
    create_share: bool = False
    wait: timedelta = timedelta(0)

    @property
    def table(self) -> Target:
        """The usage table as the writer knows it."""
        return Target(
            location=self.target,
            mode="merge",
            keys=("day", "id"),
            partition_by=("day",),
            comment="Who asked for what, and what was fetched: a row for each request and each fetch",
        )

    @property
    def entry(self) -> Entry | None:
        """The table's entry in the catalog; None: it is not shared."""
        if self.name is None:
            return None
        return Entry(self.name, self.target, storage=self.storage, create_share=self.create_share)


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog knows."""

    recipients: Sequence[tuple[str, str, str]]
    """Session, id and name."""

    tables: Sequence[tuple[str, str, str, str, str]]
    """Location, share, schema, table and id."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    run_id: str
    location: str
    version: int
    repeated: bool
    request_lines: Lines | None = None
    fetch_lines: Lines | None = None
    requests: int = 0
    """Rows of requests."""

    fetches: int = 0
    """Rows of recipients' fetches."""

    explained: int = 0
    """Those of which the one request is known."""

    unexplained: int = 0
    """Those that no request explains."""

    bytes_sent: int = 0
    recipients: int = 0
    metrics: dict[str, int] | None = None
    seconds: float = 0.0


def known(admin: CatalogAdmin) -> Known:
    """Read the catalog: a request or two for each share."""
    recipients = [(session_name(each.id), each.id, each.name) for each in admin.recipients.list()]
    tables = []
    for share in admin.shares.list():
        for each in admin.tables.list(share.name):
            places = {catalog_location(place) for place in (each.location, *each.auxiliary_locations)}
            tables += [(place, each.share, each.schema_name, each.name, each.id) for place in places]
    return Known(recipients, tables)


def collect(  # noqa: PLR0913, PLR0917 -- as `publish`, and what the catalog knows
    spark: "SparkSession", job: Job, catalog: Catalog, facts: Known, progress: Progress, ttl: timedelta = TIME_TO_LIVE
) -> Summary:
    """Merge what the logs say into the usage table, as one version of it, and register it as the last step.

    Safe to repeat at any point, and with logs that were read before. Raises `Conflict` when another writer holds the
    table, `LeaseLost` when the lease was lost on the way, `PipelineError` for logs that cannot be read.
    """
    began, entry = time.monotonic(), job.entry
    if entry is not None:
        catalog.register.check(entry)
    with leased_run(spark, catalog, [job.target], job.run_id, progress, wait=job.wait, ttl=ttl) as attempt:
        with attempt.refusals():
            before = committed(attempt.spark, job.table, Transaction.of_run(job.run_id))
        summary = (
            _merge(attempt, job, facts, progress)
            if before is None
            else Summary(job.run_id, job.target, before.version, repeated=True)
        )
        finish(attempt, job.table, entry, catalog, summary.version, progress)
    return replace(summary, seconds=time.monotonic() - began)


def _merge(attempt: Attempt, job: Job, facts: Known, progress: Progress) -> Summary:
    spark = attempt.spark
    with ExitStack() as stack, attempt.refusals():
        with step(progress, "Reading the logs") as tell, tasks_shown(spark, attempt.group, tell):
            request_lines, asked = _read(stack, requests(spark, job.requests))
            fetch_lines, fetched = _read(stack, fetches(spark, job.fetches))
        since = min((lines.first for lines in (request_lines, fetch_lines) if lines.first), default="")
        with step(progress, "Leading fetches back to requests") as tell:
            with tasks_shown(spark, attempt.group, tell):
                rows = _kept(stack, _rows(stack, spark, job, facts, (asked, fetched), since))
                counted: Any = rows.selectExpr(
                    "count_if(kind = 'request') AS requests",
                    "count_if(kind = 'fetch') AS fetches",
                    "count_if(kind = 'fetch' AND request_id IS NOT NULL) AS explained",
                    "count_if(kind = 'fetch' AND explained_by = 0) AS unexplained",
                    "coalesce(sum(bytes_sent), 0) AS bytes_sent",
                    "count(DISTINCT recipient_id) AS recipients",
                ).first()
            tell(f"{counted['requests']:,} requests, {counted['fetches']:,} fetches")
        with step(progress, f"Merging into {job.target}") as tell:
            with tasks_shown(spark, attempt.group, tell):
                written = write(spark, rows, job.table, job.run_id)
            attempt.confirm()
            tell(f"version {written.version}")
    metrics = {name: int(value) for name, value in written.metrics.items() if value.isdigit()}
    return Summary(
        job.run_id,
        job.target,
        written.version,
        written.repeated,
        request_lines,
        fetch_lines,
        metrics=metrics,
        **counted.asDict(),
    )


def _read(stack: ExitStack, rows: "DataFrame") -> tuple[Lines, "DataFrame"]:
    """Read a log once, onto the disk; return what its lines are, and the rows of those that could be read."""
    kept = _kept(stack, rows)
    return lines_of(kept), understood(kept)


def _kept(stack: ExitStack, rows: "DataFrame") -> "DataFrame":
    """Have rows that are used several times kept on the disk, until the stack ends."""
    from pyspark import StorageLevel

    kept = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(kept.unpersist)
    return kept


def _rows(  # noqa: PLR0913, PLR0917 -- the parts of one join
    stack: ExitStack,
    spark: "SparkSession",
    job: Job,
    facts: Known,
    logs: tuple["DataFrame", "DataFrame"],
    since: str,
) -> "DataFrame":
    """Return the rows to merge: those of the logs, and the table's fetches that a request may explain now."""
    from pyspark.sql import functions

    asked, fetched = logs
    recipients = spark.createDataFrame(list(facts.recipients), "session STRING, recipient_id STRING, recipient STRING")
    tables = spark.createDataFrame(
        list(facts.tables), "location STRING, share STRING, schema STRING, table STRING, table_id STRING"
    )
    earlier, everything = None, asked
    if since and exists(spark, job.table):
        table = spark.read.format("delta").load(spark_path(job.target))
        earlier = table.where(functions.expr(f"day >= DATE'{since}' - {EARLIER_DAYS}")).select(*COLUMNS)
        stored = earlier.where("kind = 'request'").join(asked.select("id"), "id", "left_anti")
        everything = asked.unionByName(stored.select(*asked.columns))
    named = everything.where("session IS NOT NULL").select(*recipients.columns).unionByName(recipients)
    sessions = named.groupBy("session").agg(
        functions.max("recipient_id").alias("recipient_id"), functions.max("recipient").alias("recipient")
    )
    found = of_recipients(fetched, sessions, list(job.roles))
    if earlier is not None:
        open_ones = earlier.where("kind = 'fetch' AND request_id IS NULL").join(found.select("id"), "id", "left_anti")
        found = found.unionByName(open_ones.select(*found.columns))
    return transform(asked, _kept(stack, everything), _kept(stack, found), tables)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    line = parser("usage")
    given = line.parse_args(arguments)
    if not (given.requests and given.fetches and given.to):
        line.error("--requests, --fetches and --to say where the logs are and where the table is")
    run_id = given.run_id or uuid.uuid4().hex
    return conduct(
        lambda progress, tell: _run(given, run_id, progress, tell),
        as_json=given.json,
        show_values=given.show_values,
        stopped=going_on(run_id),
    )


def _run(given: argparse.Namespace, run_id: str, progress: Progress, tell: Tell) -> None:
    names, dynamo = (given.catalog or settings().catalog_table, settings().tokens_table), Dynamo()
    admin = CatalogAdmin(*names, dynamo)
    with step(progress, "Reading the catalog") as said:
        facts = known(admin)
        said(f"{len(facts.recipients):,} recipients, {len(facts.tables):,} locations")
    signing = [settings().signing_role_arn, *(each.role_arn for each in admin.storages.list())]
    job = Job(
        requests=tuple(given.requests),
        fetches=tuple(given.fetches),
        target=_location(given.to),
        run_id=run_id,
        name=TableName.parse(given.table) if given.table else None,
        roles=tuple(given.role or (arn.rpartition("/")[2] for arn in signing if arn)),
        storage=given.storage,
        create_share=given.create_share,
        wait=timedelta(seconds=given.wait),
    )
    catalog = connect(*names, dynamo)
    _refuse_what_is_known(job, catalog, named_run=bool(given.run_id))
    with step(progress, "Starting Spark") as said:
        spark = session("deltaic usage", S3Access.from_environment(), memory=given.memory, report=said)
    summary = collect(spark, job, catalog, facts, progress)
    tell(list(_table(summary)), {"event": "done", **asdict(summary)})


def _refuse_what_is_known(job: Job, catalog: Catalog, *, named_run: bool) -> None:
    """Say before Spark starts what is not there, and who writes the table; a run with a name may be a repetition."""
    places = Places()
    told = [places.absent_bucket(job.target)]
    if not (named_run and places.absent_table(job.target) is None):
        told += map(places.absent_source, [*job.requests, *job.fetches])
    if missing := [message for message in told if message]:
        raise NotFound("; ".join(missing))
    if job.entry is not None:
        catalog.register.check(job.entry)
    catalog.require_free(job.target, job.wait)


def _location(given: str) -> str:
    location = catalog_location(given)
    if not location.startswith("s3://"):
        raise PipelineError(f"--to {given} is not a location in S3: write s3://bucket/folder.")
    return location


def _table(summary: Summary) -> Iterator[str]:
    """Return the summary for people."""
    yield f"run          {summary.run_id}"
    yield f"table        {summary.location}"
    yield f"version      {summary.version}{' (repeated)' if summary.repeated else ''}"
    for name, lines in (("requests", summary.request_lines), ("fetches", summary.fetch_lines)):
        if lines is not None:
            yield f"{f'log of {name}':<12} {lines.understood:,} lines, {lines.others:,} of something else"
            if lines.malformed:
                yield f"             {lines.malformed:,} lines could not be read, as in {lines.malformed_in}"
    if not summary.repeated:
        yield f"requests     {summary.requests:,} of {summary.recipients:,} recipients"
        explained = f"{summary.explained:,} led back to one request, {summary.unexplained:,} to none"
        yield f"fetches      {summary.fetches:,}, {summary.bytes_sent:,} bytes; {explained}"
    yield f"time         {summary.seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
