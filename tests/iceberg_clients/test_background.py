"""Metadata of tables with many files is generated in the background; clients get 503 until it is ready."""

import io
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from contract.recipient import Recipient, Reply, fetch
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.resources import DATA_BUCKET, PARAMETERS
from filled_server import Entry, FilledServer, client_of
from iceberg_clients.catalog import Catalog, refused
from iceberg_clients.tables import FOLDER, ORDERS, write
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table import Table

SHARE = "large"
AT_ONCE = 2
TABLES = {
    "read": {**FOLDER, "iceberg": "vended"},
    "crowd": {"iceberg": "signed"},
    "by_country": {"iceberg": "signed", "partition_filter": "country = 'PL'"},
    "misread": {"iceberg": "signed"},
    "died": {"iceberg": "signed"},
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    """Start a server that lists at most two files while a client waits."""
    entries = [Entry(SHARE, "default", name, name, how) for name, how in TABLES.items()]
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("ICEBERG_FILES_AT_ONCE", str(AT_ONCE))
        folder = tmp_path_factory.mktemp("large")
        with FilledServer.running(folder, entries, {"alice": (SHARE,), "bob": (SHARE,), "carol": ()}) as running:
            for name in TABLES:
                write(running, name, ORDERS, partition_by=["country"])  # three files
            yield running


@pytest.fixture
def catalog_client(large: FilledServer) -> Callable[..., Catalog]:
    """Return a function that creates a recipient's catalog client."""
    return lambda name="alice": Catalog(Recipient(f"{large.endpoint}/iceberg", large.readers[name].token), SHARE)


@pytest.fixture
def open_table(large: FilledServer) -> Callable[[], Table]:
    """Return a function that opens the table `read`."""
    token = large.readers["alice"].token
    catalog = RestCatalog("large", uri=f"{large.endpoint}/iceberg", token=token, warehouse=SHARE)
    return lambda: catalog.load_table("default.read")


def notes(server: FilledServer, name: str) -> list[str]:
    """Return the keys of the notes about the generation for a table."""
    table = server.admin.tables.get(SHARE, "default", name)
    bucket = server.environment["ICEBERG_BUCKET"]
    objects = server.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
    return [item["Key"] for item in objects if f"/{table.id}/" in item["Key"] and "/b/" in item["Key"]]


def note(server: FilledServer, key: str, seconds_ago: int, **fields: object) -> None:
    """Write a note that the generation of version 0 began or ended."""
    body = json.dumps({"version": 0, "time": time.time() - seconds_ago, **fields}).encode()
    server.client("s3").put_object(Bucket=server.environment["ICEBERG_BUCKET"], Key=key, Body=body)


def wait_until_ended(server: FilledServer, name: str) -> None:
    """Wait until the generation has ended."""
    wait_for(server, name, ".ended")


def wait_for(server: FilledServer, name: str, ending: str) -> None:
    """Wait until the key of a table's last note has this ending."""
    deadline = time.monotonic() + 60
    while not (keys := notes(server, name)) or not keys[-1].endswith(ending):
        assert time.monotonic() < deadline, keys
        time.sleep(0.1)


def check_unfinished(reply: Reply) -> None:
    refused(reply, 503, "ServiceUnavailableException", "load the table again")
    assert reply.headers["retry-after"] == "60"


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def test_client_gets_503_and_then_reads_all_rows(large: FilledServer, open_table: Callable[[], Table]) -> None:
    with pytest.raises(ServiceUnavailableError, match="the server is generating"):
        open_table()
    wait_until_ended(large, "read")
    assert rows(open_table().scan().to_arrow()) == rows(ORDERS)
    assert len(list(open_table().scan(row_filter="country = 'PL'").plan_files())) == 1
    write(large, "read", pa.table({"id": [100], "country": ["NO"], "note": ["later"]}))
    with pytest.raises(ServiceUnavailableError, match="the server is generating"):
        open_table()
    wait_until_ended(large, "read")
    table = open_table()
    assert [snapshot.snapshot_id - 10**12 for snapshot in table.snapshots()] == [0, 1]
    assert rows(table.scan().to_arrow())[-1]["id"] == 100


def test_parallel_requests_start_one_generation(large: FilledServer, catalog_client: Callable[..., Catalog]) -> None:
    def load(name: str) -> Reply:
        return catalog_client(name).recipient.get(catalog_client(name).table("crowd"))

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(load, ["alice", "bob"] * 4))
    for reply in replies:
        if reply.status != 200:  # the last requests may have succeeded already
            check_unfinished(reply)
    wait_until_ended(large, "crowd")
    assert [key[-10:] for key in notes(large, "crowd")] == ["0000.begun", "0000.ended"]
    assert {load(name).status for name in ("alice", "bob")} == {200}


