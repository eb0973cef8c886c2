"""Requests to a service that never answers end before the timeout of the function."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import DeltaicError, Unavailable
from deltaic.storage.aws_client import ATTEMPTS, CATALOG, CONTROL, MAX_PAUSE_SECONDS, control_client
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.objects import ObjectTableStore
from deltaic.storage.server_secret import server_secret
from deltaic.storage.sessions import SigningSessions
from deltaic_ops.deploy.sam_template import load_template

BEARER = "dlt_" + "A" * 43
ROLE = "arn:aws:iam::000000000000:role/reader"


def limits() -> tuple[float, float]:
    """Return the shortest timeout of the functions and that of the authorizer, without streaming."""
    functions = load_template(parameters={"ResponseStreaming": "disabled"}).functions
    return min(function.timeout for name, function in functions.items() if name != "Authorizer"), functions[
        "Authorizer"
    ].timeout


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the endpoint of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.slow
def test_every_call_ends_in_503_before_its_function_does(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    shared, authorizer = limits()
    dynamo = Dynamo(lambda: control_client("dynamodb", "us-east-1", silent, CATALOG))
    sessions = SigningSessions(ROLE, endpoint=silent)
    objects = ObjectTableStore(
        TableLocations.parse("s3://bucket/t"),
        StorageConfig(endpoint=silent, path_style=True),
        lambda: Credentials("a", "b"),
    )
    calls: dict[str, tuple[float, Callable[[], object]]] = {
        "token": (authorizer, lambda: TokenStore("tokens", dynamo).authenticate(BEARER)),
        "role": (shared, lambda: sessions.credentials("alice", StorageConfig())),
        "keys": (shared, lambda: sessions.credentials("alice", StorageConfig(secret="keys"))),
        "token_key": (shared, lambda: server_secret("key", "us-east-1", silent)),
        "listing": (shared, lambda: list(objects.list_log())),
        "object": (shared, lambda: objects.get("x")),
        "objects": (shared, lambda: objects.get_many(["x", "y"])),
        "range": (shared, lambda: objects.get_ranges("x", [(0, 4)])),
        "tail": (shared, lambda: objects.get_tail("x", 4)),
    }
    with ThreadPoolExecutor(len(calls)) as threads:
        results = dict(zip(calls, threads.map(lambda name: wait_for_error(calls[name][1]), calls), strict=True))
    for name, (limit, _) in calls.items():
        error, seconds = results[name]
        assert isinstance(error, Unavailable), name
        assert (error.status, error.code) == (503, "TEMPORARILY_UNAVAILABLE")
        assert seconds < limit, name


def wait_for_error(call: Callable[[], object]) -> tuple[DeltaicError, float]:
    """Return the error of a call, and its duration in seconds."""
    began = time.monotonic()
    with pytest.raises(DeltaicError) as failure:
        call()
    return failure.value, time.monotonic() - began


@pytest.mark.parametrize("service", ["dynamodb", "sts", "secretsmanager"])
def test_attempts_and_pauses_together_fit_into_the_function(service: str) -> None:
    """Calculated from the settings of the clients, without a connection or an answer."""
    shared, authorizer = limits()
    timeouts, limit = (CATALOG, authorizer) if service == "dynamodb" else (CONTROL, shared)
    attempts = ATTEMPTS * (timeouts.connect + timeouts.read) + (ATTEMPTS - 1) * MAX_PAUSE_SECONDS
    assert attempts < limit
