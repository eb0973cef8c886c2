"""Collect the logs on this machine without Spark, by the same parser and the same SQL as the Spark job."""

# ruff: noqa: S608 -- the SQL has names of columns and tables
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.lease import Lease, acquire, holder_name
from deltaic_pipeline.table.leased_run import finish
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.usage_log.attribution import COMMENTS, COUNTS, READ_OFTEN, views
from deltaic_pipeline.usage_log.collection import FACTS, CatalogFacts, UsageJob, UsageSummary, earliest_day
from deltaic_pipeline.usage_log.log_lines import (
    COLUMNS,
    FETCH_COLUMNS,
    LINE_COLUMNS,
    REQUEST_COLUMNS,
    arrow_schema,
    fetch_rows,
    record_batch,
    request_rows,
)
from deltaic_pipeline.usage_log.log_objects import read_lines
from deltaic_pipeline.usage_log.log_rows import COUNTS as LINE_COUNTS
from deltaic_pipeline.usage_log.log_rows import LineCounts, Parse

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

MEMORY: Final = "2GB"
"""Memory of a query; what needs more uses the disk."""


def collect_locally(job: UsageJob, catalog: JobCatalog, facts: CatalogFacts, progress: Progress) -> UsageSummary:
    """Merge the logs into the usage table, and then create its catalog entry, as `collect` does with Spark.

    Changed rows are updated in a commit before that of new rows. Safe to repeat after any failure, and with logs that
    were read before. Raises the same errors as `collect`.
    """
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    began, holder, ttl = time.monotonic(), holder_name(job.run_id), catalog.lease_life
    schema: Any = usage_schema()
    with ExitStack() as stack:
        with step(progress, f"Acquiring the writer lease of {job.target}") as report:
            acquiring = acquire(catalog.leases, job.target, holder, wait=job.wait, ttl=ttl, waiting=report)
            lease = stack.enter_context(acquiring)
        try:
            table = DeltaTable.create(
                job.target,
                schema,
                mode="ignore",
                partition_by=list(job.table.partition_by),
                description=job.table.comment,
                configuration=job.table.required_properties,
                storage_options=S3Access.from_environment().deltalake(),
            )
            if table.transaction_version(Transaction.of_run(job.run_id).application) is not None:
                summary = UsageSummary(job.run_id, job.target, table.version(), repeated=True)
            else:
                summary = _merge(table, job, facts, lease, progress)
        except (DeltaError, OSError, duckdb.Error, pa.ArrowException) as failure:
            lease.require()
            raise PipelineError(f"{job.target} cannot be written: {failure}") from failure
        finish(None, job.table, job.entry, catalog, summary.version, progress)
    return replace(summary, engine="local", seconds=time.monotonic() - began)


def usage_schema() -> "pa.Schema":
    """Return the Arrow schema of the usage table, with comments."""
    import pyarrow as pa

    comments = {name: {"comment": text} for name, text in COMMENTS.items()}
    fields = arrow_schema(COLUMNS)
    return pa.schema([pa.field(field.name, field.type, metadata=comments.get(field.name)) for field in fields])


def _merge(table: "DeltaTable", job: UsageJob, facts: CatalogFacts, lease: Lease, progress: Progress) -> UsageSummary:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc

    with TemporaryDirectory(prefix="deltaic-usage-") as folder, duckdb.connect(f"{folder}/usage") as engine:
        engine.execute(f"SET memory_limit = '{MEMORY}'; SET TimeZone = 'UTC'")
        with step(progress, "Reading the logs") as report:
            requests = _parse(engine, "request_lines", job.requests, request_rows, REQUEST_COLUMNS, report)
            fetches = _parse(engine, "fetch_lines", job.fetches, fetch_rows, FETCH_COLUMNS, report)
        with step(progress, "Attributing downloads to requests") as report:
            since = earliest_day(requests, fetches)
            is_recent = pc.field("day") >= pa.scalar(date.fromisoformat(since), pa.date32())
            engine.register("usage", table.to_pyarrow_dataset().scanner(filter=is_recent).to_reader())
            for name, columns in FACTS.items():
                schema = arrow_schema(dict.fromkeys(columns, "STRING"))
                engine.register(name, record_batch(getattr(facts, name), schema))
            for name, sql in views(job.roles, since).items():
                kind = "TABLE" if name in {"stored", *READ_OFTEN} else "VIEW"  # `usage` can be read once
                engine.execute(f"CREATE {kind} {name} AS {_translate(sql)}")
            counts = _read_row(engine, f"SELECT {', '.join(COUNTS)} FROM usage_rows")
            report(f"{counts['requests']:,} requests, {counts['fetches']:,} fetches")
        with step(progress, f"Merging into {job.target}") as report:
            metrics = _commit(table, engine, Transaction.of_run(job.run_id), lease)
            report(f"version {table.version()}")
    summary = UsageSummary(job.run_id, job.target, table.version(), repeated=False, metrics=metrics, **counts)
    return replace(summary, request_lines=requests, fetch_lines=fetches)


