"""The steps of a job as it shows them: named steps with their time, and the tasks of Spark that are done meanwhile."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.printing import one_line, text_console
from deltaic_pipeline.spark.session import leave

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

TASK_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """What a job does at this moment, or has just done."""

    text: str
    detail: str = ""
    seconds: float | None = None
    """None while it runs, then how long it took."""

    failed: bool = False


Progress = Callable[[Step], None]
"""Called when a step begins, when its detail changes and when it ends; possibly from another thread."""


def silent(_: Step) -> None:
    """Show nothing."""


@contextmanager
def step(progress: Progress, text: str) -> Iterator[Callable[[str], None]]:
    """Run a block as one step; the value it gives is called with what to show beside the text."""
    began = time.monotonic()
    detail = ""

    def tell(more: str) -> None:
        nonlocal detail
        detail = more
        progress(Step(text, detail))

    progress(Step(text))
    try:
        yield tell
    except BaseException:
        progress(Step(text, detail, time.monotonic() - began, failed=True))
        raise
    progress(Step(text, detail, time.monotonic() - began))


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


def lines() -> Progress:
    """Return a progress for programs: a JSON object on stdout for every step that ended."""

    def show(now: Step) -> None:
        if now.seconds is not None:
            event = {"event": "step", "step": now.text, "detail": now.detail, "seconds": round(now.seconds, 3)}
            print(json.dumps({**event, "failed": now.failed}), flush=True)

    return show


def terminal() -> Progress:
    """Return a progress for people: a line a step on stderr, with a spinner where stderr is a terminal."""
    if not sys.stderr.isatty():
        return _plain
    try:
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text
    except ImportError:  # a cluster's Python has no rich, and no terminal either
        return _plain
    out, spinner = text_console(stderr=True), Spinner("dots")
    # What others print meanwhile is not rich's to read: it would take escape sequences for styles and links.
    status = Live(spinner, console=out, transient=True, redirect_stdout=False, redirect_stderr=False)

    def show(now: Step) -> None:
        if now.seconds is None:
            spinner.update(text=Text.assemble(one_line(now.text), " ", (one_line(now.detail), "dim")))
            status.start()
            return
        status.stop()
        mark = ("failed", "red") if now.failed else ("ok", "green")
        took = f"{one_line(now.detail)} ({now.seconds:.1f} s)"
        out.print(Text.assemble(mark, f" {one_line(now.text)} ", (took, "dim")))

    return show


def _plain(now: Step) -> None:
    if now.seconds is not None:
        mark = "failed" if now.failed else "ok"
        detail = f" {now.detail}" if now.detail else ""
        print(one_line(f"{mark} {now.text}{detail} ({now.seconds:.1f} s)"), file=sys.stderr, flush=True)
