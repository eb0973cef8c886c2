"""Errors of jobs: one line with the problem and the remedy, without a stack trace."""

from collections.abc import Sequence
from typing import Any

from deltaic.errors import Conflict, DeltaicError


class PipelineError(DeltaicError):
    """Error that prevents a job from starting or continuing; its message is one line for the operator."""

    status = 400
    code = "PIPELINE_ERROR"


class FileError(PipelineError):
    """Error whose message begins with its position in the dataset file."""


class LeaseLost(PipelineError):
    """Error of a job that lost a table's writer lease: it stopped, and reports no commit as successful."""

    code = "LEASE_LOST"


class ExpectationFailed(PipelineError):
    """Error for rows that fail the dataset's expectations, so that no row was written; `verdicts` are the results."""

    code = "EXPECTATION_FAILED"

    def __init__(self, message: str, verdicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.verdicts = verdicts


class Unfinished(PipelineError):
    """Error of a job that committed its rows, but could not complete a later step."""

    code = "UNFINISHED"

    def __init__(self, version: int | None, missing: Sequence[str], remedy: str = "run the job again") -> None:
        done = "there were no rows to write" if version is None else f"the rows are in version {version}"
        super().__init__(f"{done}; not done: {'; '.join(missing)}. To complete it, {remedy}.")
        self.version, self.missing = version, list(missing)


class StepsFailed(PipelineError):
    """Error for failed backfill steps: one message line for each step, and the exit code of the first failed step."""

    code = "STEPS_FAILED"

    def __init__(self, lines: Sequence[str], exit_code: int) -> None:
        super().__init__("\n".join(lines))
        self.exit_code = exit_code


EXIT_CODES = """Exit codes: 0 success, also if this run was done before; 1 error; 2 usage error;
3 an expectation failed and no rows were written; 4 another writer is using the table: run again;
5 the rows are written, but later steps failed: run again with the same --run-id
"""


def exit_code(failure: DeltaicError) -> int:
    """Return the exit code of a job that ended with this error."""
    if isinstance(failure, StepsFailed):
        return failure.exit_code
    if isinstance(failure, ExpectationFailed):
        return 3
    if isinstance(failure, Unfinished):
        return 5
    return 4 if isinstance(failure, Conflict | LeaseLost) else 1
