"""A view, which has rows for each audience in a partition of its own, read by the recipients of two of them."""

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


def of(country: str) -> str:
    found = audience(["country"], {"country": country})
    assert found is not None
    return found


@pytest.fixture(scope="module")
def view(server: FilledServer) -> str:
    """Make a view as its refresh leaves it, with rows of all who hold the share, of whom one has none yet."""
    sql = "SELECT id, note FROM source WHERE country = current_recipient('country')"
    source, place = f"{SHARE}.default.of_country", f"s3://{DATA_BUCKET}/of_each"
    made = server.admin.views.create(
        SHARE, "default", "of_each", place, source=source, sql=sql, properties=["country"], history=True
    )
    rows = {"id": [1, 2], "note": ["PL", "FI"], "_deltaic_policy": [of(country) for country in COUNTRIES]}
    write(server, "of_each", pa.table(rows), partition_by=["_deltaic_policy"])
    partitions = [
        ViewPartition(
            table_id=made.table_id,
            audience=of(country),
            since_version=0,
            values={"country": country},
            created_at=datetime.now(UTC),
        )
        for country in COUNTRIES
    ]
    server.admin.views.partitions.put(made, partitions)
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
    assert [one["note"] for one in table.scan().to_arrow().to_pylist()] == [country]
    assert [one.name for one in table.schema().fields] == ["id", "note"]
    other = catalog("bob" if recipient == "alice" else "alice").load(view)
    [task] = table.scan().plan_files()
    refused(other.catalog.sign(other, other.url(task.file.file_path)), 403, "ForbiddenException")


def test_whose_rows_are_not_there_yet_is_told_so(
    catalog: Callable[..., Catalog], view: str, server: FilledServer
) -> None:
    person = server.admin.recipients.create("erin", properties={"country": "SE"})
    server.admin.grants.create("erin", SHARE)
    asked = catalog()
    asked = Catalog(Recipient(asked.recipient.endpoint, server.admin.tokens.create(person).secret), SHARE)
    reply = asked.recipient.get(asked.table(view))
    refused(reply, 406, "UnsupportedOperationException", "not there yet")
