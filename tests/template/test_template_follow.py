"""Test the template's function for followed sources: optional, and with only the permissions that it uses."""

from typing import Any

import pytest
from cloudformation import transformed
from template_rights import (
    BUCKETS,
    ICEBERG_OBJECTS,
    LOG_OBJECTS,
    STORAGE_SECRETS,
    granted,
    keys,
    statements,
)

pytestmark = pytest.mark.slow

ON = {**BUCKETS, "Follow": "enabled"}


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_disabled_follow_creates_no_resources(resources: dict[str, dict[str, Any]]) -> None:
    disabled = transformed(parameters=BUCKETS)
    added = {name for name in resources.keys() - disabled.keys() if not name.startswith("ApiDeployment")}
    assert sorted(resources[name]["Type"].rpartition("::")[2] for name in added) == [
        "Alarm", "Alias", "Function", "LogGroup", "Role", "Role", "Schedule", "Version",
    ]  # fmt: skip


def test_follow_function_reads_metadata_and_writes_no_objects(resources: dict[str, dict[str, Any]]) -> None:
    grants = granted(resources, "FollowTables")
    assert {grant for grant in grants if grant[0].startswith("s3:")} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw")),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS + ICEBERG_OBJECTS),
    }
    assert {action for action, _ in grants if action.startswith("glue:")} == {"glue:GetTables"}
    assert {resource for action, resource in grants if action.startswith("dynamodb:")} == {"${Catalog.Arn}"}
    assert keys(resources, "FollowTables") == {
        "dynamodb:Query": ["shares", "share/*", "storages"],
        "dynamodb:BatchGetItem": ["share/*", "overlaps"],
        "dynamodb:GetItem": ["shares", "share/*", "storages"],
        "dynamodb:UpdateItem": ["share/*", "storages", "overlaps"],
    }
    assert {resource for action, resource in grants if action.startswith("secretsmanager:")} == {STORAGE_SECRETS}
    assert not [action for action, _ in grants if "*" in action or action.startswith(("sts:", "kms:"))]


@pytest.mark.parametrize(
    "attribute",
    [
        "access_modes", "auxiliary_locations", "hidden_columns", "partition_filter", "iceberg", "metadata_location",
        "view_properties", "recipient", "recipient_id", "endpoint", "role_arn", "secret",
    ],
)  # fmt: skip
def test_follow_function_cannot_extend_access(resources: dict[str, dict[str, Any]], attribute: str) -> None:
    [update] = [
        statement for statement in statements(resources, "FollowTables") if statement["Action"] == "dynamodb:UpdateItem"
    ]
    assert attribute in update["Condition"]["ForAllValues:StringNotLike"]["dynamodb:Attributes"]


def test_schedule_invokes_the_published_function(resources: dict[str, dict[str, Any]]) -> None:
    (schedule,) = [item["Properties"] for item in resources.values() if item["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == "${FollowTablesAliaslive}"
