"""Collect the logs on this machine without Spark, by the same parser and the same SQL as the Spark job.

The parsed lines are in temporary Delta tables. The SQL reads them in windows of some hundred thousand rows, so that
memory is limited for any number of lines.
"""

# ruff: noqa: S608 -- the SQL has names of columns, and literals of times
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from deltaic.errors import DeltaicError
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.failures import PipelineError, Unfinished
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.lease import Lease, acquire, holder_name
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.usage_log.attribution import COLUMNS, COMMENTS, COUNTS, views
from deltaic_pipeline.usage_log.collection import FACTS, CatalogFacts, UsageJob, UsageSummary, earliest_day
from deltaic_pipeline.usage_log.log_lines import (
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

WINDOW_ROWS = 500_000
_TABLES: Final = ("sessions", "signing")
"""Views that all windows read, which are computed once."""


def collect_locally(job: UsageJob, catalog: JobCatalog, facts: CatalogFacts, progress: Progress) -> UsageSummary:
    """Merge the logs into the usage table, and then create its catalog entry, as `collect` does with Spark.

    Rows that differ from the table's are updated in a commit of their own, before new rows are appended. Safe to repeat
    after any failure, and with logs that were read before. Raises the same errors as `collect`.
    """
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    began, entry, transaction = time.monotonic(), job.entry, Transaction.of_run(job.run_id)
    if entry is not None:
        catalog.check(entry)
    with ExitStack() as stack:
        with step(progress, f"Acquiring the writer lease of {job.target}") as report:
            holder, ttl = holder_name(job.run_id), catalog.lease_life
            acquiring = acquire(catalog.leases, job.target, holder, wait=job.wait, ttl=ttl, waiting=report)
            lease = stack.enter_context(acquiring)
        try:
            options = S3Access.from_environment().deltalake()
            table = (
                DeltaTable(job.target, storage_options=options)
                if DeltaTable.is_deltatable(job.target, options)
                else None
            )
            if table is not None and table.transaction_version(transaction.application) is not None:
                summary = UsageSummary(job.run_id, job.target, table.version(), repeated=True)
            else:
                summary = _merge(_Target(job, table, options, lease, transaction), facts, progress)
        except (DeltaError, OSError, pa.ArrowException) as failure:
            lease.require()
            raise PipelineError(f"{job.target} cannot be written: {failure}") from failure
        if entry is not None:
            with step(progress, f"Registering {entry.name}") as report:
                try:
                    created = catalog.register(entry)
                except DeltaicError as failure:
                    missing = f"the catalog entry {entry.name} ({failure.message.rstrip('.')})"
                    raise Unfinished(summary.version, [missing]) from failure
                report(f"created {', '.join(created)}" if created else "")
    return replace(summary, engine="local", seconds=time.monotonic() - began)


class _Target(NamedTuple):
    """The usage table, and what its commits need."""

    job: UsageJob
    table: "DeltaTable | None"
    options: Mapping[str, str]
    lease: Lease
    transaction: Transaction

    def commit(self, engine: "_Engine", states: Mapping[str, int]) -> "DeltaTable":
        """Update changed rows and append new ones; the last commit records the run."""
        from deltalake import CommitProperties, DeltaTable, write_deltalake
        from deltalake import Transaction as Mark

        job, table, options = self.job, self.table, dict(self.options)
        mark = CommitProperties(
            custom_metadata={"userMetadata": self.transaction.user_metadata},
            app_transactions=[Mark(self.transaction.application, self.transaction.version)],
        )
        columns = ", ".join(f"`{name}`" for name in COLUMNS)
        rows = f"SELECT {columns} FROM rows WHERE state"
        if table is not None and states.get("changed"):
            self.lease.confirm()
            table.merge(
                engine.read(f"{rows} = 'changed'", usage_schema()),
                "old.day = new.day AND old.id = new.id",
                source_alias="new",
                target_alias="old",
                streamed_exec=False,
                commit_properties=None if states.get("new") else mark,
            ).when_matched_update_all().execute()
        if states.get("new") or table is None:
            self.lease.confirm()
            new = table is None
            write_deltalake(
                job.target if table is None else table,
                engine.read(f"{rows} = 'new'", usage_schema()),
                mode="append",
                partition_by=list(job.table.partition_by),
                description=job.table.comment if new else None,
                configuration=job.table.required_properties if new else None,
                storage_options=options,
                commit_properties=mark,
            )
        self.lease.confirm()
        return DeltaTable(job.target, storage_options=options)


class _Engine:
    """DataFusion, with temporary Delta tables in a folder."""

    def __init__(self, folder: Path) -> None:
        from deltalake import QueryBuilder

        self._folder = folder
        self._tables: dict[str, DeltaTable] = {}
        self._builder = QueryBuilder()

    def register(self, name: str, table: "DeltaTable") -> None:
        """Make a table available to queries."""
        self._tables[name] = table
        self._builder.register(name, table)

    def append(self, name: str, rows: "pa.RecordBatchReader", partition_by: Sequence[str] = ()) -> "DeltaTable":
        """Append rows to a temporary table, which the first call creates."""
        from deltalake import DeltaTable, write_deltalake

        location = str(self._folder / name)
        write_deltalake(location, rows, partition_by=list(partition_by), mode="append")
        return DeltaTable(location)

    def write(self, name: str, rows: "pa.RecordBatchReader") -> None:
        """Write rows into a temporary table and make it available to queries."""
        self.register(name, self.append(name, rows))

    def with_tables(self) -> "_Engine":
        """Return an engine with the same tables and no views."""
        engine = _Engine(self._folder)
        for name, table in self._tables.items():
            engine.register(name, table)
        return engine

    def read(self, sql: str, schema: "pa.Schema | None" = None) -> "pa.RecordBatchReader":
        """Return the rows of a query that is written for Spark, with a schema."""
        import pyarrow as pa

        sql = sql.replace("`", '"').replace("startswith(", "starts_with(").replace("explode(", "unnest(")
        reader = pa.RecordBatchReader.from_stream(self._builder.execute(sql))
        return reader if schema is None else reader.cast(schema)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return all rows of a query."""
        rows: list[dict[str, Any]] = self.read(sql).read_all().to_pylist()
        return rows


def usage_schema() -> "pa.Schema":
    """Return the Arrow schema of the usage table, with comments."""
    import pyarrow as pa

    comments = {name: {"comment": text} for name, text in COMMENTS.items()}
    fields = arrow_schema(COLUMNS)
    return pa.schema([pa.field(field.name, field.type, metadata=comments.get(field.name)) for field in fields])


def _merge(target: _Target, facts: CatalogFacts, progress: Progress) -> UsageSummary:
    import pyarrow as pa

    job = target.job
    with tempfile.TemporaryDirectory(prefix="deltaic-usage-") as folder:
        engine = _Engine(Path(folder))
        with step(progress, "Reading the logs") as report:
            requests = _parse(engine, "request_lines", job.requests, request_rows, REQUEST_COLUMNS, report)
            fetches = _parse(engine, "fetch_lines", job.fetches, fetch_rows, FETCH_COLUMNS, report)
        for name, columns in FACTS.items():
            schema = arrow_schema(dict.fromkeys(columns, "STRING"))
            engine.write(name, pa.RecordBatchReader.from_batches(schema, [record_batch(getattr(facts, name), schema)]))
        if target.table is None:
            engine.write("usage", pa.RecordBatchReader.from_batches(usage_schema(), []))
        else:
            engine.register("usage", target.table)
        with step(progress, "Attributing downloads to requests") as report:
            since = earliest_day(requests, fetches)
            _attribute(engine, job.roles, since, report)
            [counts] = engine.rows(f"SELECT {', '.join(COUNTS)} FROM rows")
            report(f"{counts['requests']:,} requests, {counts['fetches']:,} fetches")
        states = {
            row["state"]: row["rows"] for row in engine.rows("SELECT state, count(*) AS rows FROM rows GROUP BY 1")
        }
        with step(progress, f"Merging into {job.target}") as report:
            version = target.commit(engine, states).version()
            report(f"version {version}")
    metrics = {"numTargetRowsInserted": states.get("new", 0), "numTargetRowsUpdated": states.get("changed", 0)}
    return UsageSummary(job.run_id, job.target, version, False, requests, fetches, metrics=metrics, **counts)  # noqa: FBT003


def _parse(  # noqa: PLR0913, PLR0917 -- a log, and how to read it
    engine: _Engine,
    name: str,
    paths: Sequence[str],
    parse: Parse,
    columns: Mapping[str, str],
    report: Callable[[str], None],
) -> LineCounts:
    import pyarrow as pa

    schema, total = arrow_schema({**LINE_COLUMNS, **columns}), 0

    def batches() -> "Iterator[pa.RecordBatch]":
        nonlocal total
        for file, lines in read_lines(paths):
            total += len(lines)
            report(f"{total:,} lines")
            yield record_batch([row for line in lines for row in parse(line.rstrip("\r"), file)], schema)

    engine.write(name, pa.RecordBatchReader.from_batches(schema, batches()))
    [counts] = engine.rows(f"SELECT {', '.join(LINE_COUNTS)} FROM {name}")
    return LineCounts.of_row(counts)


def _attribute(engine: _Engine, roles: Sequence[str], since: str, report: Callable[[str], None]) -> None:
    """Write the table `rows`: the usage table's rows with `state`, which is new, changed or same as in the table."""
    import pyarrow as pa

    for name, sql in views(roles, since).items():
        if name in _TABLES:
            engine.write(name, engine.read(sql))
        elif name in {"requests", "known_requests"}:
            engine.rows(f"CREATE VIEW {name} AS {sql}")
    # In groups, because the parser of DataFusion limits how deep an expression is.
    different = [f"(n.`{name}` IS DISTINCT FROM o.`{name}`)" for name in COLUMNS]
    differs = " OR ".join(f"({' OR '.join(different[number::6])})" for number in range(6))
    schema = usage_schema().append(pa.field("state", pa.string()))
    rows = engine.append("rows", pa.RecordBatchReader.from_batches(schema, []), ["state"])
    for number, window in enumerate(_windows(engine, since)):
        in_window = engine.with_tables()
        for name, sql in views(roles, since, window).items():
            if name == "downloads":  # other views read it four times
                in_window.register(name, engine.append(f"{name}-{number}", in_window.read(sql)))
            elif name not in {*_TABLES, "known_requests"}:
                in_window.rows(f"CREATE VIEW {name} AS {sql}")
        query = f"""
            SELECT n.*, CASE WHEN o.id IS NULL THEN 'new' WHEN {differs} THEN 'changed' ELSE 'same' END AS state
            FROM usage_rows AS n LEFT JOIN (SELECT * FROM usage WHERE {window}) AS o
            ON n.day = o.day AND n.id = o.id"""
        rows = engine.append("rows", in_window.read(query), ["state"])
        report(window.partition("'")[2][:16])
    engine.register("rows", rows)


def _windows(engine: _Engine, since: str) -> Iterator[str]:
    """Yield SQL conditions on `time` that together select all rows, each some `WINDOW_ROWS`."""
    minutes = engine.rows(f"""
        SELECT date_trunc('minute', time) AS minute, count(*) AS lines FROM (
            SELECT time FROM request_lines UNION ALL SELECT time FROM fetch_lines
            UNION ALL SELECT time FROM usage WHERE day >= DATE'{since}' AND kind = 'fetch' AND request_id IS NULL) AS t
        WHERE time IS NOT NULL GROUP BY 1 ORDER BY 1""")
    lines, begin = 0, None
    for number, row in enumerate(minutes):
        lines, begin = lines + row["lines"], begin or row["minute"]
        if lines >= WINDOW_ROWS or number == len(minutes) - 1:
            end = row["minute"] + timedelta(minutes=1)
            yield f"time >= TIMESTAMP'{begin:%Y-%m-%dT%H:%M}:00Z' AND time < TIMESTAMP'{end:%Y-%m-%dT%H:%M}:00Z'"
            lines, begin = 0, None
