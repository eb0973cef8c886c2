"""Findings (results) of checks, including checks that AWS does not permit."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from deltaic.aws_codes import DENIED
from deltaic.errors import DeltaicError, TableRefused, TooManyRequests, Unavailable

Verdict = Literal["ok", "warning", "failed", "not tried"]

_UNSUPPORTED = {"400", "404", "501", "InvalidAction", "NotImplemented", "UnknownOperationException"}
"""Error codes for unsupported operations; AWS emulators return the HTTP status instead of a code."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    verdict: Verdict
    message: str
    remedy: str = ""
    """What the operator can do about a failure or warning."""

    @property
    def holds(self) -> bool:
        """Return whether the check passed."""
        return self.verdict == "ok"


def ok(check: str, observation: str) -> Finding:
    """Return the finding of a check that passed."""
    return Finding(check, "ok", observation)


def not_tried(check: str, reason: str) -> Finding:
    """Return the finding of a check that could not be made (verdict "not tried")."""
    return Finding(check, "not tried", reason)


def unreadable_object(check: str, refusal: DeltaicError, remedy: str) -> Finding:
    """Return a finding about an unreadable object: not tried (no access), warning (temporary) or failed."""
    if isinstance(refusal, TableRefused):
        return not_tried(check, refusal.message)
    if isinstance(refusal, TooManyRequests | Unavailable):
        return Finding(check, "warning", refusal.message, "check that its storage responds, then run deltaic doctor")
    return Finding(check, "failed", refusal.message, remedy)


def judge(check: str, observation: str, remedy: str, *, holds: bool, otherwise: Verdict = "failed") -> Finding:
    """Return a passed finding if `holds`, otherwise one with the verdict `otherwise` and the remedy."""
    return ok(check, observation) if holds else Finding(check, otherwise, observation, remedy)


def advise(check: str, observation: str, remedy: str, *, holds: bool) -> Finding:
    """Return a passed finding if `holds`, otherwise a warning with the remedy."""
    return judge(check, observation, remedy, holds=holds, otherwise="warning")


def ask(check: str, remedy: str, examine: Callable[[], Finding | Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of `examine`, or a finding about the botocore error that it raises.

    Missing permissions and unsupported operations become "not tried"; other errors are failures with the remedy.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # imported here: checks of tables do not need them

    try:
        result = examine()
        yield from [result] if isinstance(result, Finding) else list(result)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in DENIED or code in _UNSUPPORTED:
            yield not_tried(check, f"{error.operation_name} was rejected ({code})")
        else:
            yield Finding(check, "failed", f"{error.operation_name}: {code}", remedy)
    except BotoCoreError as error:
        yield Finding(check, "failed", f"no response from AWS: {error}", "check region, AWS_ENDPOINT_URL and network")
