"""Authenticate recipients by bearer tokens, which are opaque tokens or JWTs."""

from functools import cache
from typing import TYPE_CHECKING

from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.process_connection import dynamo
from deltaic.errors import Unauthenticated, Unavailable
from deltaic.settings import settings
from deltaic.snapstart import load_before_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltaic.catalog.items import Token
    from deltaic.identity.jose import Jwk
    from deltaic.sign_in.jwt_bearers import Bearer, JwtBearers

load_before_snapshot(
    "deltaic.sign_in.jwt_bearers",
    "deltaic.identity.key_download",
    "deltaic.sign_in.signing_key",
    "jwt",
    "jwt.algorithms",
    "jwt.exceptions",
    "logging",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.utils",
)


def authenticate(bearer: str) -> "Token | Bearer":
    """Return the recipient of a bearer token (without the word `Bearer`): `recipient_id`, `recipient` and `id`.

    Raises Unauthenticated, whose message does not reveal the reason. For a JWT, the log contains the reason.
    """
    return identify(bearer, _tokens(), _jwt_bearers)


def identify(bearer: str, opaque: TokenStore, jwts: "Callable[[], JwtBearers]") -> "Token | Bearer":
    """Return the recipient of a JWT (checked by `jwts()`) or of an opaque token (looked up in `opaque`)."""
    if bearer.count(".") != 2:  # noqa: PLR2004 -- a JWT has three parts, and an opaque token one
        return opaque.authenticate(bearer)
    from deltaic.identity.jose import JwtRejected

    try:
        return jwts().authenticate(bearer)
    except JwtRejected as reason:
        import logging

        logging.getLogger(__name__).warning("rejected a JWT: %s", reason)
        raise Unauthenticated("the JWT is not accepted: ask your share provider") from None


@cache
def _tokens() -> TokenStore:
    return TokenStore(settings().tokens_table, dynamo())


@cache
def _jwt_bearers() -> "JwtBearers":
    from deltaic.catalog.credentials.oauth_clients import ClientStore
    from deltaic.catalog.credentials.policies import Policies
    from deltaic.identity.issuer_keys import IssuerKeys
    from deltaic.identity.key_download import download_keys
    from deltaic.sign_in.jwt_bearers import JwtBearers, ServerClients

    # A local server may use an issuer on the same machine, without TLS.
    config, loopback = settings(), bool(settings().endpoint_url)
    clients = ServerClients(ClientStore(config.tokens_table, dynamo()), IssuerKeys(_server_keys))
    keys = IssuerKeys(lambda issuer: download_keys(issuer, loopback=loopback))
    return JwtBearers(Policies(config.tokens_table, dynamo()), keys, clients if config.oauth_key else None)


def _server_keys(_: str) -> "tuple[Jwk, ...]":
    from deltaic.identity.key_download import Unreachable
    from deltaic.sign_in.signing_key import public_key

    try:
        return (public_key(),)
    except Unavailable as unavailable:
        raise Unreachable("the server's key cannot be read from KMS") from unavailable
