"""Parse an HTTP request into names from the route, query, headers, body and caller.

API Gateway matches the route (the only route table is template.yaml) and checks the token before a function runs. So
names and identity are in API Gateway's event, which Mangum stores in the ASGI scope.
"""

from collections.abc import Mapping
from urllib.parse import unquote

import msgspec
from msgspec import structs

from deltaic.errors import Unauthenticated
from deltaic.http.asgi import Receive, Scope
from deltaic.protocol.parameters import from_query_string
from deltaic.sharing.audit_record import AuditRecord
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.page_budget import PageBudget


class PublicRequest(msgspec.Struct, frozen=True):
    """A request on a route without authorizer."""

    method: str
    route: str
    """Path of the route in template.yaml, such as `/shares/{share}`."""
    path: str
    """The request's path without API Gateway's stage, still percent-encoded."""
    names: Mapping[str, str]
    """The route's parameters (`share`, `schema`, `table`, `queryId`), URI-decoded once."""
    query: Mapping[str, str]
    """Decoded query parameters; for a repeated parameter, its last value."""
    headers: Mapping[str, str]
    """Headers by lowercase name; values of a repeated header are joined by a comma (RFC 9110, section 5.3)."""
    body: bytes
    request_id: str
    source_ip: str
    """The client's IP address, from API Gateway."""
    audit: AuditRecord
    """Additional fields of the request's log line."""


class Request(PublicRequest, frozen=True, kw_only=True):
    """A request of an authenticated recipient."""

    caller: Caller
    page_budget: PageBudget = msgspec.field(default_factory=PageBudget)
    """Counts the bytes of the response as they are sent."""

    @property
    def table(self) -> RequestedTable:
        """The share, schema and table in the route; routes of Iceberg's catalog name the schema `namespace`."""
        schema = self.names["schema" if "schema" in self.names else "namespace"]
        return RequestedTable(self.names["share"], schema, self.names["table"])


async def read_request(scope: Scope, receive: Receive) -> Request:
    """Read a recipient's request; raises MalformedRequest, and Unauthenticated without an authorizer's result."""
    authorizer = (scope["aws.event"].get("requestContext") or {}).get("authorizer") or {}
    recipient_id, token_id = authorizer.get("recipientId"), authorizer.get("tokenId")
    if not recipient_id or not token_id:
        raise Unauthenticated("The request has no bearer token: send it as `Authorization: Bearer TOKEN`.")
    public_request = await read_public_request(scope, receive)
    caller = Caller(
        recipient_id=recipient_id,
        token_id=token_id,
        recipient=authorizer.get("recipient") or "",
        source_ip=public_request.source_ip,
    )
    return Request(**{**structs.asdict(public_request), "audit": caller.audit}, caller=caller)


async def read_public_request(scope: Scope, receive: Receive) -> PublicRequest:
    """Read a request on a route without authorizer; raises MalformedRequest."""
    event = scope["aws.event"]
    context = event.get("requestContext") or {}
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return PublicRequest(
        method=scope["method"],
        route=event.get("resource") or "",
        path=event.get("path") or "",
        # API Gateway passes the path on unchanged, so its parameters are still URI-encoded.
        names={name: unquote(value) for name, value in (event.get("pathParameters") or {}).items()},
        query=from_query_string(scope["query_string"]),
        headers=headers,
        body=bytes(body),
        request_id=context.get("requestId", ""),
        source_ip=(context.get("identity") or {}).get("sourceIp", ""),
        audit=AuditRecord(),
    )
