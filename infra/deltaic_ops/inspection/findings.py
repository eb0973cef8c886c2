"""Findings of checks, including checks that AWS refuses to answer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from deltaic.aws_codes import DENIED
from deltaic.errors import DeltaicError, TableRefused, TooManyRequests, Unavailable

Verdict = Literal["ok", "warning", "failed", "not asked"]

NO_ENDPOINT = "the endpoint is unknown: start `deltaic serve`, or set --endpoint or --stack"

_UNSUPPORTED = frozenset({"400", "404", "501", "InvalidAction", "NotImplemented", "UnknownOperationException"})
"""Error codes of services that do not support an operation; emulators return the status instead of a code."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""
    """What to do after a failure or warning."""

    @property
    def holds(self) -> bool:
        """Return whether the check passed."""
        return self.verdict == "ok"


def ok(check: str, observation: str) -> Finding:
    """Return a finding of a check that passed."""
    return Finding(check, "ok", observation)


def not_asked(check: str, reason: str) -> Finding:
    """Return a finding of a check that could not be made."""
    return Finding(check, "not asked", reason)


def unreadable_object(check: str, refusal: DeltaicError, remedy: str) -> Finding:
    """Return a finding for an object that could not be read: not asked, temporary, or failed with this remedy."""
    if isinstance(refusal, TableRefused):
        return not_asked(check, refusal.message)
    if isinstance(refusal, TooManyRequests | Unavailable):
        return Finding(check, "warning", refusal.message, "check that its storage answers, then repeat: deltaic doctor")
    return Finding(check, "failed", refusal.message, remedy)


def judge(check: str, observation: str, remedy: str, *, holds: bool, otherwise: Verdict = "failed") -> Finding:
    """Return a passed finding if `holds`, otherwise a failure with a remedy."""
    return ok(check, observation) if holds else Finding(check, otherwise, observation, remedy)


def advise(check: str, observation: str, remedy: str, *, holds: bool) -> Finding:
    """Return a passed finding if `holds`, otherwise a warning with a remedy."""
    return judge(check, observation, remedy, holds=holds, otherwise="warning")


def ask(check: str, remedy: str, examine: Callable[[], Finding | Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of `examine`, or a finding for the error of AWS that it raises.

    Missing permissions and unsupported operations become "not asked"; other errors are failures with the remedy.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # imported here: checks of tables do not need them

    try:
        result = examine()
        yield from [result] if isinstance(result, Finding) else list(result)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in DENIED or code in _UNSUPPORTED:
            yield not_asked(check, f"{error.operation_name} was refused ({code})")
        else:
            yield Finding(check, "failed", f"{error.operation_name}: {code}", remedy)
    except BotoCoreError as error:
        yield Finding(check, "failed", f"AWS did not answer: {error}", "check region, AWS_ENDPOINT_URL and network")
