"""The template's authorizer as API Gateway calls it: its function is asked, its policies are kept and obeyed."""

import fnmatch
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltaic_ops.deploy.api import Authorizer

logger = logging.getLogger(__name__)

CACHE_ENTRIES = 10_000

Invoke = Callable[[dict[str, Any]], Any]


class Refused(Exception):
    """The request ends here, with one of the gateway's own responses."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the authorizer has said of a token."""

    statements: tuple[tuple[bool, re.Pattern[str]], ...]
    """Allow or deny, and the method ARNs it is about."""
    context: Mapping[str, str]

    def check(self, method_arn: str) -> None:
        """Raise Refused unless the policy allows the method: a deny wins, and nothing is allowed by silence."""
        said = [allows for allows, pattern in self.statements if pattern.fullmatch(method_arn)]
        if not said or not all(said):
            raise Refused("ACCESS_DENIED")


class TokenAuthorizer:
    """A TOKEN authorizer with its cache (key: the token; a refusal is not kept)."""

    def __init__(self, template: Authorizer, invoke: Invoke) -> None:
        self._template = template
        self._invoke = invoke
        self._kept: dict[str, tuple[float, Verdict]] = {}
        self.header = template.header
        """The one that holds the token."""

    def authorize(self, token: str | None, method_arn: str) -> Mapping[str, str]:
        """Return the context that functions see; raises Refused."""
        if not token or not self._template.validation.match(token):
            raise Refused("UNAUTHORIZED")
        until, verdict = self._kept.get(token, (0.0, None))
        if verdict is None or until <= time.monotonic():
            verdict = self._ask(token, method_arn)
            if len(self._kept) >= CACHE_ENTRIES:
                self._kept.clear()
            self._kept[token] = (time.monotonic() + self._template.ttl, verdict)
        verdict.check(method_arn)
        return verdict.context

    def _ask(self, token: str, method_arn: str) -> Verdict:
        try:
            answer = self._invoke({"type": "TOKEN", "authorizationToken": token, "methodArn": method_arn})
        except Exception as error:
            # The one message that API Gateway knows.
            if str(error) == "Unauthorized":
                raise Refused("UNAUTHORIZED") from None
            logger.exception("the authorizer failed")
            raise Refused("AUTHORIZER_FAILURE") from error
        try:
            return _verdict(answer)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            logger.exception("the authorizer's answer is not a policy")
            raise Refused("AUTHORIZER_CONFIGURATION_ERROR") from error


def _verdict(answer: Any) -> Verdict:
    statements: list[tuple[bool, re.Pattern[str]]] = []
    for statement in _as_list(answer["policyDocument"]["Statement"]):
        if statement["Effect"] not in {"Allow", "Deny"}:
            raise ValueError(f"{statement['Effect']} is no effect")
        if not any(
            fnmatch.fnmatchcase("execute-api:invoke", action.lower()) for action in _as_list(statement["Action"])
        ):
            continue
        allows = statement["Effect"] == "Allow"
        statements += [(allows, _pattern(resource)) for resource in _as_list(statement["Resource"])]
    context = {"principalId": str(answer["principalId"])}
    for name, value in (answer.get("context") or {}).items():
        if not isinstance(value, (str, int, float, bool)):
            raise TypeError(f"context value {name} is neither text, number nor boolean")
        context[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return Verdict(tuple(statements), context)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _pattern(resource: str) -> re.Pattern[str]:
    """IAM's wildcards: any characters, slashes too, for `*`, and one for `?`."""
    return re.compile(
        "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in resource), re.DOTALL
    )
