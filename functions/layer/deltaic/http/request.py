"""A request as its use case needs it: names from the route, query, headers, body and who asks.

The route has been matched and the token checked before a function runs (template.yaml is the only route table), so
names and identity come from the API Gateway event that Mangum keeps in the ASGI scope.
"""

from collections.abc import Mapping
from urllib.parse import unquote

import msgspec
from msgspec import structs

from deltaic.errors import Unauthenticated
from deltaic.http.asgi import Receive, Scope
from deltaic.protocol.parameters import from_query_string
from deltaic.sharing.audit_record import AuditRecord
from deltaic.sharing.caller import Caller
from deltaic.sharing.page_budget import PageBudget


class PublicRequest(msgspec.Struct, frozen=True):
    """A request of anybody: its route asks no authorizer."""

    method: str
    route: str
    """The route's path, as template.yaml has it."""
    path: str
    """The path as it was sent, below the stage."""
    names: Mapping[str, str]
    """The route's parameters (`share`, `schema`, `table`, `queryId`), URI-decoded once."""
    query: Mapping[str, str]
    """The query string, decoded; of a repeated parameter the last value."""
    headers: Mapping[str, str]
    """Lower-cased names; of a repeated header the values joined by a comma (RFC 9110, section 5.3)."""
    body: bytes
    request_id: str
    source_ip: str
    """The address that API Gateway took the request from."""
    audit: AuditRecord
    """What the access log says of the request."""


class Request(PublicRequest, frozen=True, kw_only=True):
    """A request of a recipient."""

    caller: Caller
    page_budget: PageBudget = msgspec.field(default_factory=PageBudget)
    """Counts the answer as it leaves."""


async def read_request(scope: Scope, receive: Receive) -> Request:
    """Read the whole request; raises Unauthenticated where no authorizer has spoken, MalformedRequest."""
    authorizer = (scope["aws.event"].get("requestContext") or {}).get("authorizer") or {}
    recipient_id, token_id = authorizer.get("recipientId"), authorizer.get("tokenId")
    if not recipient_id or not token_id:
        raise Unauthenticated("The request carries no bearer token.")
    sent = await read_public_request(scope, receive)
    caller = Caller(
        recipient_id=recipient_id,
        token_id=token_id,
        recipient=authorizer.get("recipient") or "",
        source_ip=sent.source_ip,
    )
    return Request(**{**structs.asdict(sent), "audit": caller.audit}, caller=caller)


async def read_public_request(scope: Scope, receive: Receive) -> PublicRequest:
    """Read the whole request; raises MalformedRequest."""
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
        # API Gateway hands the path on as it was sent, so its parameters are still URI-encoded.
        names={name: unquote(value) for name, value in (event.get("pathParameters") or {}).items()},
        query=from_query_string(scope["query_string"]),
        headers=headers,
        body=bytes(body),
        request_id=context.get("requestId", ""),
        source_ip=(context.get("identity") or {}).get("sourceIp", ""),
        audit=AuditRecord(),
    )
