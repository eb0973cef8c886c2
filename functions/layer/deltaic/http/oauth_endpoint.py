"""OAuth endpoints: the token endpoint, the public signing key, and the server metadata (RFC 8414)."""

import json
from http import HTTPStatus
from typing import Any, Final

from deltaic.errors import NotFound
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response
from deltaic.settings import settings
from deltaic.sign_in.token_issuing import Denied, published_key, token_issuing
from deltaic.snapstart import load_before_snapshot

load_before_snapshot(
    "cryptography.hazmat.primitives.asymmetric.utils", "cryptography.hazmat.primitives.serialization", "jwt.algorithms"
)

_JSON: Final = {"content-type": "application/json"}
_SECRET: Final = {**_JSON, "cache-control": "no-store", "pragma": "no-cache"}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def issue_token(request: PublicRequest) -> Response:
    """Respond to POST /oauth/token with an access token or an error, as RFC 6749 specifies."""
    authorization = request.headers.get("authorization", "")
    try:
        client, grant = token_issuing().grant(_issuer(request), request.body, authorization)
    except Denied as denied:
        is_unauthorized = denied.error == "invalid_client"
        status = HTTPStatus.UNAUTHORIZED if is_unauthorized else HTTPStatus.BAD_REQUEST
        challenge = {"www-authenticate": 'Basic realm="deltaic"'} if is_unauthorized else {}
        body = {"error": denied.error, "error_description": denied.description}
        return Response(status, {**_SECRET, **challenge}, json.dumps(body).encode())
    request.audit.add(recipientId=client.recipient_id, clientId=client.id)
    return Response(headers=_SECRET, body=json.dumps(grant).encode())


def get_document(request: PublicRequest) -> Response:
    """Respond to GET /.well-known/jwks.json and oauth-authorization-server; raises NotFound for other documents."""
    issuer = _issuer(request)
    documents: dict[str, Any] = {
        "jwks.json": lambda: {"keys": [published_key()]},
        "oauth-authorization-server": lambda: {
            "issuer": issuer,
            "token_endpoint": f"{issuer}/oauth/token",
            "jwks_uri": f"{issuer}/.well-known/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        },
    }
    if request.names["document"] not in documents:
        raise NotFound("This document does not exist. Request jwks.json or oauth-authorization-server.")
    return Response(headers=_JSON, body=json.dumps(documents[request.names["document"]]()).encode())


def oauth(request: PublicRequest) -> Response:
    """Respond to a request on any OAuth route."""
    return get_document(request) if "document" in request.names else issue_token(request)


def _issuer(request: PublicRequest) -> str:
    """Return the OAuth issuer: the endpoint's URL with the Host header, which API Gateway has checked."""
    host = request.headers.get("host", "")
    scheme = "http" if host.rpartition(":")[0] in _LOOPBACK else "https"
    return f"{scheme}://{host}/{settings().prefix}"
