"""Test with a real client that the usage table has all bytes that leave the store, and their recipients."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import delta_sharing
import deltalake
import httpx
import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.sign_in.activation import profile
from deltaic_ops.local.access_logs import FETCHES, FOLDER, REQUESTS
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_pipeline.table.catalog_entry import CatalogEntry, EntryName, JobCatalog
from deltaic_pipeline.table.catalog_entry import connect as connect_catalog
from deltaic_pipeline.usage_log.collection import CatalogFacts, UsageJob, UsageSummary, catalog_facts, collect
from deltaic_pipeline.usage_log.local_collection import collect_locally
from deltaic_terminal.progress import silent
from filled_server import FilledServer, dynamo_of
from pipeline.counting import CountedRequests, counting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LATEST_SECONDS = 30
DOWNLOADS = "kind = 'fetch' AND \"table\" = 'orders'"


@dataclass(frozen=True)
class Story:
    """Reads of a recipient, as the client and the store counted them."""

    admin: CatalogAdmin
    catalog: JobCatalog
    requests: Path
    fetches: Path
    recipient_id: str
    token_id: str
    by_url: CountedRequests
    by_directory: int
    """Bytes of objects that were downloaded with temporary credentials."""

    options: dict[str, str]
    """Storage options with which deltalake reads the usage table."""

    environment: dict[str, str]
    """AWS variables of the embedded AWS."""

    @property
    def facts(self) -> CatalogFacts:
        return catalog_facts(self.admin)

    def events(self, *endpoints: str) -> list[dict[str, Any]]:
        """Return the logged events of these endpoints, or of all."""
        events = [json.loads(line) for line in self.requests.read_text().splitlines()]
        return [event for event in events if not endpoints or event["endpoint"] in endpoints]

    def job(self, target: str, run_id: str, requests: Sequence[Path] = (), **more: Any) -> UsageJob:
        logs = tuple(map(str, requests)) or (str(self.requests),)
        return UsageJob(logs, (f"{self.fetches}*",), target, run_id, **more)


@pytest.fixture(scope="module")
def story(
    embedded_aws: EmbeddedAws, store_options: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """Read a table by URLs and another by directory, and request one that does not exist."""
    state = tmp_path_factory.mktemp("usage")
    environment = embedded_aws.environment
    with (
        counting(embedded_aws.endpoint, DATA_BUCKET) as counted,
        FilledServer.running(state, aws=environment, parameters={"LogLevel": "INFO"}) as server,
    ):
        admin = server.admin
        names = server.environment["CATALOG_TABLE"], server.environment["TOKENS_TABLE"]
        admin.storages.create(
            "counted",
            endpoint=embedded_aws.endpoint,
            public_endpoint=counted.url,
            path_style=True,
            role_arn=server.environment["SIGNING_ROLE_ARN"],
        )
        admin.shares.create("sales")
        admin.schemas.create("sales", "eu")
        for name, more in (("orders", {"storage": "counted"}), ("folder", {"access_modes": ("dir",), "history": True})):
            location = f"s3://{DATA_BUCKET}/usage/{name}"
            rows = pa.table({"id": range(300), "day": ["a b", "c%d", "e+f"] * 100})
            options = {**environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
            deltalake.write_deltalake(location, rows, partition_by=["day"], storage_options=options)
            admin.tables.create("sales", "eu", name, location, **more)
        alice = admin.recipients.create("alice<b>")
        admin.grants.create("alice<b>", "sales")
        issued = admin.tokens.create(alice)
        file = state / "alice.share"
        file.write_text(profile(server.endpoint, issued))
        assert len(delta_sharing.load_as_pandas(f"{file}#sales.eu.orders")) == 300
        by_directory = read_by_directory(server.endpoint, issued.secret, embedded_aws.endpoint)
        response = httpx.get(
            f"{server.endpoint}/shares/sales/schemas/eu/tables/none/version",
            headers={"Authorization": f"Bearer {issued.secret}"},
        )
        assert response.status_code == 404
        requests = state / "state" / FOLDER / REQUESTS
        wait_for(requests, "get_table_version")
        yield Story(
            admin,
            connect_catalog(*names, dynamo_of(server.environment)),
            requests,
            embedded_aws.state / FOLDER / FETCHES,
            alice.id,
            issued.token.id,
            counted,
            by_directory,
            store_options,
            dict(environment),
        )


def read_by_directory(endpoint: str, token: str, store: str) -> int:
    """Download every object of the table with temporary credentials; return their bytes."""
    answer = httpx.post(
        f"{endpoint}/shares/sales/schemas/eu/tables/folder/temporary-table-credentials",
        headers={"Authorization": f"Bearer {token}"},
        json={},
    )
    keys = answer.json()["credentials"]["awsTempCredentials"]
    s3 = boto3.Session(
        keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"], region_name="us-east-1"
    ).client("s3", endpoint_url=store)
    items = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="usage/folder/")["Contents"]
    return sum(len(s3.get_object(Bucket=DATA_BUCKET, Key=item["Key"])["Body"].read()) for item in items)


def wait_for(log: Path, endpoint: str) -> None:
    """Wait until the log has the endpoint's event, which is written after the response is sent."""
    latest = time.monotonic() + LATEST_SECONDS
    while not (log.exists() and f'"{endpoint}"' in log.read_text()):
        assert time.monotonic() < latest, f"{log} has no event of {endpoint}"
        time.sleep(0.1)


