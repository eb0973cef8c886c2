"""Run a job from a command: report its progress and result as text or JSON, and return the exit code."""

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from deltaic.errors import DeltaicError
from deltaic_terminal.printing import as_called, one_line, only_text
from deltaic_terminal.progress import Progress, lines, terminal

from deltaic_pipeline.failures import PipelineError, Unfinished, exit_code
from deltaic_pipeline.spark.interruption import interruptions
from deltaic_pipeline.spark.spark_errors import HIDDEN, full_message, safe_message, spark_failures

_INTERRUPTED: Final = 130

Report = Callable[[Sequence[str], dict[str, object]], None]
"""Function that reports a result: its lines of text and its JSON event, of which the command prints one."""


@only_text()
def run_job(
    job: Callable[[Progress, Report], object], *, as_json: bool, stopped: str, show_values: bool = False
) -> int:
    """Run a job and return the exit code; print an error as one line, or with `show_values` completely.

    After SIGINT or SIGTERM, the code is 130, and the message `stopped` tells the operator how to continue.
    """
    progress = lines() if as_json else terminal()
    with interruptions() as interrupted:
        try:
            job(progress, _print_event if as_json else _print_lines)
        except KeyboardInterrupt:
            pass
        except DeltaicError as refusal:
            if not interrupted:
                return _report_refusal(refusal, as_json=as_json, show_values=show_values)
        except Exception as failure:
            if not interrupted:
                if show_values:
                    raise
                return _report_refusal(unexpected_error(failure), as_json=as_json, show_values=False)
        else:
            return 0
    if as_json:
        _print_event((), {"event": "stopped", "message": stopped, "exitCode": _INTERRUPTED})
    print(f"stopped; {stopped}", file=sys.stderr)
    return _INTERRUPTED


def run_command(options: argparse.Namespace, job: Callable[[Progress, Report], object], stopped: str) -> int:
    """Run a job with the output options of its command line, and return the exit code."""
    as_json = getattr(options, "json", False)
    return run_job(job, as_json=as_json, show_values=options.show_values, stopped=stopped)


def _report_refusal(refusal: DeltaicError, *, as_json: bool, show_values: bool) -> int:
    code = exit_code(refusal)
    if as_json:
        event = {"event": "failed", "code": refusal.code, "message": refusal.message, "exitCode": code}
        if isinstance(refusal, Unfinished):
            event |= {"version": refusal.version, "missing": refusal.missing}
        _print_event((), event)
    print("\n".join(f"error: {line}" for line in refusal.message.split("\n")), file=sys.stderr)
    if show_values:
        print(full_message(refusal), file=sys.stderr)
    elif HIDDEN in refusal.message:
        print(f"({HIDDEN} can be row data: --show-values shows the complete message)", file=sys.stderr)
    return code


def unexpected_error(failure: Exception) -> PipelineError:
    """Convert an unexpected exception to a one-line error; if it is not Spark's, print its stack trace."""
    if isinstance(failure, spark_failures()):
        return PipelineError(safe_message(failure))
    print("".join(traceback.format_tb(failure.__traceback__)), end="", file=sys.stderr)
    message = (
        str(failure) if isinstance(failure, OSError) or type(failure).__module__.startswith("botocore") else HIDDEN
    )
    return PipelineError(f"{type(failure).__name__}: {message}")


def resume_hint(run_id: str) -> str:
    """Return the instruction for continuing a stopped run."""
    return f"to continue, run it again with --run-id {run_id}: committed rows are not written twice"


def _print_lines(text_lines: Sequence[str], _: dict[str, object]) -> None:
    for line in text_lines:
        print(one_line(as_called(line)), flush=True)


def _print_event(_: Sequence[str], event: dict[str, object]) -> None:
    print(json.dumps(event, default=str), flush=True)