def _commit(
    table: "DeltaTable", engine: "DuckDBPyConnection", transaction: Transaction, lease: Lease
) -> dict[str, int]:
    """Update changed rows and append new ones, and return their numbers; the last commit records the run."""
    from deltalake import CommitProperties, write_deltalake
    from deltalake import Transaction as Mark

    engine.execute("""
        CREATE TABLE changes AS SELECT r.*, s.id IS NULL AS is_new FROM usage_rows AS r
        LEFT JOIN stored AS s ON r.day = s.day AND r.id = s.id WHERE r IS DISTINCT FROM s""")
    numbers = "count(*) FILTER (is_new) AS new, count(*) FILTER (NOT is_new) AS changed"
    new, changed = _read_row(engine, f"SELECT {numbers} FROM changes").values()
    mark = CommitProperties(
        custom_metadata={"userMetadata": transaction.user_metadata},
        app_transactions=[Mark(transaction.application, transaction.version)],
    )

    def rows(condition: str) -> "pa.RecordBatchReader":
        result = engine.sql(f"SELECT * EXCLUDE (is_new) FROM changes WHERE {condition}")
        return result.to_arrow_reader().cast(usage_schema())

    lease.confirm()
    if changed:
        table.merge(
            rows("NOT is_new"),
            "old.day = new.day AND old.id = new.id",
            source_alias="new",
            target_alias="old",
            streamed_exec=False,
            commit_properties=None if new else mark,
        ).when_matched_update_all().execute()
    if new:
        write_deltalake(table, rows("is_new"), mode="append", commit_properties=mark)
    lease.confirm()
    return {"numTargetRowsInserted": new, "numTargetRowsUpdated": changed}


def _translate(sql: str) -> str:
    """Return SQL for DuckDB that is written for Spark."""
    words = {"`": '"', "startswith(": "starts_with(", "explode(": "unnest(", "ARRAY<STRING>": "STRING[]"}
    for word, replacement in words.items():
        sql = sql.replace(word, replacement)
    return sql


def _read_row(engine: "DuckDBPyConnection", sql: str) -> dict[str, Any]:
    """Run a query with one row."""
    result = engine.sql(sql)
    return dict(zip(result.columns, result.fetchall()[0], strict=True))


def _parse(  # noqa: PLR0913, PLR0917 -- a log, and how to read it
    engine: "DuckDBPyConnection",
    name: str,
    paths: Sequence[str],
    parse: Parse,
    columns: Mapping[str, str],
    report: Callable[[str], None],
) -> LineCounts:
    """Write the parsed lines of a log into a table, and count them."""
    import pyarrow as pa

    schema = arrow_schema({**LINE_COLUMNS, **columns})

    def batches() -> "Iterator[pa.RecordBatch]":
        total = 0
        for file, lines in read_lines(paths):
            total += len(lines)
            report(f"{total:,} lines")
            yield record_batch([row for line in lines for row in parse(line.rstrip("\r\n"), file)], schema)

    engine.register("lines", pa.RecordBatchReader.from_batches(schema, batches()))
    engine.execute(f"CREATE TABLE {name} AS SELECT * FROM lines")
    return LineCounts(**_read_row(engine, f"SELECT {', '.join(LINE_COUNTS)} FROM {name}"))
