"""Runs the steps of a backfill one after the other and reports how each of them ended."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from deltaic_pipeline.failures import StepsFailed
from deltaic_terminal.progress import Step as Shown
from deltaic_terminal.progress import silent, terminal

from deltaic_datasets.run.time_steps import Backfill, Step

Tell = Callable[[Sequence[str], dict[str, object]], None]
Detail = Callable[[str], None]


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
    shown, total = sys.stderr.isatty() and not as_json, len(backfill.steps)
    show = terminal() if shown else silent
    for number, step in enumerate(backfill.steps, 1):
        name = f"{step.value} ({number:,} of {total:,})"
        outcome = run(step, lambda text, name=name: show(Shown(name, text)))  # type: ignore[misc]
        counts[outcome.state] += 1
        if shown:
            text = f"{name} {outcome.state}"
            show(Shown(text, outcome.message, outcome.seconds, failed=outcome.state == "failed"))
        else:
            took = f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""
            line = f"{outcome.state:<7}  {step.run_id}  {outcome.message}{took}".rstrip()
            tell([line], {"event": "ran", "value": step.value, "run": step.run_id, **asdict(outcome)})
        if outcome.state == "failed":
            failed.append((step, outcome))
            if backfill.following:
                break
    left = total - sum(counts.values())
    told = ", ".join(f"{count:,} {state}" for state, count in {**counts, "not begun": left}.items() if count)
    tell([told], {"event": "backfill", **counts, "left": left})
    if failed:
        lines = [f"{step.run_id}: {outcome.message}" for step, outcome in failed]
        waiting = " (a later step's rows stand above an earlier one's)" * bool(left)
        lines.append(f"{told}{waiting}: put it right, and the same command goes on.")
        raise StepsFailed(lines, failed[0][1].exit_code)
