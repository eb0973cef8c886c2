"""Call the template's authorizer, cache its policies and enforce them, as API Gateway does."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from deltaic_ops.deploy.api import Authorizer

logger = logging.getLogger(__name__)

CACHE_ENTRIES = 10_000

Invoke = Callable[[dict[str, Any]], Any]


class GatewayRefusal(Exception):
    """Exception for a request that the gateway itself rejects; `kind` is the type of API Gateway's response."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class AuthorizerPolicy:
    """The authorizer's policy for a token, and the context that it passes to functions."""

    statements: tuple[tuple[bool, str], ...]
    """For each resource in the policy: whether it is allowed, and a pattern (`*`, `?`) of the ARNs that it covers."""
    context: Mapping[str, str]

    def check(self, method_arn: str) -> None:
        """Raise GatewayRefusal unless the policy allows the method and does not deny it."""
        decisions = [allows for allows, pattern in self.statements if fnmatchcase(method_arn, pattern)]
        if not decisions or not all(decisions):
            raise GatewayRefusal("ACCESS_DENIED")


class TokenAuthorizer:
    """A TOKEN authorizer that caches policies by token; errors are not cached."""

    def __init__(self, template: Authorizer, invoke: Invoke) -> None:
        self._template = template
        self._invoke = invoke
        self._cache: dict[str, tuple[float, AuthorizerPolicy]] = {}
        self.header = template.header
        """Name of the header with the token."""

    def authorize(self, token: str | None, method_arn: str) -> Mapping[str, str]:
        """Return the context for functions; raises GatewayRefusal if the token may not call the method."""
        if not token or not self._template.validation.match(token):
            raise GatewayRefusal("UNAUTHORIZED")
        expires_at, policy = self._cache.get(token, (0.0, None))
        if policy is None or expires_at <= time.monotonic():
            policy = self._call_function(token, method_arn)
            if len(self._cache) >= CACHE_ENTRIES:
                self._cache.clear()
            self._cache[token] = (time.monotonic() + self._template.ttl, policy)
        policy.check(method_arn)
        return policy.context

    def _call_function(self, token: str, method_arn: str) -> AuthorizerPolicy:
        try:
            response = self._invoke({"type": "TOKEN", "authorizationToken": token, "methodArn": method_arn})
        except Exception as error:
            # API Gateway recognizes only this message.
            if str(error) == "Unauthorized":
                raise GatewayRefusal("UNAUTHORIZED") from None
            logger.exception("the authorizer failed")
            raise GatewayRefusal("AUTHORIZER_FAILURE") from error
        try:
            return _parse_policy(response)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            logger.exception("the authorizer did not return a valid policy")
            raise GatewayRefusal("AUTHORIZER_CONFIGURATION_ERROR") from error


def _parse_policy(response: Any) -> AuthorizerPolicy:
    statements: list[tuple[bool, str]] = []
    for statement in _as_list(response["policyDocument"]["Statement"]):
        if statement["Effect"] not in {"Allow", "Deny"}:
            raise ValueError(f"the policy has the unknown effect {statement['Effect']}: use Allow or Deny")
        if any(fnmatchcase("execute-api:invoke", action.lower()) for action in _as_list(statement["Action"])):
            allows = statement["Effect"] == "Allow"
            statements += [(allows, str(resource)) for resource in _as_list(statement["Resource"])]
    context = {"principalId": str(response["principalId"])}
    for name, value in (response.get("context") or {}).items():
        if not isinstance(value, (str, int, float, bool)):
            raise TypeError(f"the authorizer's context value {name} is not a string, number or boolean")
        context[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return AuthorizerPolicy(tuple(statements), context)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
