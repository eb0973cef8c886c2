"""Keycloak over TLS as the issuer: a client reads during key rotation, until its policy is removed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import delta_sharing
import deltalake
import httpx
import jwt
import pyarrow as pa
import pytest
from deltaic.identity.issuer_keys import RETRY_SECONDS
from deltaic_ops.cli import app
from deltaic_ops.rights.profile_file import client_profile
from filled_server import Entry, FilledServer
from identity.keycloak import KEY_PROVIDER, Keycloak, started
from typer.testing import CliRunner

pytestmark = pytest.mark.slow

MAPPER = {
    "name": "audience",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-audience-mapper",
    "config": {"included.custom.audience": "deltaic", "access.token.claim": "true"},
}
ROTATION = {
    "name": "rotated",
    "providerId": "rsa-generated",
    "providerType": KEY_PROVIDER,
    "config": {"priority": ["200"], "active": ["true"], "enabled": ["true"], "algorithm": ["RS256"]},
}


def secret_of(client: str) -> str:
    return f"the secret of {client}"


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    """Return a Keycloak, trusted by this process and those it starts, whose clients' tokens are for `deltaic`."""
    usual = {"serviceAccountsEnabled": True, "standardFlowEnabled": False, "protocolMappers": [MAPPER]}
    clients = [{"clientId": name, "secret": secret_of(name), **usual} for name in ("reports", "other")]
    with started(tmp_path_factory.mktemp("keycloak")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.certificate))
        patch.setenv("REQUESTS_CA_BUNDLE", str(running.certificate))
        # Short, so that the client requests a token each time.
        running.request("POST", "", {"realm": running.realm, "enabled": True, "accessTokenLifespan": 60})
        for client in clients:
            running.request("POST", f"/{running.realm}/clients", client)
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    """Return a server that trusts Keycloak's certificate."""
    folder = tmp_path_factory.mktemp("trusting")
    deltalake.write_deltalake(str(folder / "orders"), pa.table({"id": list(range(7))}))
    with FilledServer.running(folder, [Entry("sales", "s", "orders")], {"alice": ["sales"]}) as running:
        running.upload(folder / "orders", "orders")
        yield running


def run_json(server: FilledServer, *line: str) -> Any:
    """Run a command; return its JSON output."""
    result = CliRunner().invoke(app, [*line, "--json"], env=dict(server.environment), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def status(server: FilledServer, token: str) -> int:
    return httpx.get(f"{server.endpoint}/shares", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code


class ReadingThread(threading.Thread):
    """Thread in which the published client reads repeatedly until an error."""

    def __init__(self, profile: Path) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.stopped = threading.Event()
        self.pause_seconds = 6.0  # a few reads in the minute until the server may download keys again
        self._profile = profile

    def run(self) -> None:
        while not self.stopped.wait(self.pause_seconds):
            self.rows.append(len(delta_sharing.load_as_pandas(f"{self._profile}#sales.s.orders")))

    def keeps_reading(self, seconds: float = 0) -> bool:
        """Return whether the thread reads twice more and runs for at least so many seconds."""
        target, until = len(self.rows) + 2, time.monotonic() + seconds
        while self.is_alive() and (len(self.rows) < target or time.monotonic() < until):
            self.stopped.wait(0.1)
        return self.is_alive()


def test_keycloak_client_keeps_reading_during_key_rotation(
    keycloak: Keycloak, server: FilledServer, tmp_path: Path
) -> None:
    """Keycloak signs with a new key as soon as it publishes it, and a server downloads keys once a minute."""
    profile = tmp_path / "alice.share"
    policy = run_json(
        server, "recipient", "federate", "alice", "--issuer", keycloak.issuer, "--audience", "deltaic",
        "--subject-claim", "azp", "--subject", "reports",
    )  # fmt: skip
    assert "warnings" not in policy
    token_endpoint = f"{keycloak.issuer}/protocol/openid-connect/token"
    profile.write_text(client_profile(server.endpoint, token_endpoint, "reports", secret_of("reports")))
    before = keycloak.token("reports", secret_of("reports"))
    [old] = keycloak.signing_keys()
    assert status(server, before) == 200  # the server downloads the keys
    reading = ReadingThread(profile)
    reading.start()
    try:
        assert reading.keeps_reading(RETRY_SECONDS)
        reading.pause_seconds = 1.0
        realm = keycloak.request("GET", f"/{keycloak.realm}")["id"]
        keycloak.request("POST", f"/{keycloak.realm}/components", {**ROTATION, "parentId": realm})
        [new] = set(keycloak.signing_keys()) - {old}
        after = keycloak.token("reports", secret_of("reports"))
        assert [jwt.get_unverified_header(token)["kid"] for token in (before, after)] == [old, new]
        assert reading.keeps_reading()
        assert status(server, before) == status(server, after) == 200

        providers = keycloak.request("GET", f"/{keycloak.realm}/components?type={KEY_PROVIDER}")
        [first] = [provider["id"] for provider in providers if provider["name"] == "rsa-generated"]
        keycloak.request("DELETE", f"/{keycloak.realm}/components/{first}")
        assert keycloak.signing_keys() == [new]
        assert reading.keeps_reading()
    finally:
        reading.stopped.set()
        reading.join()
    assert set(reading.rows) == {7}

    assert status(server, keycloak.token("other", secret_of("other"))) == 401
    run_json(server, "recipient", "unfederate", "alice", policy["id"])
    assert status(server, keycloak.token("reports", secret_of("reports"))) == 401
