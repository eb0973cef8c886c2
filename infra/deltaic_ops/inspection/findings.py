"""What a check saw, and what AWS's refusal of a question means: a fault of the stack, or no answer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from deltaic.aws_codes import DENIED
from deltaic.errors import DeltaicError, TableRefused, TooManyRequests, Unavailable

Verdict = Literal["ok", "warning", "failed", "not asked"]

NO_ENDPOINT = "no endpoint is known: start `deltaic serve`, give --endpoint, or the stack by --stack"

_UNSERVED = frozenset({"400", "404", "501", "InvalidAction", "NotImplemented", "UnknownOperationException"})
"""How a service says that it does not know the question; emulators leave the code out and the status in its place."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw."""

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""
    """What to do, where it failed or warns."""

    @property
    def holds(self) -> bool:
        """Whether it is as it should be."""
        return self.verdict == "ok"


def ok(check: str, said: str) -> Finding:
    """Return that it is as it should be."""
    return Finding(check, "ok", said)


def not_asked(check: str, why: str) -> Finding:
    """Return that nobody could tell."""
    return Finding(check, "not asked", why)


def unread(check: str, refusal: DeltaicError, remedy: str) -> Finding:
    """Return why an object could not be read: nobody's fault, one that passes, or one with this remedy."""
    if isinstance(refusal, TableRefused):
        return not_asked(check, refusal.message)
    if isinstance(refusal, TooManyRequests | Unavailable):
        return Finding(check, "warning", refusal.message, "whether its storage answers; then again: deltaic doctor")
    return Finding(check, "failed", refusal.message, remedy)


def judge(check: str, said: str, remedy: str, *, holds: bool, otherwise: Verdict = "failed") -> Finding:
    """Return that it holds, or what to do."""
    return ok(check, said) if holds else Finding(check, otherwise, said, remedy)


def advise(check: str, said: str, remedy: str, *, holds: bool) -> Finding:
    """Return that it holds, or a warning with what to do."""
    return judge(check, said, remedy, holds=holds, otherwise="warning")


def ask(check: str, remedy: str, look: Callable[[], Finding | Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what `look` finds; where AWS refuses the question itself, whose fault that is.

    What the caller may not ask, or the service does not serve, was not asked; anything else that AWS answers is a
    failure with the given remedy.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # a look at a table wants none of it

    try:
        found = look()
        yield from [found] if isinstance(found, Finding) else list(found)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in DENIED or code in _UNSERVED:
            yield not_asked(check, f"{error.operation_name} was refused ({code})")
        else:
            yield Finding(check, "failed", f"{error.operation_name}: {code}", remedy)
    except BotoCoreError as error:
        yield Finding(check, "failed", f"AWS did not answer: {error}", "the region, AWS_ENDPOINT_URL and the network")