def test_only_visible_files_count_against_the_limit(
    large: FilledServer, catalog_client: Callable[..., Catalog]
) -> None:
    loaded = catalog_client().load("by_country")
    assert loaded.snapshot["summary"]["total-data-files"] == "1"
    assert notes(large, "by_country") == []


def test_failed_generation_is_refused_permanently(large: FilledServer, catalog_client: Callable[..., Catalog]) -> None:
    """The files have a column in another case, so clients would read nulls."""
    s3, buffer = large.client("s3"), io.BytesIO()
    pq.write_table(ORDERS.rename_columns(["ID", "country", "note"]), buffer)
    for item in s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="misread/country=")["Contents"]:
        s3.put_object(Bucket=DATA_BUCKET, Key=item["Key"], Body=buffer.getvalue())
    catalog = catalog_client()
    check_unfinished(catalog.recipient.get(catalog.table("misread")))
    wait_until_ended(large, "misread")
    refused(catalog.recipient.get(catalog.table("misread")), 400, "IllegalArgumentException", "'ID'")
    assert len(notes(large, "misread")) == 2


def test_lost_generation_is_restarted_at_most_once_an_hour(
    large: FilledServer, catalog_client: Callable[..., Catalog]
) -> None:
    catalog = catalog_client()
    path = catalog.table("died")

    def load() -> Reply:
        return catalog.recipient.get(path)

    check_unfinished(load())
    wait_until_ended(large, "died")
    [first, end_note] = notes(large, "died")
    index = first.replace("/b/0000.begun", f"/i/{0:020d}.index")
    s3, bucket = large.client("s3"), large.environment["ICEBERG_BUCKET"]
    for key in (index, end_note):  # as if the function had failed without a note
        s3.delete_object(Bucket=bucket, Key=key)
    write(large, "died", ORDERS)
    second, third = (first.replace("0000.begun", name) for name in ("0001.begun", "0002.begun"))
    note(large, first, 899, version=1)
    check_unfinished(load())
    assert notes(large, "died") == [first]  # the function may still run
    note(large, first, 901, version=1)
    note(large, second, 901, version=1)
    refused(load(), 400, "IllegalArgumentException", "compact")
    assert notes(large, "died") == [first, second]
    note(large, second, 3601, version=1)
    check_unfinished(load())
    wait_until_ended(large, "died")
    assert notes(large, "died") == [first, second, third, third.replace("begun", "ended")]
    assert load().status == 200


def test_refusal_of_one_recipient_does_not_affect_others(
    large: FilledServer, catalog_client: Callable[..., Catalog]
) -> None:
    """The grant may be revoked before the function starts."""
    catalog = catalog_client()
    assert catalog.recipient.get(catalog.table("crowd")).status in {200, 503}
    [folder] = {key.rpartition("/b/")[0] for key in notes(large, "crowd")}
    recipient = {
        "recipient_id": large.readers["carol"].id,
        "token_id": "t",
        "recipient": "carol",
        "source_ip": "127.0.0.1",
    }
    table = {"share": SHARE, "schema": "default", "table": "crowd"}
    event = {"table": table, **recipient, "version": 0, "note": f"{folder}/b/9999"}
    address = urlsplit(large.endpoint)
    function = load_template(parameters=PARAMETERS).functions["MakeIcebergMetadata"].arn
    gateway = client_of("lambda", {**large.environment, "AWS_ENDPOINT_URL": f"{address.scheme}://{address.netloc}"})
    response = gateway.invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(event).encode())
    assert response["StatusCode"] == 202
    wait_for(large, "crowd", f"{folder}/b/9999.ended")
    body = large.client("s3").get_object(Bucket=large.environment["ICEBERG_BUCKET"], Key=f"{folder}/b/9999.ended")
    assert json.loads(body["Body"].read())["refusal"] == ""
    unknown = {"FunctionName": function.replace("make", "no"), "Payload": b"{}"}
    with pytest.raises(ClientError, match="404"):
        gateway.invoke(**unknown, InvocationType="Event")
    with pytest.raises(ClientError, match="403"):
        gateway.invoke(FunctionName=function, Payload=b"{}")
    unsigned = fetch(address.netloc, "POST", f"/2015-03-31/functions/{function}/invocations", b"{}", {})
    assert unsigned.status == 403
