"""One attempt at a run: the writer leases held, a session and a job group of its own, Spark's refusals in one line."""

import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.lease import TIME_TO_LIVE, Held, hold, holder_name
from deltaic_pipeline.register import Catalog
from deltaic_pipeline.session import leave
from deltaic_pipeline.steps import Progress, step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GENERIC = re.compile(r"TASK_WRITE_FAILED|^Job aborted|Exception thrown in awaitResult|^\[?FAILED_EXECUTE")
"""Messages that say no more than that something failed."""

NOISE = re.compile(r"(^|(?<=: ))([\w$]+\.)+[\w$]*(Exception|Error|Throwable): |\s*SQLSTATE: \w+|:null$")
MOST_CAUSES = 2
DISK_FULL = ("No space left on device", "File too large", "EntityTooLarge", "XMinioStorageFull", "Disk quota exceeded")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a run works with while it holds its leases."""

    spark: "SparkSession"
    """A session of its own: its views and its settings are seen by no other job of this process."""

    group: str
    """Spark runs nothing more for it once a lease is lost."""

    leases: Sequence[Held]

    def confirm(self) -> None:
        """Prove by a round trip that the leases are held; raises `LeaseLost` otherwise."""
        for held in self.leases:
            held.confirm()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Turn what Spark says when it cannot go on into one line; a lost lease is the reason if one was lost."""
        try:
            with refusals():
                yield
        except PipelineError:
            self._require()
            raise

    def _require(self) -> None:
        for held in self.leases:
            held.require()


@contextmanager
def attempt(  # noqa: PLR0913 -- what is held, for whom, and for how long
    spark: "SparkSession",
    catalog: Catalog,
    locations: Sequence[str],
    run_id: str,
    progress: Progress,
    *,
    wait: timedelta = timedelta(0),
    ttl: timedelta = TIME_TO_LIVE,
) -> Iterator[Attempt]:
    """Hold the leases of all locations during the block, in the order given; the first one names the job.

    When one is lost Spark's jobs of this attempt are cancelled. Raises `Conflict` as `hold` does.
    """
    group = uuid.uuid4().hex
    with ExitStack() as stack:
        leases = []
        for location in locations:
            with step(progress, f"Taking the writer lease of {location}") as tell:
                lease = hold(catalog.leases, location, holder_name(run_id), wait=wait, ttl=ttl, waiting=tell)
                leases.append(stack.enter_context(lease))
        for held in leases:
            held.on_loss(lambda: _cancel(spark, group))
        spark.sparkContext.setJobGroup(group, f"write {locations[0]}")
        # What this thread does next is no part of the run.
        stack.callback(lambda: spark.sparkContext.setLocalProperty("spark.jobGroup.id", None))  # type: ignore[arg-type]
        yield Attempt(spark.newSession(), group, leases)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what Spark says when it cannot go on into a `PipelineError` of one line."""
    try:
        yield
    except spark_failures() as failure:
        raise PipelineError(said_by_spark(failure)) from failure


def spark_failures() -> tuple[type[Exception], ...]:
    """Return the exceptions by which Spark says that it cannot go on."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def said_by_spark(failure: Exception) -> str:
    """Return what Spark said in one line: the first lines of the causes, without those that only say that it failed."""
    thrown: Any = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    said = [] if thrown is not None else [_first_line(str(failure))]
    while thrown is not None:
        said.append(_first_line(str(thrown.getMessage() or "")))
        thrown = thrown.getCause()
    telling = [line for line in said if line and not GENERIC.search(line)] or [line for line in said if line]
    chosen: list[str] = []
    for line in telling:
        if not any(line in other for other in chosen):
            chosen = [other for other in chosen if other not in line] + [line]
    told = " Cause: ".join(chosen[:1] + chosen[1:][-MOST_CAUSES:]) or type(failure).__name__
    if any(sign in told for sign in DISK_FULL):
        return f"a disk is full ({told}): free some space, or name another folder in SPARK_LOCAL_DIRS, and run again."
    return told


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return NOISE.sub("", line).strip()


def _cancel(spark: "SparkSession", group: str) -> None:
    """Stop the group's Spark jobs, those that have not begun too, from whatever thread has found out that they must."""

    def cancel() -> None:
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 -- pyspark itself cancels only what runs already
        context.sc().cancelJobGroupAndFutureJobs(group)
        leave(spark)

    thread = threading.Thread(target=cancel)
    thread.start()
    thread.join()
