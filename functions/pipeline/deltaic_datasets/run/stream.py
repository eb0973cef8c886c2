"""Run a dataset with a stream: write every batch of its source exactly once, even if a run is killed."""

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.session import close_callback_server
from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.leased_run import Attempt
from deltaic_pipeline.table.schema_diff import differences, refuse_drift
from deltaic_pipeline.table.sources import follow, spark_path
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, exists
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import ExpectationVerdict
from deltaic_datasets.run.file_log import last_batch
from deltaic_datasets.run.quality import write_part
from deltaic_datasets.run.run_state import Run, RunSummary, describe_summary
from deltaic_datasets.run.sql_steps import file_source, locate_errors, locate_errors_at, locate_values, read_dataset
from deltaic_datasets.run.target_checks import check_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 1


class StreamRun:
    """A run of a stream. Spark replays a failed batch from the checkpoint with the same input and transaction id."""

    def __init__(self, attempt: Attempt, run: Run, target: DeltaTarget, progress: Progress) -> None:
        self._attempt, self._run, self._target, self._progress = attempt, run, target, progress
        self._started = threading.Event()
        self._lease_lost = threading.Event()
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._parts: list[RunSummary] = []

    def build(self, stream: dataset_model.StreamSettings) -> RunSummary:
        """Write all rows that are in the source now and were not yet read, then stop."""
        began = time.monotonic()
        source = self._run.dataset.sources[stream.source]
        if isinstance(source, dataset_model.JdbcSource):
            raise PipelineError("a stream cannot read a database: use files or a Delta table.")
        with self._attempt.refusals(), locate_errors_at(self._run, ("sources", stream.source)):
            self._refuse_orphaned(stream)
            evolve_schema = self._run.dataset.target.evolve_schema
            rows = follow(self._attempt.spark, file_source(source, evolves=evolve_schema))
        for lease in self._attempt.leases:
            lease.on_loss(self._lease_lost.set)
        writer = rows.writeStream.foreachBatch(self._handle).option("checkpointLocation", spark_path(stream.checkpoint))
        with self._attempt.refusals():
            try:
                self._query = writer.trigger(availableNow=True).start()
                self._started.set()
                self._wait(self._query)
            finally:
                close_callback_server(self._attempt.spark)
        self._attempt.confirm()
        return self._summary(time.monotonic() - began)

    def _refuse_orphaned(self, stream: dataset_model.StreamSettings) -> None:
        """Raise an error if the checkpoint belongs to a deleted table, because its files would not be read again."""
        spark = self._attempt.spark
        if not exists(spark, self._target) and last_batch(spark, stream.checkpoint) >= 0:
            raise PipelineError(
                f"the checkpoint {stream.checkpoint} belongs to a table that no longer exists at "
                f"{self._target.location}: delete the checkpoint too, and everything is read again."
            )

    def _wait(self, query: "StreamingQuery") -> None:
        from pyspark.errors import StreamingQueryException

        try:
            while not query.awaitTermination(POLL_SECONDS):
                if self._lease_lost.is_set():
                    query.stop()
        except StreamingQueryException:
            if self._failure is not None:
                raise self._failure from self._failure.__cause__
            raise

    def _handle(self, batch: "DataFrame", batch_number: int) -> None:
        self._started.wait()
        try:
            self._write(batch, batch_number)
        except BaseException as failure:
            self._failure = failure
            raise

    def _write(self, batch: "DataFrame", number: int) -> None:
        query = self._query
        if query is None:
            raise PipelineError("the stream ended before its first batch.")
        spark = batch.sparkSession
        transaction = Transaction.of_batch(str(query.id), number)
        with (
            step(self._progress, f"Writing batch {number} to {self._target.location}") as report,
            locate_errors(self._run),
            self._attempt.refusals(),
        ):
            answer = read_dataset(spark, self._run, batch)
            if not self._parts:
                check_target(spark, answer.rows, self._run, self._target)
            with locate_errors_at(self._run, ("target",)):
                refuse_drift(differences(spark, answer.rows, self._target), self._target)
            with (
                locate_values(self._run, answer.sources),
                self._attempt.refusals(),
                show_tasks(spark, str(query.runId), report),
            ):
                part = write_part(spark, answer, self._run, self._target, transaction)
            self._attempt.confirm()
            report(describe_summary(part))
        self._parts.append(part)

    def _summary(self, seconds: float) -> RunSummary:
        parts = [part for part in self._parts if not part.repeated]
        last = self._parts[-1] if self._parts else None
        totals: dict[str, ExpectationVerdict] = {}
        for verdict in (verdict for part in parts for verdict in part.verdicts):
            total = totals.get(verdict.name)
            failing = verdict.failing + (total.failing if total else 0)
            message = f"{failing:,} rows in {len(parts)} batches"
            totals[verdict.name] = replace(verdict, failing=failing, message=message)
        return RunSummary(
            self._run.run_id,
            self._target.location,
            last.version if last else None,
            repeated=bool(self._parts) and not parts,
            rows=sum(part.rows for part in parts),
            seconds=seconds,
            batches=len(self._parts),
            verdicts=list(totals.values()),
            written=sum(part.written for part in parts),
            unchanged=sum(part.unchanged for part in parts),
            deleted=sum(part.deleted for part in parts),
            quarantined=sum(part.quarantined for part in parts),
            dropped=sum(part.dropped for part in parts),
            committed=any(part.committed for part in parts),
        )
