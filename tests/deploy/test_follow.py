"""The deployed function shares what schemas follow under its own role, in the account and in another storage."""

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
    """Return a catalog that follows a folder at home, one in a storage with keys, a database, and one out of reach."""
    told = embedded_aws.environment
    client("s3").create_bucket(Bucket=ELSEWHERE)
    keys = AccessKeys(told["AWS_ACCESS_KEY_ID"], told["AWS_SECRET_ACCESS_KEY"])
    admin.storages.create("others", endpoint=embedded_aws.endpoint, path_style=True, access_keys=keys)
    for bucket in (lake, ELSEWHERE):
        for name in ("a", "b"):
            commit(client, bucket, f"followed/{name}")
    glue = client("glue")
    glue.create_database(DatabaseInput={"Name": "followed"})
    place = {"Parameters": {"table_type": "DELTA"}, "StorageDescriptor": {"Location": f"s3://{lake}/followed/a"}}
    glue.create_table(DatabaseName="followed", TableInput={"Name": "of_glue", **place})
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


def looked(client: Callable[[Any], Any]) -> str:
    """Have the function look, which fails for what is out of reach, and return what it says of that."""
    answer = client("lambda").invoke(FunctionName=FUNCTION, Qualifier="live", Payload=b"{}")
    said: dict[str, Any] = json.loads(answer["Payload"].read())
    return str(said.get("errorMessage", said))


def logged(client: Callable[[Any], Any], since: float) -> list[dict[str, Any]]:
    events = client("logs").filter_log_events(logGroupName="/deltaic/deploytest/follow", startTime=int(since * 1000))
    lines = [event["message"].strip() for event in events["events"]]
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_new_tables_are_shared_and_what_is_out_of_reach_takes_no_other_with_it(
    catalog: CatalogAdmin, lake: str, client: Callable[[Any], Any]
) -> None:
    began = time.time()
    assert looked(client) == "1 sources could not be checked: see the log for their names"
    shared = {f"{one.schema_name}.{one.name}" for one in catalog.tables.list(SHARE) if not one.unlisted}
    assert shared == {"home.a", "home.b", "keyed.a", "glue.of_glue"}
    assert "DataBuckets" in catalog.follows.get(SHARE, "strange").failure
    client("s3").delete_object(Bucket=lake, Key=f"followed/b/_delta_log/{0:020d}.json")
    commit(client, lake, "followed/c")
    looked(client)
    assert "no Delta log" in catalog.tables.get(SHARE, "home", "b").unlisted
    assert catalog.follows.get(SHARE, "home").came["shared"] == 2
    told = [(line["table"], line["did"]) for line in logged(client, began) if "table" in line]
    assert sorted(told) == [
        ("a", "added"),
        ("a", "added"),
        ("b", "added"),
        ("b", "hidden"),
        ("c", "added"),
        ("of_glue", "added"),
    ]


def test_the_schedule_stands_and_a_failure_raises_the_alarm(
    deployment: Deployment, client: Callable[[Any], Any]
) -> None:
    scheduler = client("scheduler")
    names = [one["Name"] for one in scheduler.list_schedules()["Schedules"]]
    [schedule] = [scheduler.get_schedule(Name=name) for name in names if "FollowTables" in name]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"].endswith(f":function:{FUNCTION}:live")
    alarms = client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert [one["MetricName"] for one in alarms if FUNCTION in json.dumps(one["Dimensions"])] == ["Errors"]
    assert "FollowTables" in deployment.roles
