"""Recipients of a view read only the partition of their audience."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from contract.recipient import Recipient
from deltaic.catalog.items import ViewPartition
from deltaic.partition_filters.audiences import audience
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, SignedFiles, refused
from iceberg_clients.tables import SHARE, write
from pyiceberg.table import StaticTable

COUNTRIES: Final = ("PL", "FI")


def audience_of(country: str) -> str:
    name = audience(["country"], {"country": country})
    assert name is not None
    return name


@pytest.fixture(scope="module")
def view(server: FilledServer) -> str:
    """Create a refreshed view with rows for two countries."""
    sql = "SELECT id, note FROM source WHERE country = current_recipient('country')"
    source, location = f"{SHARE}.default.of_country", f"s3://{DATA_BUCKET}/of_each"
    created = server.admin.views.create(
        SHARE, "default", "of_each", location, source=source, sql=sql, properties=["country"], history=True
    )
    rows = {"id": [1, 2], "note": ["PL", "FI"], "_deltaic_policy": [audience_of(country) for country in COUNTRIES]}
    write(server, "of_each", pa.table(rows), partition_by=["_deltaic_policy"])
    partitions = [
        ViewPartition(
            table_id=created.table_id,
            audience=audience_of(country),
            since_version=0,
            values={"country": country},
            created_at=datetime.now(UTC),
        )
        for country in COUNTRIES
    ]
    server.admin.views.partitions.put(created, partitions)
    server.admin.tables.update(SHARE, "default", "of_each", iceberg="signed")
    return "of_each"


@pytest.mark.parametrize(("recipient", "country"), [("alice", "PL"), ("bob", "FI")])
def test_each_recipient_reads_the_rows_of_its_audience(
    catalog: Callable[..., Catalog], view: str, tmp_path: Path, recipient: str, country: str
) -> None:
    loaded = catalog(recipient).load(view)
    (tmp_path / "document.metadata.json").write_bytes(loaded.read(loaded.document["metadata-location"]))
    table = StaticTable.from_metadata(str(tmp_path / "document.metadata.json"))
    table.io = SignedFiles(loaded, tmp_path)
    assert [row["note"] for row in table.scan().to_arrow().to_pylist()] == [country]
    assert [field.name for field in table.schema().fields] == ["id", "note"]
    other = catalog("bob" if recipient == "alice" else "alice").load(view)
    [task] = table.scan().plan_files()
    refused(other.catalog.sign(other, other.url(task.file.file_path)), 403, "ForbiddenException")


def test_recipient_without_rows_is_told_to_wait_for_the_refresh(
    catalog: Callable[..., Catalog], view: str, server: FilledServer
) -> None:
    recipient = server.admin.recipients.create("erin", properties={"country": "SE"})
    server.admin.grants.create("erin", SHARE)
    client = catalog()
    client = Catalog(Recipient(client.recipient.endpoint, server.admin.tokens.create(recipient).secret), SHARE)
    reply = client.recipient.get(client.table(view))
    refused(reply, 400, "IllegalArgumentException", "has no rows for you yet")
