"""Read the API of the template: routes, authorizer, and responses of the gateway itself."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltaic_ops.deploy.intrinsics import TemplateError, function_name

ANY = "ANY"
"""Method of a route that handles all methods without a separate route."""

_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path, such as GET `/shares/{share}`, with the logical id of its function."""

    method: str
    path: str
    function: str
    streamed: bool
    public: bool = False
    """Whether requests skip the authorizer."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The TOKEN authorizer: its function, header, pattern of valid values, and cache time in seconds."""

    function: str
    header: str
    validation: re.Pattern[str]
    ttl: int

    @classmethod
    def read(cls, api: Mapping[str, Any], by_name: Mapping[str, str]) -> "Authorizer":
        """Read the default authorizer of an API; `by_name` maps function names to logical ids."""
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
    """Response of the gateway to an error type; `status` None keeps its default."""

    status: int | None
    headers: Mapping[str, str]
    body: str

    @classmethod
    def read(cls, response: Mapping[str, Any]) -> "GatewayResponse":
        """Read an entry of the API's GatewayResponses."""
        headers = response.get("ResponseParameters", {}).get("Headers", {})
        return cls(
            status=int(response["StatusCode"]) if "StatusCode" in response else None,
            # Static values are strings in quotes. Other values are mappings, which only the gateway can resolve.
            headers={name: str(value).strip("'") for name, value in headers.items()},
            body=response["ResponseTemplates"]["application/json"],
        )


def routes_of_events(logical_id: str, function: Mapping[str, Any]) -> Iterator[Route]:
    """Yield the routes in the events of a function."""
    for event in function.get("Events", {}).values():
        if event["Type"] == "Api":
            properties = event["Properties"]
            public = properties.get("Auth", {}).get("Authorizer") == "NONE"
            yield Route(properties["Method"].upper(), properties["Path"], logical_id, streamed=False, public=public)


def routes_of_body(api: Mapping[str, Any], by_name: Mapping[str, str]) -> Iterator[Route]:
    """Yield the routes in the API's body; `by_name` maps function names to logical ids."""
    for path, methods in api.get("DefinitionBody", {}).get("paths", {}).items():
        for method, operation in methods.items():
            if method.upper() not in _EVERY_METHOD:
                raise TemplateError(f"{method} {path} in the API's body: the gateway does not support this method")
            integration = operation["x-amazon-apigateway-integration"]
            yield Route(
                method.upper(),
                path,
                by_name[function_name(integration["uri"])],
                streamed=integration.get("responseTransferMode") == "STREAM",
            )
