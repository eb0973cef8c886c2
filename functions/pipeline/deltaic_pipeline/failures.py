"""The refusals of a job: one line that says what is wrong and what to do, never a stack trace."""

from deltaic.errors import DeltaicError


class PipelineError(DeltaicError):
    """A job cannot start or go on; the message is one line for the person who started it."""

    status = 400
    code = "PIPELINE_ERROR"


class LeaseLost(PipelineError):
    """The job no longer holds the table's writer lease, so it stopped and acknowledges nothing."""

    code = "LEASE_LOST"
