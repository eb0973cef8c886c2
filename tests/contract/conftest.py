"""Fixtures of the contract: one server for the session, its recipients and its tables."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from contract.recipient import Recipient, Table
from contract.server import Server, serve
from deltaic.protocol.sealed_tokens import TokenSigner


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the complete server with its tables; tests do not change the shared entries."""
    with serve(tmp_path_factory.mktemp("contract")) as running:
        yield running


@pytest.fixture
def alice(server: Server) -> Recipient:
    return server.alice


@pytest.fixture
def table(server: Server) -> Callable[[str], Table]:
    return server.table


@pytest.fixture(scope="session")
def reseal(server: Server) -> Callable[[str, str, timedelta], str]:
    """Return a function that gives a token of the server (its kind, its text) another end, counted from now."""
    environment = server.environment
    secret = server.client("secretsmanager").get_secret_value(SecretId=environment["TOKEN_KEY_SECRET"])["SecretString"]
    signer = TokenSigner(secret.encode())

    def reseal_token(kind: str, token: str, remaining: timedelta) -> str:
        claims = signer.open(kind, token)
        assert claims is not None
        return signer.seal(kind, claims.claims, ttl=remaining, now=time.time())

    return reseal_token
