"""Fixtures for the conformance kit: a gateway with tables to which every check applies."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from conformance import shared_tables
from conformance.defects import CachingTransport, Defect, DefectiveTransport
from delta_sharing_conformance.client import SharingClient
from deltaic.sign_in.activation import profile
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer

MAPPED = Path(__file__).parent.parent / "golden" / "tables" / "column_mapping_change_feed" / "delta"


class Gateway(FilledServer):
    """The gateway, its tables and its recipients."""

    @property
    def token(self) -> str:
        return self.readers["conformance"].token

    @property
    def profile(self) -> Path:
        path = self.folder / "conformance-iceberg.share"
        path.write_text(profile(self.endpoint, self.readers["conformance"].issued, serves_iceberg=True))
        return path

    def sharing_client(self, http: httpx.Client, reader: str = "conformance") -> SharingClient:
        return SharingClient(http, self.endpoint, self.readers[reader].token, iceberg=f"{self.endpoint}/iceberg")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    entries = [
        Entry(entry.share, entry.schema, entry.table, entry.folder, entry.options) for entry in shared_tables.ENTRIES
    ]
    readers = {"conformance": sorted({entry.share for entry in entries}), "mapped": ["mapped"]}
    entries.append(Entry("mapped", "features", "names", options={"history": True}))
    with Gateway.running(tmp_path_factory.mktemp("conformance"), entries, readers) as running:
        shared_tables.fill(running.environment, DATA_BUCKET)
        shared_tables.share_folders(running.admin, DATA_BUCKET)
        running.upload(MAPPED, "names")
        yield running


@pytest.fixture(scope="session")
def cache(gateway: Gateway) -> Iterator[CachingTransport]:
    """Return a transport that sends each request to the gateway once."""
    with httpx.HTTPTransport() as transport:
        yield CachingTransport(transport, httpx.URL(gateway.stack.endpoint).path)


@pytest.fixture
def defective(
    gateway: Gateway, cache: CachingTransport
) -> Callable[[Defect | None], AbstractContextManager[SharingClient]]:
    """Return a function that yields a client of the gateway with one defect."""

    @contextmanager
    def client_with(defect: Defect | None) -> Iterator[SharingClient]:
        with httpx.Client(transport=DefectiveTransport(cache, defect)) as http:
            yield gateway.sharing_client(http)

    return client_with
