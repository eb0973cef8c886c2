"""Tables of more files than are listed while a client waits: refused for the moment, made meanwhile, then served."""

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
    """A server that lists two files at once."""
    entries = [Entry(SHARE, "default", name, name, how) for name, how in TABLES.items()]
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("ICEBERG_FILES_AT_ONCE", str(AT_ONCE))
        folder = tmp_path_factory.mktemp("large")
        with FilledServer.running(folder, entries, {"alice": (SHARE,), "bob": (SHARE,), "carol": ()}) as running:
            for name in TABLES:
                write(running, name, ORDERS, partition_by=["country"])  # three files
            yield running


@pytest.fixture
def asked(large: FilledServer) -> Callable[..., Catalog]:
    """Return what asks as a recipient, by plain HTTP."""
    return lambda name="alice": Catalog(Recipient(f"{large.endpoint}/iceberg", large.readers[name].token), SHARE)


@pytest.fixture
def opened(large: FilledServer) -> Callable[[], Table]:
    """Return what opens the table that is read."""
    token = large.readers["alice"].token
    catalog = RestCatalog("large", uri=f"{large.endpoint}/iceberg", token=token, warehouse=SHARE)
    return lambda: catalog.load_table("default.read")


def notes(server: FilledServer, name: str) -> list[str]:
    """Return the keys of what says how metadata of a table is made."""
    table = server.admin.tables.get(SHARE, "default", name)
    bucket = server.environment["ICEBERG_BUCKET"]
    found = server.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
    return [one["Key"] for one in found if f"/{table.id}/" in one["Key"] and "/b/" in one["Key"]]


def note(server: FilledServer, key: str, seconds_ago: int, **more: object) -> None:
    """Write down that something of version 0 has begun or ended."""
    body = json.dumps({"version": 0, "time": time.time() - seconds_ago, **more}).encode()
    server.client("s3").put_object(Bucket=server.environment["ICEBERG_BUCKET"], Key=key, Body=body)


def ended(server: FilledServer, name: str) -> None:
    """Wait until what has begun has ended."""
    wait_for(server, name, ".ended")


def wait_for(server: FilledServer, name: str, ending: str) -> None:
    """Wait until the last note of a table has a key that ends so."""
    deadline = time.monotonic() + 60
    while not (found := notes(server, name)) or not found[-1].endswith(ending):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def not_yet(reply: Reply) -> None:
    refused(reply, 503, "ServiceUnavailableException", "load it again")
    assert reply.headers["retry-after"] == "60"


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def test_a_client_is_told_to_ask_again_and_then_reads_every_row(
    large: FilledServer, opened: Callable[[], Table]
) -> None:
    with pytest.raises(ServiceUnavailableError, match="being made"):
        opened()
    ended(large, "read")
    assert rows(opened().scan().to_arrow()) == rows(ORDERS)
    assert len(list(opened().scan(row_filter="country = 'PL'").plan_files())) == 1
    write(large, "read", pa.table({"id": [100], "country": ["NO"], "note": ["later"]}))
    with pytest.raises(ServiceUnavailableError, match="being made"):
        opened()
    ended(large, "read")
    table = opened()
    assert [one.snapshot_id - 10**12 for one in table.snapshots()] == [0, 1]
    assert rows(table.scan().to_arrow())[-1]["id"] == 100


def test_a_crowd_has_it_made_once(large: FilledServer, asked: Callable[..., Catalog]) -> None:
    def load(name: str) -> Reply:
        return asked(name).recipient.get(asked(name).table("crowd"))

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(load, ["alice", "bob"] * 4))
    for reply in replies:
        if reply.status != 200:  # who asked last may have been served already
            not_yet(reply)
    ended(large, "crowd")
    assert [key[-10:] for key in notes(large, "crowd")] == ["0000.begun", "0000.ended"]
    assert {load(name).status for name in ("alice", "bob")} == {200}


def test_what_counts_are_the_files_that_a_recipient_sees(large: FilledServer, asked: Callable[..., Catalog]) -> None:
    loaded = asked().load("by_country")
    assert loaded.snapshot["summary"]["total-data-files"] == "1"
    assert notes(large, "by_country") == []


