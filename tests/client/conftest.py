"""Fixtures of the client tests: a server for the session, and the golden tables on it."""

from collections.abc import Callable, Iterator

import pytest
from client.golden_shares import Shared, share
from client.provider import Provider, provide
from golden.library import load


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture(scope="session")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shared]:
    """Return a function that shares a golden table, once per session."""
    folder = tmp_path_factory.mktemp("golden")
    tables: dict[str, Shared] = {}

    def get(name: str) -> Shared:
        if name not in tables:
            tables[name] = share(provider, load(name), folder / name)
        return tables[name]

    return get
