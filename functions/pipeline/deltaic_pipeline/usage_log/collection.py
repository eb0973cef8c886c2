"""The collection of a usage table: who asked for what, and what was fetched, merged from both access logs."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.storage.sessions import session_name
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.catalog_entry import Catalog, Entry
from deltaic_pipeline.table.leased_run import Attempt, finish, leased_run
from deltaic_pipeline.table.sources import catalog_location, spark_path
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, committed, exists
from deltaic_pipeline.table.writing import write
from deltaic_pipeline.usage_log.attribution import COLUMNS, of_recipients, transform
from deltaic_pipeline.usage_log.log_rows import Lines, fetches, lines_of, requests, understood

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIER_DAYS = 2
"""How far before the oldest line that is read the table is asked for requests: URLs live for an hour at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """One collection."""

    requests: Sequence[str]
    fetches: Sequence[str]
    target: str
    run_id: str
    entry: Entry | None = None
    """The table's entry in the catalog; None: it is not shared."""

    roles: Sequence[str] = ()
    """Names of the roles whose sessions sign; those of known recipients are recognised without."""

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


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """The recipients and the tables of the catalog."""

    recipients: Sequence[tuple[str, str, str]]
    tables: Sequence[tuple[str, str, str, str, str]]


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
    fetches: int = 0
    explained: int = 0
    unexplained: int = 0
    bytes_sent: int = 0
    recipients: int = 0
    metrics: dict[str, int] | None = None
    seconds: float = 0.0


def catalog_facts(admin: CatalogAdmin) -> CatalogFacts:
    """Read the catalog: some requests for each share, and one for each model."""
    recipients = [(session_name(each.id), each.id, each.name) for each in admin.recipients.list()]
    tables = []
    for share in admin.shares.list():
        for each in admin.tables.list(share.name):
            places = {catalog_location(place) for place in (each.location, *each.auxiliary_locations)}
            tables += [(place, each.share, each.schema_name, each.name, each.id) for place in places]
        tables += [
            (catalog_location(each.location), each.share, each.schema_name, each.name_in_schema, each.id)
            for each in admin.folders(share.name)
        ]
    return CatalogFacts(recipients, tables)


def collect(spark: "SparkSession", job: Job, catalog: Catalog, facts: CatalogFacts, progress: Progress) -> Summary:
    """Merge what the logs say into the usage table, as one version of it, and register it as the last step.

    Safe to repeat at any point, and with logs that were read before. Raises `Conflict` when another writer holds the
    table, `LeaseLost` when the lease was lost on the way, `PipelineError` for logs that cannot be read.
    """
    began, entry = time.monotonic(), job.entry
    if entry is not None:
        catalog.check(entry)
    with leased_run(spark, catalog, [job.target], job.run_id, progress, wait=job.wait) as attempt:
        with attempt.refusals():
            before = committed(attempt.spark, job.table, Transaction.of_run(job.run_id))
        summary = (
            _merge(attempt, job, facts, progress)
            if before is None
            else Summary(job.run_id, job.target, before.version, repeated=True)
        )
        finish(attempt, job.table, entry, catalog, summary.version, progress)
    return replace(summary, seconds=time.monotonic() - began)


def _merge(attempt: Attempt, job: Job, facts: CatalogFacts, progress: Progress) -> Summary:
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
    kept = _kept(stack, rows)
    return lines_of(kept), understood(kept)


def _kept(stack: ExitStack, rows: "DataFrame") -> "DataFrame":
    from pyspark import StorageLevel

    kept = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(kept.unpersist)
    return kept


def _rows(  # noqa: PLR0913, PLR0917 -- the parts of one join
    stack: ExitStack,
    spark: "SparkSession",
    job: Job,
    facts: CatalogFacts,
    logs: tuple["DataFrame", "DataFrame"],
    since: str,
) -> "DataFrame":
    from pyspark.sql import functions

    requests, fetched = logs
    recipients = spark.createDataFrame(list(facts.recipients), "session STRING, recipient_id STRING, recipient STRING")
    tables = spark.createDataFrame(
        list(facts.tables), "location STRING, share STRING, schema STRING, table STRING, table_id STRING"
    )
    earlier, everything = None, requests
    if since and exists(spark, job.table):
        table = spark.read.format("delta").load(spark_path(job.target))
        earlier = table.where(functions.expr(f"day >= DATE'{since}' - {EARLIER_DAYS}")).select(*COLUMNS)
        stored = earlier.where("kind = 'request'").join(requests.select("id"), "id", "left_anti")
        everything = requests.unionByName(stored.select(*requests.columns))
    named = everything.where("session IS NOT NULL").select(*recipients.columns).unionByName(recipients)
    sessions = named.groupBy("session").agg(
        functions.max("recipient_id").alias("recipient_id"), functions.max("recipient").alias("recipient")
    )
    found = of_recipients(fetched, sessions, list(job.roles))
    if earlier is not None:
        open_ones = earlier.where("kind = 'fetch' AND request_id IS NULL").join(found.select("id"), "id", "left_anti")
        found = found.unionByName(open_ones.select(*found.columns))
    return transform(requests, _kept(stack, everything), _kept(stack, found), tables)
