"""Read the API in template.yaml: routes, authorizer, and API Gateway's own error responses."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltaic_ops.deploy.intrinsics import TemplateError, function_name

ANY = "ANY"
"""Method of a route that handles all methods of its path that have no separate route."""

_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path, such as GET `/shares/{share}`, and the logical id of the function that handles it."""

    method: str
    path: str
    function: str
    streamed: bool
    public: bool = False
    """Whether requests need no token, because the route has no authorizer."""


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
    """API Gateway's own response for an error type; `status` None means its default status."""

    status: int | None
    headers: Mapping[str, str]
    body: str

    @classmethod
    def read(cls, response: Mapping[str, Any]) -> "GatewayResponse":
        """Read one of the API's GatewayResponses from the template."""
        headers = response.get("ResponseParameters", {}).get("Headers", {})
        return cls(
            status=int(response["StatusCode"]) if "StatusCode" in response else None,
            # Static values are strings in quotes. Other values are mappings, which only the gateway can resolve.
            headers={name: str(value).strip("'") for name, value in headers.items()},
            body=response["ResponseTemplates"]["application/json"],
        )


def routes_of_events(logical_id: str, function: Mapping[str, Any]) -> Iterator[Route]:
    """Yield the routes that the Api events of a function declare."""
    for event in function.get("Events", {}).values():
        if event["Type"] == "Api":
            properties = event["Properties"]
            public = properties.get("Auth", {}).get("Authorizer") == "NONE"
            yield Route(properties["Method"].upper(), properties["Path"], logical_id, streamed=False, public=public)


def routes_of_body(api: Mapping[str, Any], by_name: Mapping[str, str]) -> Iterator[Route]:
    """Yield the routes in the API's DefinitionBody; `by_name` maps function names to logical ids."""
    for path, methods in api.get("DefinitionBody", {}).get("paths", {}).items():
        for method, operation in methods.items():
            if method.upper() not in _EVERY_METHOD:
                raise TemplateError(f"route {method} {path} in DefinitionBody: API Gateway does not support the method")
            integration = operation["x-amazon-apigateway-integration"]
            yield Route(
                method.upper(),
                path,
                by_name[function_name(integration["uri"])],
                streamed=integration.get("responseTransferMode") == "STREAM",
            )
