"""Server with tables for Iceberg clients, and recipients with different rights."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from contract.recipient import Recipient
from filled_server import Entry, FilledServer
from iceberg_clients.catalog import Catalog
from iceberg_clients.tables import LOCATIONS, ORDERS, RECIPIENTS, SHARE, TABLES, write


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    entries = [Entry(SHARE, "default", name, LOCATIONS.get(name, name), options) for name, options in TABLES.items()]
    folder = tmp_path_factory.mktemp("iceberg")
    with FilledServer.running(folder, [*entries, Entry(SHARE, "empty")], RECIPIENTS) as running:
        for name in sorted({LOCATIONS.get(name, name) for name in TABLES}):
            write(running, name, ORDERS, partition_by=["country"])
        for number in (100, 101):
            for name in ("vended", "signed", "with_history", "with_late_history"):
                more = pa.table({"id": [number], "country": ["NO"], "note": ["later"]})
                write(running, name, more)
        for name, country in {"alice": "PL", "bob": "FI"}.items():
            running.admin.recipients.update(name, add_properties={"country": country})
        running.admin.recipients.update("dave", bytes_per_day=10**9)
        yield running


@pytest.fixture(scope="session")
def catalog(server: FilledServer) -> Callable[..., Catalog]:
    """Return a function that creates a recipient's catalog client."""
    return lambda name="alice": Catalog(Recipient(f"{server.endpoint}/iceberg", server.recipient(name).token), SHARE)
