"""A real client reads through the gateway; both logs, joined, say exactly what left the store, and for whom."""

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
from deltaic_pipeline.table.catalog_entry import Catalog, Entry, TableName
from deltaic_pipeline.table.catalog_entry import connect as connect_catalog
from deltaic_pipeline.usage_log.collection import CatalogFacts, Job, Summary, catalog_facts, collect
from deltaic_terminal.progress import silent
from filled_server import FilledServer, dynamo_of
from pipeline.counting import Counted, counting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LATEST_SECONDS = 30
FETCHED = "kind = 'fetch' AND `table` = 'orders'"


@dataclass(frozen=True)
class Story:
    """What was read, as those know it who read."""

    admin: CatalogAdmin
    catalog: Catalog
    requests: Path
    fetches: Path
    recipient_id: str
    token_id: str
    by_url: Counted
    by_directory: int
    """Bytes of objects that were fetched with temporary credentials."""

    @property
    def facts(self) -> CatalogFacts:
        return catalog_facts(self.admin)

    def events(self, *endpoints: str) -> list[dict[str, Any]]:
        """Return what the functions logged of the endpoints, all if none is named."""
        told = [json.loads(line) for line in self.requests.read_text().splitlines()]
        return [event for event in told if not endpoints or event["endpoint"] in endpoints]

    def job(self, target: str, run_id: str, requests: Sequence[Path] = (), **more: Any) -> Job:
        logs = tuple(map(str, requests)) or (str(self.requests),)
        return Job(logs, (f"{self.fetches}*",), target, run_id, **more)


