"""pyiceberg reads shared tables and sees what its recipient sees.

By signed requests it reads with fsspec alone, whose s3fs goes with no release of `delta-sharing` (`test_clients.py`).
"""

import json
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from contract.recipient import Recipient
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.rights.profile_file import client_profile
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, SignedFiles
from iceberg_clients.tables import ORDERS, options
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, RESTError, UnauthorizedError
from pyiceberg.table import Table

Opened = Callable[..., Table]


@pytest.fixture
def opened(server: FilledServer, tmp_path: Path) -> Opened:
    """Return what opens a table as a recipient; of one that is signed for, with files that are fetched so."""

    def load(name: str, recipient: str = "alice") -> Table:
        endpoint, token = f"{server.endpoint}/iceberg", server.readers[recipient].token
        table: Table = RestCatalog("lent", uri=endpoint, token=token, warehouse="lent").load_table(f"default.{name}")
        if "s3.access-key-id" not in table.config:
            asked = Catalog(Recipient(endpoint, token), "lent")
            table.io = SignedFiles(asked.load(name), tmp_path)
        return table

    return load


def rows(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: int(row["id"]))


def of_delta(server: FilledServer, name: str, version: int | None = None) -> list[dict[str, object]]:
    read = deltalake.DeltaTable(f"s3://{DATA_BUCKET}/{name}", version, storage_options=options(server))
    return rows(read.to_pyarrow_table())


def test_a_table_is_read_with_credentials(server: FilledServer, opened: Opened) -> None:
    assert rows(opened("vended").scan().to_arrow()) == of_delta(server, "vended")


def test_a_table_is_read_by_signed_requests(server: FilledServer, opened: Opened) -> None:
    assert rows(opened("signed").scan().to_arrow()) == of_delta(server, "signed")


def test_each_version_can_be_read_by_its_tag(server: FilledServer, opened: Opened) -> None:
    table = opened("with_history")
    for version in range(3):
        snapshot = table.snapshot_by_name(f"v{version}")
        assert snapshot is not None
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert rows(found) == of_delta(server, "with_history", version)


def test_files_that_hold_nothing_are_not_read(opened: Opened) -> None:
    scan = opened("vended").scan("country = 'FI'")
    assert len(list(scan.plan_files())) == 1
    assert {row["country"] for row in scan.to_arrow().to_pylist()} == {"FI"}


@pytest.mark.parametrize(("recipient", "country"), [("alice", "PL"), ("bob", "FI")])
def test_a_filtered_recipient_reads_its_rows(opened: Opened, recipient: str, country: str) -> None:
    expected = rows(ORDERS.filter(pa.compute.equal(ORDERS["country"], country)))
    assert rows(opened("of_country", recipient).scan().to_arrow()) == expected


def test_a_hidden_column_is_not_there(opened: Opened) -> None:
    found = opened("without_country").scan().to_arrow()
    assert rows(found) == rows(ORDERS.drop_columns("country"))


def test_a_client_with_tokens_of_its_own_reads(server: FilledServer) -> None:
    issued = server.admin.clients.create(server.readers["alice"].account)
    told = json.loads(
        client_profile(
            server.endpoint, f"{server.endpoint}/oauth/token", issued.client.id, issued.secret, serves_iceberg=True
        )
    )
    catalog = RestCatalog(
        "lent",
        uri=told["icebergEndpoint"],
        credential=f"{told['clientId']}:{told['clientSecret']}",
        warehouse="lent",
        **{"oauth2-server-uri": told["tokenEndpoint"]},
    )
    assert rows(catalog.load_table("default.vended").scan().to_arrow()) == of_delta(server, "vended")


def test_what_cannot_be_read_is_told(server: FilledServer, opened: Opened) -> None:
    with pytest.raises(NoSuchTableError, match="not open to Iceberg clients"):
        opened("closed")
    with pytest.raises(RESTError, match="share 'secret' not found"):
        RestCatalog("x", uri=f"{server.endpoint}/iceberg", token=server.readers["alice"].token, warehouse="secret")
    with pytest.raises(UnauthorizedError, match="ask your share provider for a new profile"):
        RestCatalog("x", uri=f"{server.endpoint}/iceberg", token="nobody", warehouse="lent")


def test_it_writes_nothing(opened: Opened) -> None:
    table = opened("vended")
    with pytest.raises((NotImplementedError, ForbiddenError, OSError), match=r"Server does not support|denied|DENIED"):
        table.append(ORDERS)
