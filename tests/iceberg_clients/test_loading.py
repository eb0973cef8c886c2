"""Answers to loadTable: visible metadata, and access to the files."""

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, refused
from iceberg_clients.tables import ORDERS, TABLES, write

Catalogs = Callable[..., Catalog]


def denied(attempt: Callable[[], object]) -> None:
    with pytest.raises(ClientError) as caught:
        attempt()
    assert caught.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}


def object_name(uri: str) -> dict[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}


def test_metadata_is_at_its_metadata_location(catalog: Catalogs, server: FilledServer) -> None:
    loaded = catalog().load("vended")
    stored = server.client("s3").get_object(**object_name(loaded.document["metadata-location"]))["Body"].read()
    assert json.loads(stored) == loaded.metadata


def test_metadata_file_has_iceberg_s_standard_name(catalog: Catalogs) -> None:
    """`<version>-<UUID>.metadata.json`: ClickHouse refuses any other name."""
    name = catalog().load("signed").document["metadata-location"].rpartition("/")[2]
    match = re.fullmatch(r"(\d{5})-(.{36})\.metadata\.json", name)
    assert match is not None, name
    version, identifier = match.groups()
    assert (int(version), str(uuid.UUID(identifier))) == (2, identifier)


def test_credentials_have_a_prefix_for_each_location(catalog: Catalogs, server: FilledServer) -> None:
    loaded = catalog().load("vended")
    table, metadata_folder = f"s3://{DATA_BUCKET}/vended/", loaded.snapshot["manifest-list"].rpartition("/")[0]
    prefixes = [entry["prefix"] for entry in loaded.document["storage-credentials"]]
    assert prefixes[0] == table
    assert metadata_folder.startswith(prefixes[1])
    assert {json.dumps(entry["config"]) for entry in loaded.document["storage-credentials"]} == {
        json.dumps(loaded.config)
    }
    assert loaded.config["s3.endpoint"] == server.environment["AWS_ENDPOINT_URL"]
    renewed = loaded.catalog.recipient.get(f"/{loaded.config['client.refresh-credentials-endpoint']}")
    [entry] = json.loads(renewed.body)["storage-credentials"]
    assert (entry["prefix"], entry["config"].keys()) == ("s3", loaded.config.keys())


def test_credentials_read_only_files_and_metadata(catalog: Catalogs, server: FilledServer) -> None:
    loaded = catalog().load("vended")
    s3, admin = loaded.s3, server.client("s3")
    manifest_list = object_name(loaded.snapshot["manifest-list"])
    assert s3.get_object(**manifest_list)["Body"].read().startswith(b"Obj\x01")
    keys = [item["Key"] for item in admin.list_objects_v2(Bucket=DATA_BUCKET)["Contents"]]
    files = [key for key in keys if key.startswith("vended/") and "_delta_log" not in key]
    assert s3.get_object(Bucket=DATA_BUCKET, Key=files[0])["Body"].read().startswith(b"PAR1")
    other_manifest_list = object_name(catalog().load("of_country").snapshot["manifest-list"])
    attempts: tuple[Callable[[], object], ...] = (
        lambda: s3.get_object(Bucket=DATA_BUCKET, Key=next(key for key in keys if key.startswith("signed/"))),
        lambda: s3.get_object(Bucket=DATA_BUCKET, Key="vended/_delta_log/00000000000000000000.json"),
        lambda: s3.get_object(**other_manifest_list),
        lambda: s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="vended/"),
        lambda: s3.list_objects_v2(Bucket=manifest_list["Bucket"]),
        lambda: s3.put_object(Bucket=DATA_BUCKET, Key="vended/new.parquet", Body=b""),
        lambda: s3.put_object(**manifest_list, Body=b""),
        lambda: s3.delete_object(**manifest_list),
    )
    for attempt in attempts:
        denied(attempt)


def test_matching_etag_is_not_modified(catalog: Catalogs) -> None:
    loaded = catalog().load("signed")
    etag = loaded.reply.headers["etag"]
    reply = loaded.catalog.recipient.get(loaded.catalog.table("signed"), if_none_match=etag)
    assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
    of_bob = catalog("bob").recipient.get(loaded.catalog.table("of_country"), if_none_match=etag)
    assert of_bob.status == 200


def test_without_history_there_is_one_snapshot(catalog: Catalogs) -> None:
    assert versions(catalog().load("signed").metadata) == [2]


def test_with_history_each_version_is_a_snapshot_with_a_tag(catalog: Catalogs) -> None:
    metadata = catalog().load("with_history").metadata
    assert versions(metadata) == [0, 1, 2]
    assert metadata["refs"].keys() == {"main", "v0", "v1", "v2"}
    assert [int(snapshot["summary"]["total-records"]) for snapshot in metadata["snapshots"]] == [12, 13, 14]
    times = [entry["timestamp-ms"] for entry in metadata["snapshot-log"]]
    assert times == sorted(set(times))


