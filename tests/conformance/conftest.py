"""Fixtures of the conformance kit: our own gateway with tables that let every check be tried."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from bench import conformance_tables
from conformance.wrong import Cached, Defect, Wrong
from contract.server import catalog_of
from deltaic_ops.conformance.caller import Caller
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import Stack, local_stack


@dataclass(frozen=True, repr=False)
class Gateway:
    """Our own server, its tables, and the profile of who may read them."""

    stack: Stack
    token: str
    profile: Path

    def __repr__(self) -> str:
        return f"<Gateway at {self.stack.endpoint}>"


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")  # inherited by the gateway's process
    folder = tmp_path_factory.mktemp("conformance")
    with local_stack(folder / "state", parameters={"LogLevel": "ERROR"}) as stack:
        conformance_tables.fill(stack.environment, DATA_BUCKET)
        token = conformance_tables.register(catalog_of(stack.environment))
        profile = folder / "conformance.share"
        told = {"shareCredentialsVersion": 1, "endpoint": stack.endpoint, "bearerToken": token}
        profile.write_text(json.dumps(told))
        yield Gateway(stack, token, profile)
        stack.check()


@pytest.fixture(scope="session")
def answers(gateway: Gateway) -> Iterator[Cached]:
    """Return the gateway's answers, each asked for once."""
    with httpx.HTTPTransport() as transport:
        yield Cached(transport, httpx.URL(gateway.stack.endpoint).path)


@pytest.fixture
def caller(gateway: Gateway, answers: Cached) -> Callable[[Defect | None], AbstractContextManager[Caller]]:
    """Return a function that gives a caller of the gateway as it would be with one thing wrong."""

    @contextmanager
    def of(defect: Defect | None) -> Iterator[Caller]:
        with httpx.Client(transport=Wrong(answers, defect)) as client:
            yield Caller(client, gateway.stack.endpoint, gateway.token)

    return of
