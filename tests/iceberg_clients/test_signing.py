"""Remote signing: clients get only reads of their own files signed."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from contract.recipient import Table, data_url
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.manifests import digest
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer, dynamo_of
from iceberg_clients.catalog import Catalog, Loaded, SignedFiles, follow, refused
from iceberg_clients.tables import ORDERS, write
from pyiceberg.manifest import read_manifest_list

Catalogs = Callable[..., Catalog]


def files_of(loaded: Loaded, folder: Path) -> list[str]:
    """Return the data files of a loaded table, read by Iceberg's library with signed requests."""
    io = SignedFiles(loaded, folder)
    return [
        entry.data_file.file_path
        for manifest in read_manifest_list(io.new_input(loaded.snapshot["manifest-list"]))
        for entry in manifest.fetch_manifest_entry(io)
    ]


def test_client_reads_its_files_and_metadata(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    files = files_of(loaded, tmp_path)
    assert len(files) == 5
    assert all(loaded.read(uri).startswith(b"PAR1") for uri in files)
    signed = loaded.catalog.sign(loaded, loaded.url(files[0]), Range="bytes=0-3")
    assert follow(json.loads(signed.body), range="bytes=0-3").body == b"PAR1"
    head = loaded.catalog.sign(loaded, loaded.url(files[0]), "HEAD")
    assert int(follow(json.loads(head.body), "HEAD").headers["content-length"]) > 100
    assert "s3.access-key-id" not in loaded.config


def test_s3_headers_of_the_client_are_signed(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    signed = json.loads(loaded.catalog.sign(loaded, loaded.url(uri), **{"x-amz-checksum-mode": "ENABLED"}).body)
    assert "x-amz-checksum-mode" in signed["headers"]["authorization"][0]
    assert follow(signed, **{"x-amz-checksum-mode": "ENABLED"}).status == 200


def test_bucket_may_be_in_the_host(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    key = uri.removeprefix(f"s3://{DATA_BUCKET}/")
    for host in (f"{DATA_BUCKET}.s3.us-east-1.amazonaws.com", f"{DATA_BUCKET}.localhost:1"):
        signed = json.loads(loaded.catalog.sign(loaded, f"https://{host}/{quote(key)}").body)
        # The signed URL has the host of the storage, whichever host the client named.
        assert signed["uri"].startswith(loaded.config["s3.endpoint"])
        assert follow(signed).body.startswith(b"PAR1")


@pytest.fixture(scope="module")
def other_file(server: FilledServer) -> Callable[[str], str]:
    """Return a function that finds a file of another recipient with Delta Sharing."""

    def find(recipient: str, table: str = "of_country") -> str:
        [line, *_] = Table(server.recipient(recipient), "lent", "default", table).query().only("file")
        return data_url(line).partition("?")[0]

    return find


def test_filtered_client_gets_no_files_of_others(
    catalog: Catalogs, other_file: Callable[[str], str], tmp_path: Path
) -> None:
    loaded = catalog().load("of_country")
    files = files_of(loaded, tmp_path)
    assert ["country=PL" in uri for uri in files] == [True]
    assert loaded.read(files[0]).startswith(b"PAR1")
    refused(loaded.catalog.sign(loaded, other_file("bob")), 403, "ForbiddenException", "is not a file of the table")
    bob = catalog("bob").load("of_country")
    refused(bob.catalog.sign(bob, bob.url(files[0])), 403, "ForbiddenException")
    # The same applies to metadata of other recipients, even if bob knows its location.
    refused(bob.catalog.sign(bob, bob.url(loaded.snapshot["manifest-list"])), 403, "ForbiddenException")
    assert bob.read(bob.snapshot["manifest-list"]).startswith(b"Obj\x01")


def test_token_of_another_recipient_is_refused(catalog: Catalogs, tmp_path: Path) -> None:
    alice, bob = catalog().load("of_country"), catalog("bob").load("of_country")
    [file] = files_of(alice, tmp_path)
    stolen = replace(bob, document={**bob.document, "config": alice.config})
    refused(bob.catalog.sign(stolen, bob.url(file)), 403, "ForbiddenException", "load it again")


def forbidden_urls(uri: str, loaded: Loaded) -> Mapping[str, str]:
    """Return URLs that must not be signed, by the action that they would allow."""
    url, folder = loaded.url(uri), loaded.snapshot["manifest-list"].rpartition("/l/")[0]
    table = url.rpartition("/country=")[0]
    return {
        "the log": f"{table}/_delta_log/00000000000000000000.json",
        "dots out of the table": f"{table}/country=FI/../../vended/_delta_log/00000000000000000000.json",
        "escaped dots": f"{loaded.url(folder)}/%2e%2e/%2e%2e/x",
        "dots out of what was made": f"{loaded.url(folder)}/../all/d/x.json",
        "an index": f"{loaded.url(folder)}/i/{2:020d}.index",
        "the bucket": url.rpartition(f"/{DATA_BUCKET}/")[0] + f"/{DATA_BUCKET}",
        "a listing": url.rpartition(f"/{DATA_BUCKET}/")[0] + f"/{DATA_BUCKET}/?list-type=2",
        "an older version": f"{url}?versionId=1",
        "its rights": f"{url}?acl",
        "a fragment": f"{url}#x",
        "another bucket": url.replace(f"/{DATA_BUCKET}/", "/another/"),
        "half of a name": url[:-1],
        "no object": loaded.config["s3.endpoint"],
        "nothing": "",
    }


def test_only_files_of_the_set_are_signed(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    for action, url in forbidden_urls(uri, loaded).items():
        reply = loaded.catalog.sign(loaded, url)
        assert reply.status == 403, (action, reply.body)
        refused(reply, 403, "ForbiddenException")


def test_object_outside_the_table_s_locations_is_never_signed(catalog: Catalogs, server: FilledServer) -> None:
    """This applies even if the index lists the digest of the object."""
    server.admin.tables.create("lent", "default", "listing", f"s3://{DATA_BUCKET}/listing", iceberg="signed")
    write(server, "listing", ORDERS)
    loaded = catalog().load("listing")
    s3, (bucket, _, folder) = server.client("s3"), loaded.snapshot["manifest-list"].removeprefix("s3://").partition("/")
    folder = folder.rpartition("/l/")[0]
    [index_object] = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/i/")["Contents"]
    index_key = index_object["Key"]
    index = FileIndex.decode(s3.get_object(Bucket=bucket, Key=index_key)["Body"].read())
    inside, outside = f"s3://{DATA_BUCKET}/listing/x.parquet", f"s3://{DATA_BUCKET}/vended/x.parquet"
    [manifest] = index.manifests
    digests = b"".join(digest(f"s3://{bucket}/{folder}", uri) for uri in (inside, outside))
    changed = msgspec.structs.replace(index, manifests=(msgspec.structs.replace(manifest, digests=digests),))
    s3.put_object(Bucket=bucket, Key=index_key, Body=changed.encode())
    assert loaded.catalog.sign(loaded, loaded.url(inside)).status == 200
    refused(loaded.catalog.sign(loaded, loaded.url(outside)), 403, "ForbiddenException")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "get", ""])
def test_no_other_method_is_signed(catalog: Catalogs, method: str) -> None:
    loaded = catalog().load("signed")
    refused(
        loaded.catalog.sign(loaded, loaded.url(loaded.snapshot["manifest-list"]), method), 403, "ForbiddenException"
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"method": 1, "uri": "x"}', b'{"method": "GET"}', b"\xff", b'{"a":' * 9_999]
)
def test_invalid_body_is_refused(catalog: Catalogs, body: bytes) -> None:
    loaded = catalog().load("signed")
    reply = loaded.catalog.recipient.post(f"/{loaded.config['s3.signer.endpoint']}", body)
    refused(reply, 400, "BadRequestException")


def test_invalid_uri_is_a_bad_request(catalog: Catalogs) -> None:
    loaded = catalog().load("signed")
    refused(loaded.catalog.sign(loaded, "http://[::1/x"), 400, "BadRequestException")


def test_requests_for_tables_with_credentials_are_not_signed(catalog: Catalogs) -> None:
    vended, signed = catalog().load("vended"), catalog().load("signed")
    path = signed.config["s3.signer.endpoint"].replace("/signed/sign", "/vended/sign")
    body = {"method": "GET", "uri": vended.url(vended.snapshot["manifest-list"])}
    refused(vended.catalog.recipient.post(f"/{path}", body), 403, "ForbiddenException", "with credentials")


def test_token_is_valid_only_for_its_table(catalog: Catalogs, tmp_path: Path) -> None:
    signed, history = catalog().load("signed"), catalog().load("with_history")
    [uri, *_] = files_of(history, tmp_path)
    path = signed.config["s3.signer.endpoint"].replace("/signed/sign", "/with_history/sign")
    body = {"method": "GET", "uri": history.url(uri)}
    refused(signed.catalog.recipient.post(f"/{path}", body), 403, "ForbiddenException", "load it again")
    for token in ("", "x"):
        reply = signed.catalog.recipient.post(f"{history.catalog.table('with_history')}/sign?set={token}", body)
        refused(reply, 403, "ForbiddenException", "load it again")


def test_revoked_grant_ends_signing_immediately(catalog: Catalogs, server: FilledServer, tmp_path: Path) -> None:
    dora = server.admin.recipients.create("dora")
    server.admin.grants.create("dora", "lent")
    client = catalog()
    client = replace(client, recipient=replace(client.recipient, token=server.admin.tokens.create(dora).secret))
    loaded = client.load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    server.admin.grants.revoke("dora", "lent")
    refused(client.sign(loaded, loaded.url(uri)), 404, "NoSuchTableException")


@pytest.fixture
def limited(catalog: Catalogs, server: FilledServer) -> Iterator[tuple[Catalog, Callable[[], int]]]:
    """Return the catalog of a recipient with a limit of bytes, and a function that returns the counted bytes."""
    recipient = server.admin.recipients.create("limited")
    server.admin.grants.create("limited", "lent")
    server.admin.recipients.update("limited", bytes_per_day=5_000)
    token = server.admin.tokens.create(recipient).secret
    client = catalog()
    counters = LimitCounters(server.environment["CATALOG_TABLE"], dynamo_of(server.environment))
    yield (
        replace(client, recipient=replace(client.recipient, token=token)),
        lambda: counters.usage(recipient.id, time.time()).bytes,
    )
    server.admin.recipients.delete("limited")


def test_signed_bytes_count_against_the_limit(
    limited: tuple[Catalog, Callable[[], int]], server: FilledServer, tmp_path: Path
) -> None:
    client, counted_bytes = limited
    refused(client.recipient.get(client.table("vended")), 400, "IllegalArgumentException", "a day")
    loaded = client.load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    size = server.client("s3").head_object(Bucket=DATA_BUCKET, Key=uri.removeprefix(f"s3://{DATA_BUCKET}/"))
    client.sign(loaded, loaded.url(uri), "HEAD")
    assert counted_bytes() == 0  # metadata is not counted, either
    signed = json.loads(client.sign(loaded, loaded.url(uri), range="bytes=0-3").body)
    assert follow(signed, range="bytes=0-3").body == b"PAR1"
    for headers in ({"range": "bytes=0-99"}, {}):
        assert follow(signed, **headers).status == 403
    assert counted_bytes() == 4
    # Stores ignore invalid ranges, for example with digits of other scripts, and return the complete file.
    for open_ended in ({"range": "bytes=4-"}, {"range": "bytes=\u0660-\u0663"}, {}):
        assert client.sign(loaded, loaded.url(uri), **open_ended).status == 200
    assert counted_bytes() == 4 + 3 * size["ContentLength"]
    while counted_bytes() < 5_000:
        assert client.sign(loaded, loaded.url(uri)).status == 200
    refused(client.sign(loaded, loaded.url(uri)), 429, "TooManyRequestsException", "a day")
