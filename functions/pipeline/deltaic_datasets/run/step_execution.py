"""Run the steps of a backfill one after another and report their results."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from deltaic_pipeline.failures import StepsFailed
from deltaic_terminal.progress import Step, silent, terminal

from deltaic_datasets.run.time_steps import Backfill, BackfillStep

Report = Callable[[Sequence[str], dict[str, object]], None]
Detail = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of one step of a backfill."""

    state: Literal["done", "skipped", "failed"]
    """Outcome of the step. skipped: an earlier run with the same id has already written the rows."""

    message: str
    exit_code: int = 0
    seconds: float = 0.0


RunStep = Callable[[BackfillStep, Detail], StepResult]


def run_steps(backfill: Backfill, run: RunStep, report: Report, *, as_json: bool) -> None:
    """Run all steps of a backfill; after a failed step, start no further one if the backfill is `ordered`.

    Raises StepsFailed if a step failed.
    """
    failed: list[tuple[BackfillStep, StepResult]] = []
    counts = {"done": 0, "skipped": 0, "failed": 0}
    interactive, total = sys.stderr.isatty() and not as_json, len(backfill.steps)
    show = terminal() if interactive else silent
    for number, step in enumerate(backfill.steps, 1):
        name = f"{step.value} ({number:,} of {total:,})"
        result = run(step, lambda text, name=name: show(Step(name, text)))  # type: ignore[misc]
        counts[result.state] += 1
        if interactive:
            text = f"{name} {result.state}"
            show(Step(text, result.message, result.seconds, failed=result.state == "failed"))
        else:
            duration = f" ({result.seconds:.1f} s)" if result.seconds else ""
            line = f"{result.state:<7}  {step.run_id}  {result.message}{duration}".rstrip()
            report([line], {"event": "ran", "value": step.value, "run": step.run_id, **asdict(result)})
        if result.state == "failed":
            failed.append((step, result))
            if backfill.ordered:
                break
    remaining = total - sum(counts.values())
    totals = ", ".join(f"{count:,} {state}" for state, count in {**counts, "not begun": remaining}.items() if count)
    report([totals], {"event": "backfill", **counts, "left": remaining})
    if failed:
        lines = [f"{step.run_id}: {result.message}" for step, result in failed]
        reason = " (later rows replace earlier ones, so steps must run in order)" * bool(remaining)
        lines.append(f"{totals}{reason}: solve the problem, and run the same command again to continue.")
        raise StepsFailed(lines, failed[0][1].exit_code)
