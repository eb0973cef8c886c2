"""Test that pyiceberg reads the visible rows of shared tables.

It supports signed requests only with fsspec, whose s3fs is incompatible with `delta-sharing` (`test_clients.py`).
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

OpenTable = Callable[..., Table]


@pytest.fixture
def open_table(server: FilledServer, tmp_path: Path) -> OpenTable:
    """Return a function that opens a table as a recipient, with signed requests if necessary."""

    def load(name: str, recipient: str = "alice") -> Table:
        endpoint, token = f"{server.endpoint}/iceberg", server.readers[recipient].token
        table: Table = RestCatalog("lent", uri=endpoint, token=token, warehouse="lent").load_table(f"default.{name}")
        if "s3.access-key-id" not in table.config:
            client = Catalog(Recipient(endpoint, token), "lent")
            table.io = SignedFiles(client.load(name), tmp_path)
        return table

    return load


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def delta_rows(server: FilledServer, name: str, version: int | None = None) -> list[dict[str, object]]:
    read = deltalake.DeltaTable(f"s3://{DATA_BUCKET}/{name}", version, storage_options=options(server))
    return rows(read.to_pyarrow_table())


def test_a_table_is_read_with_credentials(server: FilledServer, open_table: OpenTable) -> None:
    assert rows(open_table("vended").scan().to_arrow()) == delta_rows(server, "vended")


def test_a_table_is_read_by_signed_requests(server: FilledServer, open_table: OpenTable) -> None:
    assert rows(open_table("signed").scan().to_arrow()) == delta_rows(server, "signed")


def test_each_version_can_be_read_by_its_tag(server: FilledServer, open_table: OpenTable) -> None:
    table = open_table("with_history")
    for version in range(3):
        snapshot = table.snapshot_by_name(f"v{version}")
        assert snapshot is not None
        actual = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert rows(actual) == delta_rows(server, "with_history", version)


def test_files_without_matching_rows_are_not_read(open_table: OpenTable) -> None:
    scan = open_table("vended").scan("country = 'FI'")
    assert len(list(scan.plan_files())) == 1
    assert {row["country"] for row in scan.to_arrow().to_pylist()} == {"FI"}


@pytest.mark.parametrize(("recipient", "country"), [("alice", "PL"), ("bob", "FI")])
def test_a_filtered_recipient_reads_its_rows(open_table: OpenTable, recipient: str, country: str) -> None:
    expected = rows(ORDERS.filter(pa.compute.equal(ORDERS["country"], country)))
    assert rows(open_table("of_country", recipient).scan().to_arrow()) == expected


def test_hidden_column_is_omitted(open_table: OpenTable) -> None:
    actual = open_table("without_country").scan().to_arrow()
    assert rows(actual) == rows(ORDERS.drop_columns("country"))


def test_client_with_oauth_reads(server: FilledServer) -> None:
    issued = server.admin.clients.create(server.readers["alice"].account)
    profile = json.loads(
        client_profile(
            server.endpoint, f"{server.endpoint}/oauth/token", issued.client.id, issued.secret, serves_iceberg=True
        )
    )
    catalog = RestCatalog(
        "lent",
        uri=profile["icebergEndpoint"],
        credential=f"{profile['clientId']}:{profile['clientSecret']}",
        warehouse="lent",
        **{"oauth2-server-uri": profile["tokenEndpoint"]},
    )
    assert rows(catalog.load_table("default.vended").scan().to_arrow()) == delta_rows(server, "vended")


def test_unreadable_tables_have_clear_errors(server: FilledServer, open_table: OpenTable) -> None:
    with pytest.raises(NoSuchTableError, match="not open to Iceberg clients"):
        open_table("closed")
    with pytest.raises(RESTError, match="share 'secret' not found"):
        RestCatalog("x", uri=f"{server.endpoint}/iceberg", token=server.readers["alice"].token, warehouse="secret")
    with pytest.raises(UnauthorizedError, match="ask your share provider for a new profile"):
        RestCatalog("x", uri=f"{server.endpoint}/iceberg", token="nobody", warehouse="lent")


def test_writes_are_refused(open_table: OpenTable) -> None:
    table = open_table("vended")
    with pytest.raises((NotImplementedError, ForbiddenError, OSError), match=r"Server does not support|denied|DENIED"):
        table.append(ORDERS)