def test_history_starts_at_the_start_version(catalog: Catalogs) -> None:
    assert versions(catalog().load("with_late_history").metadata) == [1, 2]


def versions(metadata: dict[str, Any]) -> list[int]:
    return [snapshot["snapshot-id"] - 10**12 for snapshot in metadata["snapshots"]]


def test_filtered_recipients_get_separate_metadata(catalog: Catalogs) -> None:
    alice, bob = catalog().load("of_country"), catalog("bob").load("of_country")
    assert [int(table.snapshot["summary"]["total-records"]) for table in (alice, bob)] == [4, 4]
    folders = {table.snapshot["manifest-list"].rpartition("/")[0] for table in (alice, bob)}
    assert len(folders) == 2
    unfiltered = catalog().load("signed").snapshot["manifest-list"]
    assert unfiltered.rpartition("/")[0] not in folders


def test_hidden_column_is_not_in_metadata(catalog: Catalogs) -> None:
    loaded = catalog().load("without_country")
    assert "country" not in json.dumps(loaded.metadata)
    assert int(loaded.snapshot["summary"]["total-records"]) == 12


def test_recipients_with_the_same_rights_share_metadata(catalog: Catalogs) -> None:
    alice, bob = catalog().load("signed"), catalog("bob").load("signed")
    assert alice.document["metadata-location"] == bob.document["metadata-location"]


def test_commit_adds_a_snapshot(catalog: Catalogs, server: FilledServer) -> None:
    server.admin.tables.create("lent", "default", "growing", f"s3://{DATA_BUCKET}/growing", iceberg="signed")
    write(server, "growing", ORDERS)
    before = catalog().load("growing")
    write(server, "growing", pa.table({"id": [99], "country": ["DK"], "note": ["new"]}))
    after = catalog().load("growing")
    assert int(after.snapshot["summary"]["total-records"]) == 13
    assert after.metadata["table-uuid"] == before.metadata["table-uuid"]
    assert after.reply.headers["etag"] != before.reply.headers["etag"]


def test_replaced_table_gets_new_metadata(catalog: Catalogs, server: FilledServer) -> None:
    server.admin.tables.create("lent", "default", "anew", f"s3://{DATA_BUCKET}/anew", iceberg="signed")
    write(server, "anew", ORDERS)
    before = catalog().load("anew")
    s3 = server.client("s3")
    for item in s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="anew/")["Contents"]:
        s3.delete_object(Bucket=DATA_BUCKET, Key=item["Key"])
    write(server, "anew", ORDERS.slice(0, 3))
    after = catalog().load("anew")
    assert [int(table.snapshot["summary"]["total-records"]) for table in (before, after)] == [12, 3]
    refused(after.catalog.sign(before, after.url(after.snapshot["manifest-list"])), 403, "ForbiddenException")


def test_replaced_commit_gets_new_metadata(catalog: Catalogs, server: FilledServer) -> None:
    server.admin.tables.create("lent", "default", "replaced", f"s3://{DATA_BUCKET}/replaced", iceberg="signed")
    write(server, "replaced", ORDERS)
    write(server, "replaced", ORDERS.slice(0, 3))
    before = catalog().load("replaced")
    server.client("s3").delete_object(Bucket=DATA_BUCKET, Key=f"replaced/_delta_log/{1:020d}.json")
    write(server, "replaced", ORDERS.slice(0, 5))
    after = catalog().load("replaced")
    assert [int(table.snapshot["summary"]["total-records"]) for table in (before, after)] == [15, 17]
    assert [versions(table.metadata) for table in (before, after)] == [[1], [1]]


def test_credentials_are_refused_for_filtered_grants(catalog: Catalogs, server: FilledServer) -> None:
    """The filter is of the grant, because the catalog refuses filtered tables with credentials."""
    share = "filtered_grant"
    server.admin.shares.create(share)
    server.admin.schemas.create(share, "default")
    server.admin.tables.create(share, "default", "open", f"s3://{DATA_BUCKET}/closed", **TABLES["vended"])
    client = replace(catalog(), share=share)
    server.admin.grants.create("alice", share, partition_filter="country = 'PL'")
    tables = json.loads(client.recipient.get(f"{client.namespaces}/default/tables").body)
    assert tables["identifiers"] == []
    reply = server.recipient("alice").get(f"/shares/{share}/schemas/default/tables/open")
    assert reply.json["format"] == "delta"
    refused(client.recipient.get(client.table("open")), 400, "IllegalArgumentException", "Only a part of the table")
    path = f"{client.table('open')}/credentials"
    refused(client.recipient.get(path), 400, "IllegalArgumentException", "Only a part of the table")
