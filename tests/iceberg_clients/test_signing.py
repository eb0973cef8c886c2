"""Remote signing: a reader gets reads of its own files signed, and nothing else of anybody's."""

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
    """Return the data files that a loaded table names, by Iceberg's own library over signed requests."""
    io = SignedFiles(loaded, folder)
    return [
        entry.data_file.file_path
        for manifest in read_manifest_list(io.new_input(loaded.snapshot["manifest-list"]))
        for entry in manifest.fetch_manifest_entry(io)
    ]


def test_a_reader_gets_its_files_and_its_metadata(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    files = files_of(loaded, tmp_path)
    assert len(files) == 5
    assert all(loaded.read(uri).startswith(b"PAR1") for uri in files)
    signed = loaded.catalog.sign(loaded, loaded.url(files[0]), Range="bytes=0-3")
    assert follow(json.loads(signed.body), range="bytes=0-3").body == b"PAR1"
    head = loaded.catalog.sign(loaded, loaded.url(files[0]), "HEAD")
    assert int(follow(json.loads(head.body), "HEAD").headers["content-length"]) > 100
    assert "s3.access-key-id" not in loaded.config


def test_what_a_client_sends_of_s3s_own_is_signed_with_it(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    signed = json.loads(loaded.catalog.sign(loaded, loaded.url(uri), **{"x-amz-checksum-mode": "ENABLED"}).body)
    assert "x-amz-checksum-mode" in signed["headers"]["authorization"][0]
    assert follow(signed, **{"x-amz-checksum-mode": "ENABLED"}).status == 200


def test_the_bucket_may_stand_before_the_host(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    key = uri.removeprefix(f"s3://{DATA_BUCKET}/")
    for host in (f"{DATA_BUCKET}.s3.us-east-1.amazonaws.com", f"{DATA_BUCKET}.localhost:1"):
        signed = json.loads(loaded.catalog.sign(loaded, f"https://{host}/{quote(key)}").body)
        # It goes where the file lies, whatever host was named.
        assert signed["uri"].startswith(loaded.config["s3.endpoint"])
        assert follow(signed).body.startswith(b"PAR1")


@pytest.fixture(scope="module")
def other_file(server: FilledServer) -> Callable[[str], str]:
    """Return a file that another recipient is given, by Delta Sharing."""

    def find(recipient: str, table: str = "of_country") -> str:
        [line, *_] = Table(server.recipient(recipient), "lent", "default", table).query().only("file")
        return data_url(line).partition("?")[0]

    return find


def test_a_filtered_reader_gets_its_rows_and_no_file_of_others(
    catalog: Catalogs, other_file: Callable[[str], str], tmp_path: Path
) -> None:
    loaded = catalog().load("of_country")
    files = files_of(loaded, tmp_path)
    assert ["country=PL" in uri for uri in files] == [True]
    assert loaded.read(files[0]).startswith(b"PAR1")
    refused(loaded.catalog.sign(loaded, other_file("bob")), 403, "ForbiddenException", "not one of this table's files")
    bob = catalog("bob").load("of_country")
    refused(bob.catalog.sign(bob, bob.url(files[0])), 403, "ForbiddenException")
    # Nor the metadata that names others' files, whose place bob may have been told by somebody.
    refused(bob.catalog.sign(bob, bob.url(loaded.snapshot["manifest-list"])), 403, "ForbiddenException")
    assert bob.read(bob.snapshot["manifest-list"]).startswith(b"Obj\x01")


def test_a_set_of_another_recipient_opens_nothing(catalog: Catalogs, tmp_path: Path) -> None:
    alice, bob = catalog().load("of_country"), catalog("bob").load("of_country")
    [mine] = files_of(alice, tmp_path)
    stolen = replace(bob, document={**bob.document, "config": alice.config})
    refused(bob.catalog.sign(stolen, bob.url(mine)), 403, "ForbiddenException", "load it again")


def of(uri: str, loaded: Loaded) -> Mapping[str, str]:
    """Return requests that no reader of a file may have signed, by what they would do."""
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


def test_nothing_but_the_files_of_the_set_is_signed(catalog: Catalogs, tmp_path: Path) -> None:
    loaded = catalog().load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    for what, url in of(uri, loaded).items():
        reply = loaded.catalog.sign(loaded, url)
        assert reply.status == 403, (what, reply.body)
        refused(reply, 403, "ForbiddenException")


def test_object_outside_the_table_s_locations_is_never_signed(catalog: Catalogs, server: FilledServer) -> None:
    """Not even one that the index lists, as it would list an object whose name has a file's digest."""
    server.admin.tables.create("lent", "default", "listing", f"s3://{DATA_BUCKET}/listing", iceberg="signed")
    write(server, "listing", ORDERS)
    loaded = catalog().load("listing")
    s3, (bucket, _, folder) = server.client("s3"), loaded.snapshot["manifest-list"].removeprefix("s3://").partition("/")
    folder = folder.rpartition("/l/")[0]
    [found] = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/i/")["Contents"]
    index_key = found["Key"]
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
def test_a_body_that_cannot_be_read_gets_nothing(catalog: Catalogs, body: bytes) -> None:
    loaded = catalog().load("signed")
    reply = loaded.catalog.recipient.post(f"/{loaded.config['s3.signer.endpoint']}", body)
    refused(reply, 400, "BadRequestException")


def test_no_uri_is_a_bad_request_of_its_own(catalog: Catalogs) -> None:
    loaded = catalog().load("signed")
    refused(loaded.catalog.sign(loaded, "http://[::1/x"), 400, "BadRequestException")


def test_a_table_that_is_read_with_credentials_is_not_signed_for(catalog: Catalogs) -> None:
    vended, signed = catalog().load("vended"), catalog().load("signed")
    path = signed.config["s3.signer.endpoint"].replace("/signed/sign", "/vended/sign")
    asked = {"method": "GET", "uri": vended.url(vended.snapshot["manifest-list"])}
    refused(vended.catalog.recipient.post(f"/{path}", asked), 403, "ForbiddenException", "with credentials")


def test_a_set_serves_its_own_table_alone(catalog: Catalogs, tmp_path: Path) -> None:
    signed, history = catalog().load("signed"), catalog().load("with_history")
    [uri, *_] = files_of(history, tmp_path)
    path = signed.config["s3.signer.endpoint"].replace("/signed/sign", "/with_history/sign")
    asked = {"method": "GET", "uri": history.url(uri)}
    refused(signed.catalog.recipient.post(f"/{path}", asked), 403, "ForbiddenException", "load it again")
    for token in ("", "x"):
        reply = signed.catalog.recipient.post(f"{history.catalog.table('with_history')}/sign?set={token}", asked)
        refused(reply, 403, "ForbiddenException", "load it again")


def test_a_revoked_grant_ends_signing_at_once(catalog: Catalogs, server: FilledServer, tmp_path: Path) -> None:
    dora = server.admin.recipients.create("dora")
    server.admin.grants.create("dora", "lent")
    asked = catalog()
    asked = replace(asked, recipient=replace(asked.recipient, token=server.admin.tokens.create(dora).secret))
    loaded = asked.load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    server.admin.grants.revoke("dora", "lent")
    refused(asked.sign(loaded, loaded.url(uri)), 404, "NoSuchTableException")


@pytest.fixture
def limited(catalog: Catalogs, server: FilledServer) -> Iterator[tuple[Catalog, Callable[[], int]]]:
    """Return what asks as a recipient whose bytes are counted, and how many have been."""
    person = server.admin.recipients.create("limited")
    server.admin.grants.create("limited", "lent")
    server.admin.recipients.update("limited", bytes_per_day=5_000)
    token = server.admin.tokens.create(person).secret
    asked = catalog()
    counters = LimitCounters(server.environment["CATALOG_TABLE"], dynamo_of(server.environment))
    yield (
        replace(asked, recipient=replace(asked.recipient, token=token)),
        lambda: counters.usage(person.id, time.time()).bytes,
    )
    server.admin.recipients.delete("limited")


def test_of_who_has_a_limit_by_bytes_what_can_be_read_is_counted(
    limited: tuple[Catalog, Callable[[], int]], server: FilledServer, tmp_path: Path
) -> None:
    asked, counted = limited
    refused(asked.recipient.get(asked.table("vended")), 406, "UnsupportedOperationException", "a day")
    loaded = asked.load("signed")
    [uri, *_] = files_of(loaded, tmp_path)
    size = server.client("s3").head_object(Bucket=DATA_BUCKET, Key=uri.removeprefix(f"s3://{DATA_BUCKET}/"))
    asked.sign(loaded, loaded.url(uri), "HEAD")
    assert counted() == 0  # nor is metadata
    signed = json.loads(asked.sign(loaded, loaded.url(uri), range="bytes=0-3").body)
    assert follow(signed, range="bytes=0-3").body == b"PAR1"
    for other in ({"range": "bytes=0-99"}, {}):
        assert follow(signed, **other).status == 403
    assert counted() == 4
    # A store takes a range that it cannot read for none; digits of other scripts are none to it.
    for open_ended in ({"range": "bytes=4-"}, {"range": "bytes=\u0660-\u0663"}, {}):
        assert asked.sign(loaded, loaded.url(uri), **open_ended).status == 200
    assert counted() == 4 + 3 * size["ContentLength"]
    while counted() < 5_000:
        assert asked.sign(loaded, loaded.url(uri)).status == 200
    refused(asked.sign(loaded, loaded.url(uri)), 429, "TooManyRequestsException", "a day")
