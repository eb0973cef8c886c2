"""The template's function for what schemas follow: nothing of it while it is off, and no more rights than it uses."""

from typing import Any

import pytest
from cloudformation import transformed
from template_rights import (
    BUCKETS,
    CHANGED,
    LOG_OBJECTS,
    STORAGE_SECRETS,
    configured,
    granted,
    keys,
    published,
    statements,
)

ON = {**BUCKETS, "Follow": "enabled"}


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_while_it_is_off_nothing_of_it_is_made(made: dict[str, dict[str, Any]]) -> None:
    resources = transformed(parameters=BUCKETS)
    more = {name for name in made.keys() - resources.keys() if not name.startswith("ApiDeployment")}
    assert sorted(made[name]["Type"].rpartition("::")[2] for name in more) == [
        "Alarm", "Alias", "Function", "LogGroup", "Role", "Role", "Schedule", "Version",
    ]  # fmt: skip


def test_what_follows_reads_logs_writes_no_object_and_deletes_nothing(made: dict[str, dict[str, Any]]) -> None:
    grants = granted(made, "FollowTables")
    assert {grant for grant in grants if grant[0].startswith("s3:")} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw")),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS),
    }
    assert {action for action, _ in grants if action.startswith("glue:")} == {"glue:GetTables"}
    assert {resource for action, resource in grants if action.startswith("dynamodb:")} == {"${Catalog.Arn}"}
    assert keys(made, "FollowTables") == {
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
def test_what_follows_widens_no_entry_and_grants_nothing(made: dict[str, dict[str, Any]], attribute: str) -> None:
    [update] = [one for one in statements(made, "FollowTables") if one["Action"] == "dynamodb:UpdateItem"]
    assert attribute in update["Condition"]["ForAllValues:StringNotLike"]["dynamodb:Attributes"]


def test_the_schedule_invokes_the_published_function(made: dict[str, dict[str, Any]]) -> None:
    (schedule,) = [said["Properties"] for said in made.values() if said["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == "${FollowTablesAliaslive}"


@pytest.mark.parametrize("parameter", sorted(CHANGED.keys() - {"Follow"}))
def test_a_changed_parameter_publishes_the_function_if_it_changes_it(
    made: dict[str, dict[str, Any]], parameter: str
) -> None:
    other = transformed(parameters={**ON, parameter: CHANGED[parameter]})
    changed = configured(other, "FollowTables") != configured(made, "FollowTables")
    assert (published(other)["FollowTables"] != published(made)["FollowTables"]) == changed