def run(story: Story, job: UsageJob) -> UsageSummary:
    """Collect logs without Spark; `test_usage_engines` compares this with Spark."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in story.environment.items():
            environment.setenv(name, value)
        return collect_locally(job, story.catalog, story.facts, silent)


def rows_of(story: Story, location: str, where: str) -> list[dict[str, Any]]:
    """Return rows of the usage table, without Spark, which wrote them."""
    table = deltalake.DeltaTable(location, storage_options=story.options)
    rows: list[dict[str, Any]] = pa.table(table.scan(predicate=where)).to_pylist()
    return rows


@dataclass(frozen=True)
class CollectedUsage:
    """Usage table after two runs, of which the first had no log of the query."""

    target: str
    early: Path
    """A log without the query."""

    first: UsageSummary
    unexplained: list[dict[str, Any]]
    """Rows of the downloads after the first run."""

    second: UsageSummary


@pytest.fixture(scope="module")
def usage(spark: "SparkSession", story: Story, tmp_path_factory: pytest.TempPathFactory) -> CollectedUsage:
    target, early = f"s3://{DATA_BUCKET}/usage-table", tmp_path_factory.mktemp("early") / "early.jsonl"
    early.write_text("".join(json.dumps(event) + "\n" for event in story.events("get_table_version")))
    first = run(story, story.job(target, "one", [early]))
    unexplained = rows_of(story, target, DOWNLOADS)
    entry = CatalogEntry(EntryName("audit", "usage", "accesses"), target, create_share=True)
    job = story.job(target, "two", [early, story.requests, story.requests], entry=entry)
    second = collect(spark, job, story.catalog, story.facts, silent)
    return CollectedUsage(target, early, first, unexplained, second)


def test_table_has_the_downloads_of_each_recipient_to_the_byte(story: Story, usage: CollectedUsage) -> None:
    target, summary = usage.target, usage.second
    assert summary.request_lines is not None
    assert summary.request_lines.malformed == 0
    assert story.admin.tables.get("audit", "usage", "accesses").location == target
    [query] = story.events("query_table")
    downloads = rows_of(story, target, DOWNLOADS)
    assert sorted((row["key"], row["status"], row["bytes_sent"]) for row in downloads if row["status"] < 400) == sorted(
        request for request in story.by_url.requests if request[1] < 400
    )
    assert sum(row["bytes_sent"] for row in downloads) > 0
    for row in downloads:
        assert (row["recipient"], row["recipient_id"], row["token_id"]) == (
            "alice<b>",
            story.recipient_id,
            story.token_id,
        )
        assert (row["request_id"], row["explained_by"]) == (query["requestId"], 1)
        assert (row["share"], row["schema"], row["operation"]) == ("sales", "eu", "REST.GET.OBJECT")
    [vended] = story.events("create_table_credentials")
    by_keys = rows_of(story, target, "kind = 'fetch' AND \"table\" = 'folder'")
    assert {row["request_id"] for row in by_keys} == {vended["requestId"]}
    objects = [row for row in by_keys if row["operation"] == "REST.GET.OBJECT"]
    assert sum(row["bytes_sent"] for row in objects) == story.by_directory
    assert [row["key"] for row in by_keys if row["operation"] == "REST.GET.BUCKET"] == ["usage/folder/"]
    requests = {row["request_id"]: row for row in rows_of(story, target, "kind = 'request'")}
    assert requests.keys() == {event["requestId"] for event in story.events()}
    query_row = requests[query["requestId"]]
    assert (query_row["files_signed"], query_row["ended"], query_row["lines"]) == (3, "whole", 5)
    assert query_row["bytes_signed"] == sum(
        {row["key"]: row["object_bytes"] or size_of(row) for row in downloads}.values()
    )
    [refused] = [row for row in requests.values() if row["operation"] == "get_table_version"]
    assert (refused["status"], refused["ended"], refused["table"]) == (404, "refused", "none")
    assert refused["error_code"] == "RESOURCE_DOES_NOT_EXIST"


def size_of(row: dict[str, Any]) -> int:
    size: int = row["bytes_sent"]
    return size


def test_late_request_log_explains_earlier_downloads(story: Story, usage: CollectedUsage) -> None:
    first, second = usage.first, usage.second
    assert (first.requests, first.explained, second.requests) == (1, 0, len(story.events()))
    assert {(row["request_id"], row["explained_by"], row["recipient"]) for row in usage.unexplained} == {
        (None, 0, "alice<b>")
    }
    assert {row["table"] for row in usage.unexplained} == {"orders"}, "the catalog has the table of this location"
    rows = rows_of(story, usage.target, DOWNLOADS)
    assert sums(rows) == sums(usage.unexplained)


def test_repeated_logs_neither_count_twice_nor_lose_attributions(story: Story, usage: CollectedUsage) -> None:
    """The logs of a later day have the downloads again, but no longer the request."""
    before = rows_of(story, usage.target, "true")
    assert run(story, story.job(usage.target, "two", [usage.early])).repeated
    run(story, story.job(usage.target, "three", [usage.early]))
    rows = rows_of(story, usage.target, "true")
    assert sums(rows) == sums(before)
    [query] = story.events("query_table")
    assert {row["request_id"] for row in rows if row["table"] == "orders" and row["kind"] == "fetch"} == {
        query["requestId"]
    }


def sums(rows: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    return sorted((row["id"], row["bytes_sent"]) for row in rows)