@pytest.fixture(scope="module")
def story(embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Read a table by URLs and another by directory, ask for one's metadata, and for one that is not there."""
    state = tmp_path_factory.mktemp("usage")
    told = embedded_aws.environment
    with (
        counting(embedded_aws.endpoint, DATA_BUCKET) as counted,
        FilledServer.running(state, aws=told, parameters={"LogLevel": "INFO"}) as server,
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
            options = {**told, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
            deltalake.write_deltalake(location, rows, partition_by=["day"], storage_options=options)
            admin.tables.create("sales", "eu", name, location, **more)
        alice = admin.recipients.create("alice<b>")
        admin.grants.create("alice<b>", "sales")
        issued = admin.tokens.create(alice)
        file = state / "alice.share"
        file.write_text(profile(server.endpoint, issued))
        assert len(delta_sharing.load_as_pandas(f"{file}#sales.eu.orders")) == 300
        by_directory = read_by_directory(server.endpoint, issued.secret, embedded_aws.endpoint)
        refused = httpx.get(
            f"{server.endpoint}/shares/sales/schemas/eu/tables/none/version",
            headers={"Authorization": f"Bearer {issued.secret}"},
        )
        assert refused.status_code == 404
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
        )


def read_by_directory(endpoint: str, token: str, store: str) -> int:
    """Fetch every object of the table with temporary credentials; returns their bytes."""
    answer = httpx.post(
        f"{endpoint}/shares/sales/schemas/eu/tables/folder/temporary-table-credentials",
        headers={"Authorization": f"Bearer {token}"},
        json={},
    )
    keys = answer.json()["credentials"]["awsTempCredentials"]
    s3 = boto3.Session(
        keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"], region_name="us-east-1"
    ).client("s3", endpoint_url=store)
    listed = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix="usage/folder/")["Contents"]
    return sum(len(s3.get_object(Bucket=DATA_BUCKET, Key=each["Key"])["Body"].read()) for each in listed)


def wait_for(log: Path, endpoint: str) -> None:
    """Return when the log has the endpoint's event: an answer leaves before its line is written."""
    latest = time.monotonic() + LATEST_SECONDS
    while not (log.exists() and f'"{endpoint}"' in log.read_text()):
        assert time.monotonic() < latest, f"{log} has no event of {endpoint}"
        time.sleep(0.1)


def run(spark: "SparkSession", story: Story, job: Job) -> Summary:
    return collect(spark, job, story.catalog, story.facts, silent)


def rows_of(spark: "SparkSession", location: str, where: str) -> list[dict[str, Any]]:
    table = spark.read.format("delta").load(location.replace("s3://", "s3a://", 1)).where(where)
    return [row.asDict() for row in table.collect()]


@dataclass(frozen=True)
class Collected:
    """A usage table after two runs, of which the first had not the log of the query yet."""

    target: str
    early: Path
    """A log without the query."""

    first: Summary
    unexplained: list[dict[str, Any]]
    """What the table had of the fetches then."""

    second: Summary


@pytest.fixture(scope="module")
def usage(spark: "SparkSession", story: Story, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    target, early = f"s3://{DATA_BUCKET}/usage-table", tmp_path_factory.mktemp("early") / "early.jsonl"
    early.write_text("".join(json.dumps(event) + "\n" for event in story.events("get_table_version")))
    first = run(spark, story, story.job(target, "one", [early]))
    unexplained = rows_of(spark, target, FETCHED)
    entry = Entry(TableName("audit", "usage", "accesses"), target, create_share=True)
    second = run(spark, story, story.job(target, "two", [early, story.requests, story.requests], entry=entry))
    return Collected(target, early, first, unexplained, second)


def test_the_table_says_who_fetched_what_to_the_byte(spark: "SparkSession", story: Story, usage: Collected) -> None:
    target, summary = usage.target, usage.second
    assert summary.request_lines is not None
    assert summary.request_lines.malformed == 0
    assert story.admin.tables.get("audit", "usage", "accesses").location == target
    [query] = story.events("query_table")
    fetched = rows_of(spark, target, FETCHED)
    assert sorted((row["key"], row["status"], row["bytes_sent"]) for row in fetched if row["status"] < 400) == sorted(
        passed for passed in story.by_url.passed if passed[1] < 400
    )
    assert sum(row["bytes_sent"] for row in fetched) > 0
    for row in fetched:
        assert (row["recipient"], row["recipient_id"], row["token_id"]) == (
            "alice<b>",
            story.recipient_id,
            story.token_id,
        )
        assert (row["request_id"], row["explained_by"]) == (query["requestId"], 1)
        assert (row["share"], row["schema"], row["operation"]) == ("sales", "eu", "REST.GET.OBJECT")
    [vended] = story.events("create_table_credentials")
    by_keys = rows_of(spark, target, "kind = 'fetch' AND `table` = 'folder'")
    assert {row["request_id"] for row in by_keys} == {vended["requestId"]}
    objects = [row for row in by_keys if row["operation"] == "REST.GET.OBJECT"]
    assert sum(row["bytes_sent"] for row in objects) == story.by_directory
    assert [row["key"] for row in by_keys if row["operation"] == "REST.GET.BUCKET"] == ["usage/folder/"]
    asked = {row["request_id"]: row for row in rows_of(spark, target, "kind = 'request'")}
    assert asked.keys() == {event["requestId"] for event in story.events()}
    said = asked[query["requestId"]]
    assert (said["files_signed"], said["ended"], said["lines"]) == (3, "whole", 5)
    assert said["bytes_signed"] == sum({row["key"]: row["object_bytes"] or size_of(row) for row in fetched}.values())
    [refused] = [row for row in asked.values() if row["operation"] == "get_table_version"]
    assert (refused["status"], refused["ended"], refused["table"]) == (404, "refused", "none")
    assert refused["error_code"] == "RESOURCE_DOES_NOT_EXIST"


def size_of(row: dict[str, Any]) -> int:
    size: int = row["bytes_sent"]
    return size


def test_what_comes_late_explains_what_was_there(spark: "SparkSession", story: Story, usage: Collected) -> None:
    first, second = usage.first, usage.second
    assert (first.requests, first.explained, second.requests) == (1, 0, len(story.events()))
    assert {(row["request_id"], row["explained_by"], row["recipient"]) for row in usage.unexplained} == {
        (None, 0, "alice<b>")
    }
    assert {row["table"] for row in usage.unexplained} == {"orders"}, "the catalog knows what lies there"
    now = rows_of(spark, usage.target, FETCHED)
    assert sums(now) == sums(usage.unexplained)


def test_nothing_counts_twice_and_what_is_known_stays_known(
    spark: "SparkSession", story: Story, usage: Collected
) -> None:
    """A later day's logs hold the fetches again, and the request no more."""
    before = rows_of(spark, usage.target, "true")
    assert run(spark, story, story.job(usage.target, "two", [usage.early])).repeated
    run(spark, story, story.job(usage.target, "three", [usage.early]))
    now = rows_of(spark, usage.target, "true")
    assert sums(now) == sums(before)
    [query] = story.events("query_table")
    assert {row["request_id"] for row in now if row["table"] == "orders" and row["kind"] == "fetch"} == {
        query["requestId"]
    }


def sums(rows: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    return sorted((row["id"], row["bytes_sent"]) for row in rows)
