"""Show how many tasks of Spark are done while a step runs."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.session import leave

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

TASK_POLL_SECONDS = 0.5


@contextmanager
def tasks_shown(spark: "SparkSession", group: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Tell, while the block runs, how far the job group's running stages are: tasks, rows read and rows a second."""
    done = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    store: Any = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 -- the tracker knows no rows
    began: dict[int, float] = {}

    def watch() -> None:
        while not done.wait(TASK_POLL_SECONDS):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            running = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
            stages = [stage for stage in map(tracker.getStageInfo, running) if stage and stage.numActiveTasks]
            if stages and not done.is_set():
                tell(_shown(store, stages, began))
        leave(spark)

    thread = threading.Thread(target=watch, name="spark-tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _shown(store: Any, stages: Sequence["SparkStageInfo"], began: dict[int, float]) -> str:
    rows, rate = 0, 0.0
    for stage in stages:
        since = began.setdefault(stage.stageId, time.monotonic())
        attempt = store.lastStageAttempt(stage.stageId)
        read = attempt.inputRecords() + attempt.shuffleReadRecords()
        rows += read
        rate += read / max(time.monotonic() - since, TASK_POLL_SECONDS)
    tasks = f"{sum(s.numCompletedTasks for s in stages)} of {sum(s.numTasks for s in stages)} tasks"
    return f"{tasks}, {rows:,} rows, {rate:,.0f} rows/s" if rows else tasks
