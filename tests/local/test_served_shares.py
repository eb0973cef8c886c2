"""The real functions behind the local gateway: a share made by the provider's side is read over HTTP."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import gateway_over
from filled_server import Entry, FilledServer

FILES = 6000
TABLE = "/shares/lake/schemas/sales/tables/orders"
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    orders = Entry("lake", "sales", "orders")
    with FilledServer.running(tmp_path_factory.mktemp("served"), [orders], {"alice": ["lake"]}) as running:
        yield running


def log_of_many_files() -> bytes:
    metadata = {"id": "orders", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
    actions: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}, "createdTime": 0}},
    ]
    actions += [
        {
            "add": {
                "path": f"part-{n:05}.parquet",
                "partitionValues": {},
                "size": 1,
                "modificationTime": 0,
                "dataChange": True,
            }
        }
        for n in range(FILES)
    ]
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


@pytest.fixture(scope="module")
def client(server: FilledServer) -> Iterator[httpx.Client]:
    """Return a recipient of a share with one table of FILES files."""
    s3 = server.client("s3")
    s3.put_object(Bucket=DATA_BUCKET, Key="orders/_delta_log/00000000000000000000.json", Body=log_of_many_files())
    headers = {"Authorization": f"Bearer {server.readers['alice'].token}"}
    with httpx.Client(base_url=server.endpoint, headers=headers, timeout=30) as ready:
        yield ready


def test_the_share_is_listed_with_its_version(client: httpx.Client) -> None:
    assert [item["name"] for item in client.get("/shares").json()["items"]] == ["lake"]
    assert client.get(f"{TABLE}/version").headers["delta-table-version"] == "0"
    head = client.head(TABLE)
    assert (head.status_code, head.headers["delta-table-version"], head.content) == (200, "0", b"")


@pytest.mark.parametrize("name", ["a%20b", "100%25", "%C3%A9", "a%2Fb"], ids=["space", "percent", "unicode", "slash"])
def test_names_are_decoded_only_by_the_function(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/shares/{name}")
    assert (answer.status_code, answer.json()["errorCode"]) in {
        (404, "RESOURCE_DOES_NOT_EXIST"),
        (400, "INVALID_PARAMETER_VALUE"),
    }
    assert name not in answer.json()["message"]


def ids(answer: httpx.Response) -> list[str]:
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines[:2]] == ["protocol", "metaData"]
    return [line["file"]["id"] for line in lines[2:]]


def test_a_query_is_streamed(client: httpx.Client) -> None:
    client.post(f"{TABLE}/query", json={})
    with client.stream("POST", f"{TABLE}/query", json={}, headers={"Accept-Encoding": "identity"}) as answer:
        assert (answer.status_code, answer.headers["transfer-encoding"]) == (200, "chunked")
        assert answer.headers["delta-table-version"] == "0"
        chunks = list(answer.iter_raw())
    assert len(chunks) > 1
    assert b"".join(chunks).count(b"\n") == FILES + 2


def test_concurrent_queries_are_not_mixed_up(server: FilledServer, client: httpx.Client) -> None:
    expected = ids(client.post(f"{TABLE}/query", json={}))
    assert len(set(expected)) == FILES

    def ask(_: int) -> list[str]:
        with httpx.Client(base_url=server.endpoint, headers=client.headers, timeout=30) as second_client:
            return ids(second_client.post(f"{TABLE}/query", json={}))

    with ThreadPoolExecutor(8) as pool:
        assert all(answer == expected for answer in pool.map(ask, range(8)))


@pytest.mark.slow
def test_a_response_over_the_limit_ends_as_failed(server: FilledServer, client: httpx.Client, tmp_path: Path) -> None:
    """The limit is the smallest that the server accepts; the same answer fits compressed, or in pages."""
    headers = {"Accept-Encoding": "identity"}
    with (
        gateway_over({**server.environment, "STREAM_LIMIT_BYTES": "4000000"}, tmp_path) as limited,
        httpx.Client(base_url=limited.endpoint, headers=client.headers, timeout=30) as second_client,
    ):
        page = second_client.post(f"{TABLE}/query", json={"maxFiles": 1000}, headers=headers)
        packed = second_client.post(f"{TABLE}/query", json={})
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            second_client.post(f"{TABLE}/query", json={}, headers=headers)
    assert (len(ids(packed)), len(page.text.splitlines())) == (FILES, 1003)
