"""Fixtures of the conformance kit: our own gateway with tables that let every check be tried."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from conformance import shared_tables
from conformance.wrong import Cached, Defect, Wrong
from delta_sharing_conformance.client import SharingClient
from deltaic.sign_in.activation import profile
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer

MAPPED = Path(__file__).parent.parent / "golden" / "tables" / "column_mapping_change_feed" / "delta"


class Gateway(FilledServer):
    """Our own server, its tables, and who may read them."""

    @property
    def token(self) -> str:
        return self.readers["conformance"].token

    @property
    def profile(self) -> Path:
        path = self.folder / "conformance-iceberg.share"
        path.write_text(profile(self.endpoint, self.readers["conformance"].issued, serves_iceberg=True))
        return path

    def caller(self, http: httpx.Client, reader: str = "conformance") -> SharingClient:
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
def answers(gateway: Gateway) -> Iterator[Cached]:
    """Return the gateway's answers, each asked for once."""
    with httpx.HTTPTransport() as transport:
        yield Cached(transport, httpx.URL(gateway.stack.endpoint).path)


@pytest.fixture
def caller(gateway: Gateway, answers: Cached) -> Callable[[Defect | None], AbstractContextManager[SharingClient]]:
    """Return a function that gives a caller of the gateway as it would be with one thing wrong."""

    @contextmanager
    def of(defect: Defect | None) -> Iterator[SharingClient]:
        with httpx.Client(transport=Wrong(answers, defect)) as client:
            yield gateway.caller(client)

    return of
