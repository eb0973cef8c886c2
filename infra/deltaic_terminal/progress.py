"""Show the steps of a job with their durations: as lines with a spinner, or as JSON for programs."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deltaic_terminal.printing import one_line, text_console


@dataclass(frozen=True, slots=True)
class Step:
    """A running or finished step of a job."""

    text: str
    detail: str = ""
    seconds: float | None = None
    """Duration of the step in seconds; None while it runs."""

    failed: bool = False


Progress = Callable[[Step], None]
"""Function that is called when a step begins, when its detail changes and when it ends, from any thread."""


def silent(_: Step) -> None:
    """Ignore a step, as the `Progress` of a job whose steps are not shown."""


@contextmanager
def step(progress: Progress, text: str) -> Iterator[Callable[[str], None]]:
    """Run a block as one step of a job; the yielded function shows a detail next to its text."""
    started_at = time.monotonic()
    detail = ""

    def update(new_detail: str) -> None:
        nonlocal detail
        detail = new_detail
        progress(Step(text, detail))

    progress(Step(text))
    try:
        yield update
    except BaseException:
        progress(Step(text, detail, time.monotonic() - started_at, failed=True))
        raise
    progress(Step(text, detail, time.monotonic() - started_at))


def lines() -> Progress:
    """Return a `Progress` for programs, which prints a JSON object to stdout for each finished step."""

    def show(step_: Step) -> None:
        if step_.seconds is not None:
            event = {"event": "step", "step": step_.text, "detail": step_.detail, "seconds": round(step_.seconds, 3)}
            print(json.dumps({**event, "failed": step_.failed}), flush=True)

    return show


def terminal() -> Progress:
    """Return a `Progress` for people: one line per step on stderr, with a spinner if stderr is a terminal."""
    if not sys.stderr.isatty():
        return _print_line
    try:
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text
    except ImportError:  # the Python of a cluster has no rich
        return _print_line
    console, spinner = text_console(stderr=True), Spinner("dots")
    # Output of other code is not redirected: rich would interpret escape sequences in it.
    status = Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)

    def show(step_: Step) -> None:
        if step_.seconds is None:
            spinner.update(text=Text.assemble(one_line(step_.text), " ", (one_line(step_.detail), "dim")))
            status.start()
            return
        status.stop()
        mark = ("failed", "red") if step_.failed else ("ok", "green")
        took = f"{one_line(step_.detail)} ({step_.seconds:.1f} s)"
        console.print(Text.assemble(mark, f" {one_line(step_.text)} ", (took, "dim")))

    return show


def _print_line(step_: Step) -> None:
    if step_.seconds is not None:
        mark = "failed" if step_.failed else "ok"
        detail = f" {step_.detail}" if step_.detail else ""
        print(one_line(f"{mark} {step_.text}{detail} ({step_.seconds:.1f} s)"), file=sys.stderr, flush=True)
