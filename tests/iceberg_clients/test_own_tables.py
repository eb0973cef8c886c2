"""Native Iceberg tables are shared unchanged, with all files in their folder."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from contract.recipient import Recipient, Table
from deltaic.errors import InvalidParameter
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, SignedFiles, refused
from iceberg_clients.tables import ORDERS, glue_writer
from pyiceberg.catalog.rest import RestCatalog

SHARE: Final = "iced"
NATIVE: Final[dict[str, Any]] = {"format": "iceberg", "access_modes": ("dir",), "history": True}
ROOT: Final = f"s3://{DATA_BUCKET}/iced/orders"


@pytest.fixture(scope="module")
def metadata(server: FilledServer) -> str:
    """Write an Iceberg table with two snapshots in AWS Glue; return its metadata location."""
    writer = glue_writer(server)
    writer.create_namespace("sales")
    table = writer.create_table("sales.orders", ORDERS.schema, location=ROOT)
    table.append(ORDERS)
    table.append(ORDERS.slice(0, 2))
    return str(table.metadata_location)


@pytest.fixture(scope="module")
def iceberg_catalog(server: FilledServer, metadata: str) -> Callable[..., Catalog]:
    admin, s3, glue = server.admin, server.client("s3"), server.client("glue")
    hinted = metadata.rpartition("/")[2].removesuffix(".metadata.json")
    s3.put_object(Bucket=DATA_BUCKET, Key="iced/orders/metadata/version-hint.text", Body=hinted.encode())
    glue.create_table(DatabaseName="sales", TableInput={"Name": "plain", "StorageDescriptor": {"Location": ROOT}})
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "default")
    for name, reference in {
        "signed": metadata,
        "vended": metadata,
        "hinted": "",
        "of_glue": "glue://sales/orders",
        "gone_from_glue": "glue://sales/other",
        "none_of_icebergs": "glue://sales/plain",
        "gone": f"{ROOT}/metadata/00009-x.metadata.json",
    }.items():
        access = "vended" if name == "vended" else "signed"
        admin.tables.create(SHARE, "default", name, ROOT, iceberg=access, metadata_location=reference, **NATIVE)
    inside = f"{ROOT}/metadata"
    admin.tables.create(SHARE, "default", "elsewhere", inside, iceberg="signed", metadata_location=metadata, **NATIVE)
    admin.grants.create("alice", SHARE)
    token = server.readers["alice"].token
    return lambda: Catalog(Recipient(f"{server.endpoint}/iceberg", token), SHARE)


@pytest.mark.parametrize("name", ["signed", "vended", "hinted", "of_glue"])
def test_metadata_is_unchanged(iceberg_catalog: Callable[..., Catalog], metadata: str, name: str) -> None:
    loaded = iceberg_catalog().load(name)
    assert loaded.document["metadata-location"] == metadata
    assert len(loaded.metadata["snapshots"]) == 2
    assert ("s3.access-key-id" in loaded.config) == (name == "vended")
    etag = loaded.reply.headers["etag"]
    assert loaded.catalog.recipient.get(loaded.catalog.table(name), if_none_match=etag).status == 304


def test_all_snapshots_are_read(server: FilledServer, iceberg_catalog: Callable[..., Catalog], tmp_path: Path) -> None:
    for name in ("signed", "vended"):
        token = server.readers["alice"].token
        catalog = RestCatalog("own", uri=f"{server.endpoint}/iceberg", token=token, warehouse=SHARE)
        table: Any = catalog.load_table(f"default.{name}")
        if name == "signed":
            table.io = SignedFiles(iceberg_catalog().load(name), tmp_path)
        first, last = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
        assert table.scan(snapshot_id=first).to_arrow().num_rows == 12
        assert table.scan(snapshot_id=last).to_arrow().num_rows == 14


def test_only_files_in_the_folder_are_signed(iceberg_catalog: Callable[..., Catalog]) -> None:
    loaded = iceberg_catalog().load("signed")
    url = loaded.url(ROOT)
    for path in (
        f"{url}/../../vended/x",
        f"{url}2/x",
        f"{url}/",
        f"{url}/a/../../x",
        loaded.url("s3://other/iced/orders/x"),
    ):
        refused(iceberg_catalog().sign(loaded, path), 403, "ForbiddenException")
    refused(iceberg_catalog().sign(loaded, f"{url}/metadata/x", "PUT"), 403, "ForbiddenException")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone", "Iceberg metadata does not exist"),
        ("gone_from_glue", "AWS does not have this table"),
        ("none_of_icebergs", "not an Iceberg table"),
        ("elsewhere", "outside"),
    ],
)
def test_unreadable_metadata_has_a_clear_error(iceberg_catalog: Callable[..., Catalog], name: str, text: str) -> None:
    refused(iceberg_catalog().recipient.get(iceberg_catalog().table(name)), 400, "IllegalArgumentException", text)


def test_delta_clients_get_the_iceberg_endpoint(server: FilledServer, iceberg_catalog: Callable[..., Catalog]) -> None:
    assert iceberg_catalog()
    table = Table(server.recipient("alice"), SHARE, "default", "signed")
    credentials = table.recipient.post(f"{table.path}/temporary-table-credentials", {})
    for reply in (table.at(), table.metadata(), table.query(), table.changes("?startingVersion=0"), credentials):
        reply.refused(400, "UNSUPPORTED_OPERATION", "is an Iceberg table", "icebergEndpoint")
    names = {item["name"] for item in json.loads(table.recipient.get(f"/shares/{SHARE}/all-tables").body)["items"]}
    assert "signed" in names
    assert table.recipient.get(table.path).json["format"] == "iceberg"


def test_filtered_grant_of_a_native_table_is_refused(
    server: FilledServer, iceberg_catalog: Callable[..., Catalog]
) -> None:
    carol = replace(
        iceberg_catalog(), recipient=replace(iceberg_catalog().recipient, token=server.readers["carol"].token)
    )
    server.admin.grants.create("carol", SHARE)
    assert carol.load("hinted")
    server.admin.grants.revoke("carol", SHARE)
    with pytest.raises(InvalidParameter, match="access mode 'dir'"):
        server.admin.grants.create("carol", SHARE, partition_filter="country = 'PL'")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"iceberg": ""}, "read the whole folder"),
        ({"start_version": 1}, "cannot have hidden columns, a start version or checkpoints"),
        ({"checkpoint": True}, "cannot have hidden columns, a start version or checkpoints"),
        ({"hidden_columns": ("country",)}, "cannot have hidden columns, a start version or checkpoints"),
        ({"partition_filter": "country = 'PL'"}, "cannot have access mode 'dir'"),
        ({"access_modes": ("url",)}, "read the whole folder"),
        ({"history": False}, "dir --history"),
        ({"format": "orc"}, "'delta' or 'iceberg'"),
        ({"metadata_location": "s3://lake/x.json"}, "is not a location of Iceberg metadata"),
        ({"format": "delta", "metadata_location": "glue://a/b"}, "cannot have an Iceberg metadata location"),
    ],
)
def test_invalid_entry_is_refused(
    server: FilledServer, iceberg_catalog: Callable[..., Catalog], changes: dict[str, Any], text: str
) -> None:
    assert iceberg_catalog()
    with pytest.raises(InvalidParameter, match=text):
        server.admin.tables.create(SHARE, "default", "wrong", ROOT, **{**NATIVE, "iceberg": "signed", **changes})