def test_what_cannot_be_made_is_refused_for_good(large: FilledServer, asked: Callable[..., Catalog]) -> None:
    """A column in other case, which nothing but the files tells: clients would read nulls."""
    s3, held = large.client("s3"), io.BytesIO()
    pq.write_table(ORDERS.rename_columns(["ID", "country", "note"]), held)
    for one in s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="misread/country=")["Contents"]:
        s3.put_object(Bucket=DATA_BUCKET, Key=one["Key"], Body=held.getvalue())
    catalog = asked()
    not_yet(catalog.recipient.get(catalog.table("misread")))
    ended(large, "misread")
    refused(catalog.recipient.get(catalog.table("misread")), 406, "UnsupportedOperationException", "'ID'")
    assert len(notes(large, "misread")) == 2


def test_what_has_died_is_begun_again_once_an_hour_at_most(large: FilledServer, asked: Callable[..., Catalog]) -> None:
    catalog = asked()
    path = catalog.table("died")

    def load() -> Reply:
        return catalog.recipient.get(path)

    not_yet(load())
    ended(large, "died")
    [begun, done] = notes(large, "died")
    index = begun.replace("/b/0000.begun", f"/i/{0:020d}.index")
    s3, bucket = large.client("s3"), large.environment["ICEBERG_BUCKET"]
    for key in (index, done):  # as if it had ended without a word
        s3.delete_object(Bucket=bucket, Key=key)
    write(large, "died", ORDERS)
    again, later = (begun.replace("0000.begun", name) for name in ("0001.begun", "0002.begun"))
    note(large, begun, 899, version=1)
    not_yet(load())
    assert notes(large, "died") == [begun]  # it may still be at work
    note(large, begun, 901, version=1)
    note(large, again, 901, version=1)
    refused(load(), 406, "UnsupportedOperationException", "compact")
    assert notes(large, "died") == [begun, again]
    note(large, again, 3601, version=1)
    not_yet(load())
    ended(large, "died")
    assert notes(large, "died") == [begun, again, later, later.replace("begun", "ended")]
    assert load().status == 200


def test_why_one_recipient_is_refused_is_not_told_to_others(large: FilledServer, asked: Callable[..., Catalog]) -> None:
    """Such as one whose grant has ended before the function has begun."""
    catalog = asked()
    assert catalog.recipient.get(catalog.table("crowd")).status in {200, 503}
    [folder] = {key.rpartition("/b/")[0] for key in notes(large, "crowd")}
    who = {"recipient_id": large.readers["carol"].id, "token_id": "t", "recipient": "carol", "source_ip": "127.0.0.1"}
    table = {"share": SHARE, "schema": "default", "table": "crowd"}
    told = {"table": table, **who, "version": 0, "note": f"{folder}/b/9999"}
    place = urlsplit(large.endpoint)
    maker = load_template(parameters=PARAMETERS).functions["MakeIcebergMetadata"].arn
    gateway = client_of("lambda", {**large.environment, "AWS_ENDPOINT_URL": f"{place.scheme}://{place.netloc}"})
    invoked = gateway.invoke(FunctionName=maker, InvocationType="Event", Payload=json.dumps(told).encode())
    assert invoked["StatusCode"] == 202
    wait_for(large, "crowd", f"{folder}/b/9999.ended")
    body = large.client("s3").get_object(Bucket=large.environment["ICEBERG_BUCKET"], Key=f"{folder}/b/9999.ended")
    assert json.loads(body["Body"].read())["refusal"] == ""
    unknown = {"FunctionName": maker.replace("make", "no"), "Payload": b"{}"}
    with pytest.raises(ClientError, match="404"):
        gateway.invoke(**unknown, InvocationType="Event")
    with pytest.raises(ClientError, match="403"):
        gateway.invoke(FunctionName=maker, Payload=b"{}")
    unsigned = fetch(place.netloc, "POST", f"/2015-03-31/functions/{maker}/invocations", b"{}", {})
    assert unsigned.status == 403
