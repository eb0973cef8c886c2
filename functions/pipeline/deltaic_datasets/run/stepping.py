"""Runs the steps of a backfill one after the other and reports how each of them ended."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from deltaic_pipeline.failures import StepsFailed
from deltaic_terminal.printing import one_line, text_console

from deltaic_datasets.run.time_steps import Backfill, Step

if TYPE_CHECKING:
    from rich.progress import Progress

Tell = Callable[[Sequence[str], dict[str, object]], None]
Detail = Callable[[str], None]
"""Called with what a step does at this moment."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended."""

    state: Literal["done", "skipped", "failed"]
    """skipped: an earlier run with its id had done it."""

    message: str
    exit_code: int = 0
    seconds: float = 0.0


Run = Callable[[Step, Detail], Outcome]


def carry_out(backfill: Backfill, run: Run, tell: Tell, *, as_json: bool) -> None:
    """Run all steps; where they follow each other none begins behind one that failed.

    Raises StepsFailed when one failed.
    """
    failed: list[tuple[Step, Outcome]] = []
    counts = {"done": 0, "skipped": 0, "failed": 0}
    with _bar(len(backfill.steps), shown=not as_json and sys.stderr.isatty()) as bar:
        detail = bar.detail if bar else _silent
        for step, outcome in _each(backfill, run, detail):
            counts[outcome.state] += 1
            took = f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""
            line = f"{outcome.state:<7}  {step.run_id}  {outcome.message}{took}".rstrip()
            if bar is not None:
                bar.advance(line)
            else:
                tell([line], {"event": "ran", "value": step.value, "run": step.run_id, **asdict(outcome)})
            if outcome.state == "failed":
                failed.append((step, outcome))
    left = len(backfill.steps) - sum(counts.values())
    told = ", ".join(f"{count:,} {state}" for state, count in {**counts, "not begun": left}.items() if count)
    tell([told], {"event": "backfill", **counts, "left": left})
    if failed:
        lines = [f"{step.run_id}: {outcome.message}" for step, outcome in failed]
        waiting = " (a later step's rows stand above an earlier one's)" * bool(left)
        lines.append(f"{told}{waiting}: put it right, and the same command goes on.")
        raise StepsFailed(lines, failed[0][1].exit_code)


def _silent(_: str) -> None:
    """Show nothing."""


def _each(backfill: Backfill, run: Run, detail: Detail) -> Iterator[tuple[Step, Outcome]]:
    for step in backfill.steps:
        outcome = run(step, lambda text, step=step: detail(f"{step.value}: {text}"))  # type: ignore[misc]
        yield step, outcome
        if outcome.state == "failed" and backfill.following:
            return


class _Terminal:
    """A bar of rich's, with the steps that ended above it, and what is done at this moment behind it."""

    def __init__(self, bar: "Progress", total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total)

    def advance(self, line: str) -> None:
        self._bar.console.print(one_line(line))
        self._bar.advance(self._task)

    def detail(self, text: str) -> None:
        self._bar.update(self._task, description=one_line(text))


@contextmanager
def _bar(total: int, *, shown: bool) -> Iterator[_Terminal | None]:
    """Show how many steps are done, and what is done now, where stderr is a terminal."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:  # a cluster's Python has no rich, and no terminal either
        shown = False
    if not shown:
        yield None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns,
        console=text_console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        yield _Terminal(bar, total)
