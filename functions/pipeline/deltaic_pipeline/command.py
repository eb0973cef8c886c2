"""How a job that was started by a command tells what it does and how it ended: lines for people, JSON for programs."""

import json
import sys
from collections.abc import Callable, Sequence

from deltaic.errors import DeltaicError

from deltaic_pipeline.failures import exit_code
from deltaic_pipeline.steps import Progress, lines, terminal

INTERRUPTED = 130
"""The exit code of what Ctrl-C has ended (128 + SIGINT)."""

Tell = Callable[[Sequence[str], dict[str, object]], None]
"""Says one thing, to people in lines or to programs as an event."""


def conduct(job: Callable[[Progress, Tell], None], *, as_json: bool, stopped: str) -> int:
    """Run a job and return the exit code; `stopped` says what Ctrl-C has left. A refusal is a line, never a trace."""
    progress = lines() if as_json else terminal()
    try:
        job(progress, _programs if as_json else _people)
    except DeltaicError as refusal:
        code = exit_code(refusal)
        if as_json:
            _programs((), {"event": "failed", "code": refusal.code, "message": refusal.message, "exitCode": code})
        print("\n".join(f"error: {line}" for line in refusal.message.split("\n")), file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print(f"stopped: {stopped}", file=sys.stderr)
        return INTERRUPTED
    return 0


def _people(said: Sequence[str], _: dict[str, object]) -> None:
    for line in said:
        print(line, flush=True)


def _programs(_: Sequence[str], event: dict[str, object]) -> None:
    print(json.dumps(event, default=str), flush=True)
