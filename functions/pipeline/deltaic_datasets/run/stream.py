"""The streaming run of a dataset: every batch of its source is written once, whatever is killed in between."""

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.session import end_callbacks
from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.leased_run import Attempt
from deltaic_pipeline.table.schema_diff import differences, refuse_drift
from deltaic_pipeline.table.sources import follow, spark_path
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, exists
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import Verdict
from deltaic_datasets.run.file_log import last_batch
from deltaic_datasets.run.quality import write_part
from deltaic_datasets.run.run_state import Run, Summary, told
from deltaic_datasets.run.sql_steps import answer_of, file_source, placed, said_of_values, said_where
from deltaic_datasets.run.target_checks import refuse_unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 1


class Stream:
    """A followed source: each batch is written as a run of its own name, which the checkpoint repeats exactly."""

    def __init__(self, attempt: Attempt, run: Run, target: Target, progress: Progress) -> None:
        self._attempt, self._run, self._target, self._progress = attempt, run, target, progress
        self._started = threading.Event()
        self._lease_lost = threading.Event()
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._parts: list[Summary] = []

    def build(self, stream: dataset_model.Stream) -> Summary:
        """Write what the source has by now, and end."""
        began = time.monotonic()
        source = self._run.dataset.sources[stream.source]
        if isinstance(source, dataset_model.JdbcSource):
            raise PipelineError("a database cannot be followed.")
        with self._attempt.refusals(), said_where(self._run, ("sources", stream.source)):
            self._refuse_orphaned(stream)
            evolves = self._run.dataset.target.evolve_schema
            rows = follow(self._attempt.spark, file_source(source, evolves=evolves))
        for lease in self._attempt.leases:
            lease.on_loss(self._lease_lost.set)
        writer = rows.writeStream.foreachBatch(self._each).option("checkpointLocation", spark_path(stream.checkpoint))
        with self._attempt.refusals():
            try:
                self._query = writer.trigger(availableNow=True).start()
                self._started.set()
                self._wait(self._query)
            finally:
                end_callbacks(self._attempt.spark)
        self._attempt.confirm()
        return self._summary(time.monotonic() - began)

    def _refuse_orphaned(self, stream: dataset_model.Stream) -> None:
        """Refuse a checkpoint that has outlived its table: what it says was read would never be read again."""
        spark = self._attempt.spark
        if not exists(spark, self._target) and last_batch(spark, stream.checkpoint) >= 0:
            raise PipelineError(
                f"{stream.checkpoint} remembers what was read for a table that is not at {self._target.location} any "
                "more: delete the checkpoint too, and all is read again."
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

    def _each(self, batch: "DataFrame", number: int) -> None:
        self._started.wait()
        try:
            self._write(batch, number)
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
            step(self._progress, f"Writing batch {number} to {self._target.location}") as tell,
            placed(self._run),
            self._attempt.refusals(),
        ):
            answer = answer_of(spark, self._run, batch)
            if not self._parts:
                refuse_unfit(spark, answer.rows, self._run, self._target)
            with said_where(self._run, ("target",)):
                refuse_drift(differences(spark, answer.rows, self._target), self._target)
            with (
                said_of_values(self._run, answer.sources),
                self._attempt.refusals(),
                tasks_shown(spark, str(query.runId), tell),
            ):
                part = write_part(spark, answer, self._run, self._target, transaction)
            self._attempt.confirm()
            tell(told(part))
        self._parts.append(part)

    def _summary(self, seconds: float) -> Summary:
        parts = [part for part in self._parts if not part.repeated]
        last = self._parts[-1] if self._parts else None
        totals: dict[str, Verdict] = {}
        for verdict in (verdict for part in parts for verdict in part.verdicts):
            known = totals.get(verdict.name)
            failing = verdict.failing + (known.failing if known else 0)
            totals[verdict.name] = replace(verdict, failing=failing, said=f"{failing:,} rows in {len(parts)} batches")
        return Summary(
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
