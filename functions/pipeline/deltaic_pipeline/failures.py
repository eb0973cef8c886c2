"""The refusals of a job: one line that says what is wrong and what to do, never a stack trace."""

from collections.abc import Sequence
from typing import Any

from deltaic.errors import Conflict, DeltaicError


class PipelineError(DeltaicError):
    """A job cannot start or go on; the message is one line for the person who started it."""

    status = 400
    code = "PIPELINE_ERROR"


class PlacedError(PipelineError):
    """A refusal whose message begins with the place in the dataset file that it is about."""


class LeaseLost(PipelineError):
    """The job no longer holds the table's writer lease, so it stopped and acknowledges nothing."""

    code = "LEASE_LOST"


class ExpectationFailed(PipelineError):
    """The rows are not as the dataset expects them, so none was written; holds how each expectation came out."""

    code = "EXPECTATION_FAILED"

    def __init__(self, message: str, verdicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.verdicts = verdicts


class Unfinished(PipelineError):
    """The rows are committed, and something that belongs behind them is not done."""

    code = "UNFINISHED"

    def __init__(self, version: int | None, missing: Sequence[str], remedy: str = "the next run does it") -> None:
        done = "nothing new was to be written" if version is None else f"the rows are in version {version}"
        super().__init__(f"{done}; not done: {'; '.join(missing)}. Put it right: {remedy}.")
        self.version, self.missing = version, list(missing)


class StepsFailed(PipelineError):
    """Steps of a backfill failed; the message has a line for each, and the exit code is the first one's."""

    code = "STEPS_FAILED"

    def __init__(self, lines: Sequence[str], exit_code: int) -> None:
        super().__init__("\n".join(lines))
        self.exit_code = exit_code


EXIT_CODES = """exit codes: 0 success, also if this run was done before; 1 refused or failed; 2 usage error;
3 an expectation failed and no rows were written; 4 another writer uses the table: run again;
5 the rows are written, but later steps failed: run again
"""


def exit_code(failure: DeltaicError) -> int:
    """Return the exit code of a job that ended with this."""
    if isinstance(failure, StepsFailed):
        return failure.exit_code
    if isinstance(failure, ExpectationFailed):
        return 3
    if isinstance(failure, Unfinished):
        return 5
    return 4 if isinstance(failure, Conflict | LeaseLost) else 1
