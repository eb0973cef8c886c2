"""Find the recipient of a JWT: check first its issuer, then its claims, and its signature last.

Because of this order, the server never downloads keys for a token that matches no policy.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from deltaic.catalog.credentials.oauth_clients import ClientStore
from deltaic.catalog.credentials.policies import Policies
from deltaic.catalog.items import OAuthClient, Policy
from deltaic.identity import claims, jose
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.jose import JwtRejected
from deltaic.identity.server_tokens import KID_PREFIX


class Bearer(NamedTuple):
    """The recipient that a JWT authenticates."""

    recipient_id: str
    recipient: str
    id: str
    """Id for logs, the same for all JWTs that match the same policy or belong to the same client; not a secret."""


class ServerClients(NamedTuple):
    """The server's own OAuth clients, and the public key for the JWTs that the server issues to them."""

    clients: ClientStore
    keys: IssuerKeys


class JwtBearers(msgspec.Struct, frozen=True):
    """Authenticate JWTs of other issuers and, with `server_clients`, JWTs that the server has issued."""

    policies: Policies
    keys: IssuerKeys
    server_clients: ServerClients | None = None
    clock: Callable[[], float] = time.time

    def authenticate(self, token: str) -> Bearer:
        """Return the recipient of a JWT; raises JwtRejected, whose message is the reason for the log.

        Rejects a token that matches policies of two recipients, because their grants may differ.
        """
        jwt = jose.read(token)
        if self.server_clients is not None and jwt.kid.startswith(KID_PREFIX):
            return self._client_bearer(jwt, self.server_clients)
        issuer = claims.issuer_of(jwt.claims)
        policies = self.policies.of_issuer(issuer)
        if not policies:
            raise JwtRejected("no policy names the token's issuer")
        claims.check_times(jwt.claims, self.clock())
        matches = [
            policy
            for policy in policies
            if claims.matches(
                jwt.claims, audience=policy.audience, claim=policy.subject_claim, subject=policy.subject
            )
        ]  # fmt: skip
        if not matches:
            raise JwtRejected("no policy for the token's issuer matches its audience and subject")
        if len({policy.recipient_id for policy in matches}) > 1:
            raise JwtRejected("the token matches policies of several recipients: remove the policies of all but one")
        jose.check_signature(jwt, self.keys.key(issuer, jwt))
        first = min(matches, key=lambda policy: policy.id)
        return Bearer(first.recipient_id, first.recipient, logged_id(first))

    def _client_bearer(self, jwt: jose.Jwt, server_clients: ServerClients) -> Bearer:
        """Return the recipient of a JWT that the server has issued; raises JwtRejected."""
        claims.check_times(jwt.claims, self.clock())
        jose.check_signature(jwt, server_clients.keys.key("", jwt))
        client = server_clients.clients.get(str(jwt.claims.get("client_id")))
        if client is None:
            raise JwtRejected("the token's client is revoked")
        return Bearer(client.recipient_id, client.recipient, logged_id(client))


def logged_id(key: Policy | OAuthClient) -> str:
    """Return the id that logs show for the JWTs of a federation policy or an OAuth client."""
    return f"jwt-{key.id if isinstance(key, Policy) else key.id[4:16]}"
