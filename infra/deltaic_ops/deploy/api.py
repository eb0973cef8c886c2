"""The template's API: its routes, its authorizer, its own answers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltaic_ops.deploy.intrinsics import TemplateError, function_name

ANY = "ANY"
"""As the method of a route: all that the path has no route of its own for."""

_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, such as GET `/shares/{share}`, and the function (its logical id) that answers it."""

    method: str
    path: str
    function: str
    streamed: bool
    public: bool = False
    """Whether anybody is answered: the authorizer is not asked."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The TOKEN authorizer: its function, the header it reads, what a value must look like, seconds it is cached."""

    function: str
    header: str
    validation: re.Pattern[str]
    ttl: int

    @classmethod
    def read(cls, api: Mapping[str, Any], by_name: Mapping[str, str]) -> "Authorizer":
        """Read the default one of an API; `by_name` gives the logical id of a function."""
        response = api["Auth"]["Authorizers"][api["Auth"]["DefaultAuthorizer"]]
        identity = response["Identity"]
        return cls(
            function=by_name[function_name(response["FunctionArn"])],
            header=identity["Header"],
            validation=re.compile(identity["ValidationExpression"]),
            ttl=int(identity["ReauthorizeEvery"]),
        )


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """What the gateway itself answers for one of its error types; `status` None keeps the gateway's own."""

    status: int | None
    headers: Mapping[str, str]
    body: str

    @classmethod
    def read(cls, response: Mapping[str, Any]) -> "GatewayResponse":
        """Read one of an API's GatewayResponses."""
        headers = response.get("ResponseParameters", {}).get("Headers", {})
        return cls(
            status=int(response["StatusCode"]) if "StatusCode" in response else None,
            # A header's value is a static string in quotes; else it is a mapping, which the gateway would resolve.
            headers={name: str(value).strip("'") for name, value in headers.items()},
            body=response["ResponseTemplates"]["application/json"],
        )


def routes_of_events(logical_id: str, function: Mapping[str, Any]) -> Iterator[Route]:
    """Yield the routes that a function's events make."""
    for event in function.get("Events", {}).values():
        if event["Type"] == "Api":
            said = event["Properties"]
            public = said.get("Auth", {}).get("Authorizer") == "NONE"
            yield Route(said["Method"].upper(), said["Path"], logical_id, streamed=False, public=public)


def routes_of_body(api: Mapping[str, Any], by_name: Mapping[str, str]) -> Iterator[Route]:
    """Yield the routes that stand in the API's body; `by_name` gives the logical id of a function."""
    for path, methods in api.get("DefinitionBody", {}).get("paths", {}).items():
        for method, operation in methods.items():
            if method.upper() not in _EVERY_METHOD:
                raise TemplateError(f"{method} {path} of the API's body is not a method that the gateway can route")
            integration = operation["x-amazon-apigateway-integration"]
            yield Route(
                method.upper(),
                path,
                by_name[function_name(integration["uri"])],
                streamed=integration.get("responseTransferMode") == "STREAM",
            )
