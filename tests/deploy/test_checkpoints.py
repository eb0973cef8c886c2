"""Test that the deployed function writes checkpoints with its role, in the stack's account and another storage."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import DeltaTable, write_deltalake
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

FUNCTION = "deltaic-deploytest-checkpoint-tables"
ELSEWHERE = "deploytest-elsewhere"
SHARE = "checkpointed"


@pytest.fixture(scope="module")
def catalog(
    admin: CatalogAdmin, lake: str, embedded_aws: EmbeddedAws, client: Callable[[Any], Any]
) -> Iterator[CatalogAdmin]:
    """Return a catalog with three tables: in the account, in a storage with keys, and in an unreachable bucket."""
    variables = embedded_aws.environment
    client("s3").create_bucket(Bucket=ELSEWHERE)
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "s")
    keys = AccessKeys(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
    admin.storages.create("keyed", endpoint=embedded_aws.endpoint, path_style=True, access_keys=keys)
    options = {**variables, "AWS_ALLOW_HTTP": "true"}
    for name, bucket, storage in (("home", lake, ""), ("keyed", ELSEWHERE, "keyed"), ("strange", ELSEWHERE, "")):
        location = f"s3://{bucket}/checkpoints/{name}"
        for number in range(11):
            write_deltalake(location, pa.table({"x": [number]}), mode="append", storage_options=options)
        admin.tables.create(SHARE, "s", name, location, storage=storage, checkpoint=True)
    yield admin
    admin.shares.delete(SHARE, force=True)
    admin.storages.delete("keyed")


def log_lines(client: Callable[[Any], Any], since: float) -> list[dict[str, Any]]:
    events = client("logs").filter_log_events(
        logGroupName="/deltaic/deploytest/checkpoints", startTime=int(since * 1000)
    )["events"]
    lines = [event["message"].strip() for event in events]
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_function_writes_missing_checkpoints_and_logs_results(
    catalog: CatalogAdmin, lake: str, embedded_aws: EmbeddedAws, client: Callable[[Any], Any]
) -> None:
    began = time.time()
    answer = client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live", Payload=b"{}")
    summary = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, summary
    assert summary.pop("seconds") > 0
    # The unreachable table fails, and the other tables still get their checkpoints.
    assert summary == {"written": 2, "not due": 0, "held": 0, "refused": 0, "failed": 1, "left": 0}
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true"}
    for name, bucket in (("home", lake), ("keyed", ELSEWHERE)):
        objects = client("s3").list_objects_v2(Bucket=bucket, Prefix=f"checkpoints/{name}/_delta_log/")["Contents"]
        names = [item["Key"].rpartition("/")[2] for item in objects]
        assert names == [
            *(f"{number:020d}.json" for number in range(10)),
            f"{10:020d}.checkpoint.parquet",
            f"{10:020d}.json",
            "_last_checkpoint",
        ]
        # The first commits are no longer needed.
        for number in range(10):
            client("s3").delete_object(Bucket=bucket, Key=f"checkpoints/{name}/_delta_log/{number:020d}.json")
        table = DeltaTable(f"s3://{bucket}/checkpoints/{name}", storage_options=options)
        assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == list(range(11))
    again = json.loads(client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live")["Payload"].read())
    assert (again["not due"], again["failed"]) == (2, 1)
    assert catalog.tables.get(SHARE, "s", "home").checkpoint
    lines = log_lines(client, began)
    failures = [line for line in lines if line.get("level") == "ERROR"]
    assert failures
    assert {line["table"] for line in failures} == {f"s3://{ELSEWHERE}/checkpoints/strange"}
    metrics = [line for line in lines if "_aws" in line]
    assert [(line["CheckpointsWritten"], line["CheckpointFailures"]) for line in metrics] == [
        ([2.0], [1.0]),
        ([0.0], [1.0]),
    ]
    assert {line["function"] for line in metrics} == {FUNCTION}


def test_schedule_invokes_the_published_function(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    scheduler = client("scheduler")
    names = [item["Name"] for item in scheduler.list_schedules()["Schedules"]]
    schedules = [scheduler.get_schedule(Name=name) for name in names if "CheckpointTables" in name]
    assert [schedule["ScheduleExpression"] for schedule in schedules] == ["rate(1 hour)"]
    assert schedules[0]["Target"]["Arn"].endswith(f":function:{FUNCTION}:live")
    assert "CheckpointTables" in deployment.roles


def test_failures_raise_the_alarm(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    assert deployment
    alarms = client("cloudwatch").describe_alarms()["MetricAlarms"]
    watched = {
        alarm["MetricName"]: {item["Name"]: item["Value"] for item in alarm["Dimensions"]}
        for alarm in alarms
        if FUNCTION in json.dumps(alarm["Dimensions"])
    }
    assert watched == {
        "CheckpointFailures": {"service": "deltaic-deploytest", "function": FUNCTION},
        "Errors": {"FunctionName": FUNCTION},
    }
