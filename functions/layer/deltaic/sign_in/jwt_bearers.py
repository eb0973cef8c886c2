"""Whose a JWT is: its issuer is one that a policy names, its claims are meant by it, and its signature is true.

Asked in this order, so that nobody is called for a token that no policy means, and a stranger's issuer never.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from deltaic.catalog.credentials.oauth_clients import ClientStore
from deltaic.catalog.credentials.policies import Policies
from deltaic.catalog.items import OAuthClient, Policy
from deltaic.identity import claims, jose
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.jose import JwtRejected
from deltaic.identity.server_tokens import KID_PREFIX


class Bearer(NamedTuple):
    """A recipient, by what it got in."""

    recipient_id: str
    recipient: str
    id: str
    """Of the token, or what stands for it in every log: harmless, and the same for all JWTs of a policy."""


class ServerClients(NamedTuple):
    """What tells the bearer of a JWT of ours: its clients, and the key that signs for them."""

    clients: ClientStore
    keys: IssuerKeys


class JwtBearers:
    """The recipients whose JWTs an issuer signs, or we; `own` is None where we sign none."""

    def __init__(
        self,
        policies: Policies,
        keys: IssuerKeys,
        own: ServerClients | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policies = policies
        self._keys = keys
        self._own = own
        self._clock = clock

    def authenticate(self, token: str) -> Bearer:
        """Return the bearer of a JWT; raises JwtRejected, with the reason for the log.

        Policies of two recipients that mean the same token let in neither: whose grants were they?
        """
        jwt = jose.read(token)
        if self._own is not None and jwt.kid.startswith(KID_PREFIX):
            return self._own_bearer(jwt, self._own)
        issuer = claims.issuer_of(jwt.claims)
        policies = self._policies.of_issuer(issuer)
        if not policies:
            raise JwtRejected("no policy names its issuer")
        claims.check_times(jwt.claims, self._clock())
        meaning = [
            policy
            for policy in policies
            if claims.meant(
                jwt.claims, audience=policy.audience, claim=policy.subject_claim, subject=policy.subject
            )
        ]  # fmt: skip
        if not meaning:
            raise JwtRejected("no policy on its issuer means its audience and its subject")
        if len({policy.recipient_id for policy in meaning}) > 1:
            raise JwtRejected("policies of several recipients mean it: remove all but one recipient's")
        jose.check_signature(jwt, self._keys.key(issuer, jwt))
        first = min(meaning, key=lambda policy: policy.id)
        return Bearer(first.recipient_id, first.recipient, logged_id(first))

    def _own_bearer(self, jwt: jose.Jwt, own: ServerClients) -> Bearer:
        """Return the bearer of a JWT of ours, whose key signs nothing else; its client must still be there."""
        claims.check_times(jwt.claims, self._clock())
        jose.check_signature(jwt, own.keys.key("", jwt))
        client = own.clients.get(str(jwt.claims.get("client_id")))
        if client is None:
            raise JwtRejected("its client is revoked")
        return Bearer(client.recipient_id, client.recipient, logged_id(client))


def logged_id(key: Policy | OAuthClient) -> str:
    """Return by what logs name who came by a policy or a client: a token of theirs has no id of ours."""
    return f"jwt-{key.id if isinstance(key, Policy) else key.id[4:16]}"
