"""OAuth token endpoint (RFC 6749, client credentials grant): issue short-lived JWTs to clients."""

import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus
from uuid import uuid4

import msgspec

from deltaic.catalog.credentials.oauth_clients import ClientStore
from deltaic.catalog.items import OAuthClient
from deltaic.catalog.process_connection import dynamo
from deltaic.identity.jose import Jwk
from deltaic.identity.server_tokens import signed_token
from deltaic.settings import settings
from deltaic.sign_in.signing_key import public_key, server_key

_MOST_BYTES: Final = 8192
_MOST_FIELDS: Final = 20
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")
_LONGEST_SCOPE: Final = 500


class Denied(Exception):
    """Error for a rejected token request, with an error code of RFC 6749."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


class TokenIssuing(msgspec.Struct, frozen=True):
    """Issue JWTs to clients. `key` returns the public key, and `sign` signs bytes with its private key."""

    clients: ClientStore
    key: Callable[[], Jwk]
    sign: Callable[[bytes], bytes]
    life_seconds: int
    clock: Callable[[], float] = time.time

    def grant(self, issuer: str, body: bytes, authorization: str) -> tuple[OAuthClient, dict[str, Any]]:
        """Return the client that sent a token request, and the response to send; raises Denied, Unavailable."""
        form = _form(body)
        client_id, secret = _credentials(form, authorization)
        if "grant_type" not in form:
            raise Denied("invalid_request", "the form has no grant_type: add grant_type=client_credentials")
        if form["grant_type"] != "client_credentials":
            raise Denied("unsupported_grant_type", "the grant_type is not supported: use client_credentials")
        scope = form.get("scope", "")
        if scope and (len(scope) > _LONGEST_SCOPE or not _SCOPE.fullmatch(scope)):
            raise Denied("invalid_scope", "the scope is invalid or too long: separate scope names by single spaces")
        client = self.clients.authenticate(client_id, secret)
        if client is None:
            raise Denied("invalid_client", "the client is unknown, revoked, or has another secret")
        issued_at = int(self.clock())
        claims = {
            "iss": issuer,
            "aud": issuer,
            "sub": client.id,
            "client_id": client.id,
            "iat": issued_at,
            "exp": issued_at + self.life_seconds,
            "jti": uuid4().hex,
        }
        token = signed_token(claims, self.key(), self.sign)
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.life_seconds}
        return client, {**answer, "scope": scope} if scope else answer


published_key = cache(public_key)
"""Returns the server's public key, which a process reads only once."""


@cache
def token_issuing() -> TokenIssuing:
    """Return the `TokenIssuing` object of this process."""
    clients = ClientStore(settings().tokens_table, dynamo())
    return TokenIssuing(clients, published_key, server_key().sign, 60 * settings().token_minutes)


def _form(body: bytes) -> Mapping[str, str]:
    try:
        fields = parse_qsl(
            body[: _MOST_BYTES + 1].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Denied("invalid_request", "the body is not a form: send application/x-www-form-urlencoded") from None
    if len(body) > _MOST_BYTES:
        raise Denied("invalid_request", f"the form is longer than {_MOST_BYTES} bytes")
    form = dict(fields)
    if len(form) != len(fields):
        raise Denied("invalid_request", "the form contains a field more than once")
    return form


def _credentials(form: Mapping[str, str], authorization: str) -> tuple[str, str]:
    if not authorization:
        return form.get("client_id", ""), form.get("client_secret", "")
    if "client_secret" in form:
        raise Denied("invalid_request", "the header and the form both contain credentials: send only one of them")
    scheme, _, encoded = authorization.partition(" ")
    try:
        client_id, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        client_id, secret = "", ""
    if scheme.lower() != "basic":
        raise Denied("invalid_client", "the Authorization header does not use Basic: use Basic, or the form")
    return unquote_plus(client_id), unquote_plus(secret)
