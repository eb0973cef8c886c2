"""Server for the tests of this folder that read tables."""

from collections.abc import Iterator

import deltalake
import pyarrow as pa
import pytest
from filled_server import Entry, FilledServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    """Return a server with one table of seven rows, which alice may read and bob may not."""
    folder = tmp_path_factory.mktemp("identity")
    deltalake.write_deltalake(str(folder / "orders"), pa.table({"id": list(range(7))}))
    with FilledServer.running(folder, [Entry("sales", "s", "orders")], {"alice": ["sales"], "bob": []}) as running:
        running.upload(folder / "orders", "orders")
        yield running
