"""The frame of a job that a command starts: what it does and how it ended, in lines for people, JSON for programs."""

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
from deltaic_pipeline.spark.spark_errors import HIDDEN, all_said, said_by_spark, spark_failures

_INTERRUPTED: Final = 130

Tell = Callable[[Sequence[str], dict[str, object]], None]
"""Says one thing, to people in lines or to programs as an event."""


@only_text()
def conduct(job: Callable[[Progress, Tell], object], *, as_json: bool, stopped: str, show_values: bool = False) -> int:
    """Run a job and return the exit code. A refusal is one line, never a trace.

    After SIGINT or SIGTERM the code is 130, and `stopped` says how to go on. `show_values` adds all details.
    """
    progress = lines() if as_json else terminal()
    with interruptions() as interrupted:
        try:
            job(progress, _programs if as_json else _people)
        except KeyboardInterrupt:
            pass
        except DeltaicError as refusal:
            if not interrupted:
                return _refused(refusal, as_json=as_json, show_values=show_values)
        except Exception as failure:
            if not interrupted:
                if show_values:
                    raise
                return _refused(unforeseen(failure), as_json=as_json, show_values=False)
        else:
            return 0
    if as_json:
        _programs((), {"event": "stopped", "message": stopped, "exitCode": _INTERRUPTED})
    print(f"stopped; {stopped}", file=sys.stderr)
    return _INTERRUPTED


def conduct_command(options: argparse.Namespace, job: Callable[[Progress, Tell], object], stopped: str) -> int:
    """Run the job of a command line, which says how it is told, and return the exit code."""
    as_json = getattr(options, "json", False)
    return conduct(job, as_json=as_json, show_values=options.show_values, stopped=stopped)


def _refused(refusal: DeltaicError, *, as_json: bool, show_values: bool) -> int:
    code = exit_code(refusal)
    if as_json:
        event = {"event": "failed", "code": refusal.code, "message": refusal.message, "exitCode": code}
        if isinstance(refusal, Unfinished):
            event |= {"version": refusal.version, "missing": refusal.missing}
        _programs((), event)
    print("\n".join(f"error: {line}" for line in refusal.message.split("\n")), file=sys.stderr)
    if show_values:
        print(all_said(refusal), file=sys.stderr)
    elif HIDDEN in refusal.message:
        print(f"({HIDDEN} may be values of rows: --show-values shows all that was said)", file=sys.stderr)
    return code


def unforeseen(failure: Exception) -> PipelineError:
    """Return the refusal for what was caught nowhere: of a mistake of ours the place is shown, and not its words."""
    if isinstance(failure, spark_failures()):
        return PipelineError(said_by_spark(failure))
    print("".join(traceback.format_tb(failure.__traceback__)), end="", file=sys.stderr)
    words = str(failure) if isinstance(failure, OSError) or type(failure).__module__.startswith("botocore") else HIDDEN
    return PipelineError(f"{type(failure).__name__}: {words}")


def going_on(run_id: str) -> str:
    """Say how a run that was stopped goes on."""
    return f"go on with --run-id {run_id}: what was committed is not written twice"


def _people(said: Sequence[str], _: dict[str, object]) -> None:
    for line in said:
        print(one_line(as_called(line)), flush=True)


def _programs(_: Sequence[str], event: dict[str, object]) -> None:
    print(json.dumps(event, default=str), flush=True)
