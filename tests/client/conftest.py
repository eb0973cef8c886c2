"""Fixtures of the client tests: one server for the session."""

from collections.abc import Iterator

import pytest
from client.provider import Provider, provide


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("client")) as running:
        yield running
