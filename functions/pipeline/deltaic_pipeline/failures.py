"""The refusals of a job: one line that says what is wrong and what to do, never a stack trace."""

from deltaic.errors import Conflict, DeltaicError


class PipelineError(DeltaicError):
    """A job cannot start or go on; the message is one line for the person who started it."""

    status = 400
    code = "PIPELINE_ERROR"


class LeaseLost(PipelineError):
    """The job no longer holds the table's writer lease, so it stopped and acknowledges nothing."""

    code = "LEASE_LOST"


class ExpectationFailed(PipelineError):
    """The rows are not as the dataset expects them, so none was written."""

    code = "EXPECTATION_FAILED"


EXIT_CODES = """exit codes: 0 done (or done before by the same run), 1 refused or failed, 2 wrong arguments,
3 an expectation failed and nothing was written, 4 another writer has the table or took it: run again
"""


def exit_code(failure: DeltaicError) -> int:
    """Return the exit code of a job that ended with this."""
    if isinstance(failure, ExpectationFailed):
        return 3
    return 4 if isinstance(failure, Conflict | LeaseLost) else 1
