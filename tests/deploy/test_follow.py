"""Test that the deployed function shares followed tables with its role, in the account and another storage."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic_ops.local.embedded import EmbeddedAws
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

FUNCTION = "deltaic-deploytest-follow-tables"
ELSEWHERE = "deploytest-followed"
SHARE = "followed"


@pytest.fixture(scope="module")
def catalog(
    admin: CatalogAdmin, lake: str, embedded_aws: EmbeddedAws, client: Callable[[Any], Any]
) -> Iterator[CatalogAdmin]:
    """Return a catalog that follows two folders, a database and an unreachable source."""
    variables = embedded_aws.environment
    client("s3").create_bucket(Bucket=ELSEWHERE)
    keys = AccessKeys(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
    admin.storages.create("others", endpoint=embedded_aws.endpoint, path_style=True, access_keys=keys)
    for bucket in (lake, ELSEWHERE):
        for name in ("a", "b"):
            commit(client, bucket, f"followed/{name}")
    glue = client("glue")
    glue.create_database(DatabaseInput={"Name": "followed"})
    table_input = {"Parameters": {"table_type": "DELTA"}, "StorageDescriptor": {"Location": f"s3://{lake}/followed/a"}}
    glue.create_table(DatabaseName="followed", TableInput={"Name": "of_glue", **table_input})
    admin.shares.create(SHARE)
    for schema, source, storage in (
        ("home", f"s3://{lake}/followed", ""),
        ("keyed", f"s3://{ELSEWHERE}/followed", "others"),
        ("glue", "glue:followed", ""),
        ("strange", f"s3://{ELSEWHERE}/followed", ""),
    ):
        admin.schemas.create(SHARE, schema)
        admin.follows.put(SHARE, schema, source, storage=storage, exclude=["b"] if schema == "keyed" else [])
    yield admin
    admin.shares.delete(SHARE, force=True)
    admin.storages.delete("others")


def commit(client: Callable[[Any], Any], bucket: str, table: str) -> None:
    body = lines([protocol(), metadata()])
    client("s3").put_object(Bucket=bucket, Key=f"{table}/_delta_log/{0:020d}.json", Body=body)


def run_function(client: Callable[[Any], Any]) -> str:
    """Run the function, which fails for the unreachable source, and return its error message."""
    answer = client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live", Payload=b"{}")
    result: dict[str, Any] = json.loads(answer["Payload"].read())
    return str(result.get("errorMessage", result))


def log_lines(client: Callable[[Any], Any], since: float) -> list[dict[str, Any]]:
    events = client("logs").filter_log_events(logGroupName="/deltaic/deploytest/follow", startTime=int(since * 1000))
    lines = [event["message"].strip() for event in events["events"]]
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_new_tables_are_shared_although_a_source_is_unreachable(
    catalog: CatalogAdmin, lake: str, client: Callable[[Any], Any]
) -> None:
    began = time.time()
    assert run_function(client) == "1 sources could not be checked: see the log for their names"
    shared = {f"{item.schema_name}.{item.name}" for item in catalog.tables.list(SHARE) if not item.unlisted}
    assert shared == {"home.a", "home.b", "keyed.a", "glue.of_glue"}
    assert "DataBuckets" in catalog.follows.get(SHARE, "strange").failure
    client("s3").delete_object(Bucket=lake, Key=f"followed/b/_delta_log/{0:020d}.json")
    commit(client, lake, "followed/c")
    run_function(client)
    assert "no Delta log" in catalog.tables.get(SHARE, "home", "b").unlisted
    assert catalog.follows.get(SHARE, "home").counts["shared"] == 2
    actions = [(line["table"], line["did"]) for line in log_lines(client, began) if "table" in line]
    assert sorted(actions) == [
        ("a", "added"),
        ("a", "added"),
        ("b", "added"),
        ("b", "hidden"),
        ("c", "added"),
        ("of_glue", "added"),
    ]


def test_schedule_exists_and_failures_raise_the_alarm(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    scheduler = client("scheduler")
    names = [item["Name"] for item in scheduler.list_schedules()["Schedules"]]
    [schedule] = [scheduler.get_schedule(Name=name) for name in names if "FollowTables" in name]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"].endswith(f":function:{FUNCTION}:live")
    alarms = client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert [item["MetricName"] for item in alarms if FUNCTION in json.dumps(item["Dimensions"])] == ["Errors"]
    assert "FollowTables" in deployment.roles
