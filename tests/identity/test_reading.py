"""Reads of the published client with each kind of profile in version 2, and refusals after a removal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from deltaic_ops.rights.profile_file import client_profile
from filled_server import FilledServer
from identity.issuer import Issuer, private_key, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running("/realms/acme") as running_issuer:
        yield running_issuer


def federate(server: FilledServer, issuer: Issuer, subject: str, name: str = "alice", **settings: Any) -> str:
    policy = server.admin.federation.create(
        server.readers[name].account, issuer.url, **{"audience": "deltaic", "claim": "azp", **settings}, subject=subject
    )
    return policy.id


def list_shares(server: FilledServer, token: str) -> httpx.Response:
    return httpx.get(f"{server.endpoint}/shares", headers={"Authorization": f"Bearer {token}"}, timeout=30)


def rows(profile: Path) -> int:
    return len(delta_sharing.load_as_pandas(f"{profile}#sales.s.orders"))


def test_client_with_a_secret_reads(server: FilledServer, issuer: Issuer, tmp_path: Path) -> None:
    federate(server, issuer, "reports")
    issuer.secrets["reports"] = "s3cret"
    profile = tmp_path / "alice.share"
    profile.write_text(client_profile(server.endpoint, f"{issuer.url}/token", "reports", "s3cret", "deltaic.read"))
    assert rows(profile) == 7


def test_client_with_a_key_reads(server: FilledServer, issuer: Issuer, tmp_path: Path) -> None:
    federate(server, issuer, "register")
    key = private_key("RS256")
    issuer.client_keys["register"] = key.public_key()
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    auth: dict[str, Any] = {
        "tokenEndpoint": f"{issuer.url}/token",
        "clientId": "register",
        "issuer": issuer.url,
        "audience": "deltaic",
        "scope": "deltaic:read",
        "privateKey": {"privateKeyFile": str(pem), "keyId": "k1", "algorithm": "RS256"},
    }
    profile = tmp_path / "alice.share"
    kind = "oauth_jwt_bearer_private_key_jwt"
    fields = {"shareCredentialsVersion": 2, "type": kind, "endpoint": server.endpoint, "auth": auth}
    profile.write_text(json.dumps(fields))
    assert rows(profile) == 7


def test_client_keeps_reading_during_key_rotation(server: FilledServer, tmp_path: Path) -> None:
    """Rotate a key as issuers do: publish the next key, sign with it, then remove the old key."""
    profile = tmp_path / "alice.share"
    stopped = threading.Event()
    read: list[int] = []

    def keep_reading() -> None:
        while not stopped.is_set():
            read.append(rows(profile))

    def reads_more(client: threading.Thread) -> bool:
        target = len(read) + 2
        while len(read) < target and client.is_alive():
            stopped.wait(0.05)
        return len(read) >= target

    with running() as issuer:
        federate(server, issuer, "steady")
        issuer.secrets["steady"] = "s3cret"
        issuer.life = 60  # short, so that the client requests a token each time
        profile.write_text(client_profile(server.endpoint, f"{issuer.url}/token", "steady", "s3cret"))
        following = ("ES256", private_key("ES256"))
        issuer.keys = {"next": following, **issuer.keys}
        client = threading.Thread(target=keep_reading)
        client.start()
        try:
            assert reads_more(client)
            issuer.keys = {"first": issuer.keys["first"], "next": following}
            assert reads_more(client)
            issuer.keys = {"next": following}
            assert reads_more(client)
        finally:
            stopped.set()
            client.join()
    assert set(read) == {7}
    assert issuer.asked.count("/keys") == 1


def test_removed_policy_refuses_only_its_own_tokens(server: FilledServer, issuer: Issuer) -> None:
    alices, bobs = (federate(server, issuer, name, name) for name in ("alice", "bob"))
    assert list_shares(server, issuer.token(azp="alice")).json()["items"] == [{"name": "sales", "id": share_id(server)}]
    assert list_shares(server, issuer.token(azp="bob")).json()["items"] == []
    server.admin.federation.remove(server.readers["alice"].account, alices)
    refused = list_shares(server, issuer.token(azp="alice"))
    assert refused.status_code == 401
    assert list_shares(server, issuer.token(azp="bob", more="x")).status_code == 200
    server.admin.federation.remove(server.readers["bob"].account, bobs)
    assert list_shares(server, issuer.token(azp="bob")).status_code == 401


def share_id(server: FilledServer) -> str:
    return server.admin.shares.get("sales").id


def test_deleted_recipients_tokens_are_refused(server: FilledServer, issuer: Issuer) -> None:
    recipient = server.admin.recipients.create("carol")
    server.admin.federation.create(recipient, issuer.url, audience="deltaic", claim="sub", subject="carol")
    assert list_shares(server, issuer.token(sub="carol")).status_code == 200
    server.admin.recipients.delete("carol")
    assert list_shares(server, issuer.token(sub="carol", more="x")).status_code == 401


def test_every_refusal_is_the_same(server: FilledServer, issuer: Issuer) -> None:
    federate(server, issuer, "dave")
    good = issuer.token(azp="dave")
    assert list_shares(server, good).status_code == 200
    forged = good.rsplit(".", 1)[0] + "." + issuer.token(azp="x").rsplit(".", 1)[1]
    attacks = [
        forged,
        issuer.token(azp="dave", aud="other"),
        issuer.token(azp="dave", exp=1),
        issuer.token({"kid": "invented"}, azp="dave"),
        issuer.token(azp="dave", iss="https://unknown.example"),
        issuer.token(azp="dave", padding="x" * 6100),
        "dlt_" + "A" * 43,
        "a.b.c",
    ]
    answers = [list_shares(server, token) for token in attacks]
    assert {answer.status_code for answer in answers} == {401}
    assert len({json.dumps(answer.json()) for answer in answers}) == 1
    assert list_shares(server, good).status_code == 200
