"""Show the number of completed Spark tasks while a step runs."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.session import close_thread_connection

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

TASK_POLL_SECONDS = 0.5


@contextmanager
def show_tasks(spark: "SparkSession", group: str, report: Callable[[str], None]) -> Iterator[None]:
    """Report the progress of a Spark job group during the block: tasks, rows, and rows per second."""
    done = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    store: Any = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 -- the tracker does not count rows
    starts: dict[int, float] = {}

    def watch() -> None:
        while not done.wait(TASK_POLL_SECONDS):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            running = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
            stages = [stage for stage in map(tracker.getStageInfo, running) if stage and stage.numActiveTasks]
            if stages and not done.is_set():
                report(_progress_line(store, stages, starts))
        close_thread_connection(spark)

    thread = threading.Thread(target=watch, name="spark-tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _progress_line(store: Any, stages: Sequence["SparkStageInfo"], starts: dict[int, float]) -> str:
    rows, rate = 0, 0.0
    for stage in stages:
        since = starts.setdefault(stage.stageId, time.monotonic())
        attempt = store.lastStageAttempt(stage.stageId)
        read = attempt.inputRecords() + attempt.shuffleReadRecords()
        rows += read
        rate += read / max(time.monotonic() - since, TASK_POLL_SECONDS)
    tasks = f"{sum(stage.numCompletedTasks for stage in stages)} of {sum(stage.numTasks for stage in stages)} tasks"
    return f"{tasks}, {rows:,} rows, {rate:,.0f} rows/s" if rows else tasks
