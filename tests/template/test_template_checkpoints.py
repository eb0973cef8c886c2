"""Test the template's checkpoint function: optional, and with only the permissions that it uses."""

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from cloudformation import transformed
from template_rights import BUCKETS, LOG_OBJECTS, STORAGE_SECRETS, granted, keys

pytestmark = pytest.mark.slow

ON = {**BUCKETS, "Checkpoints": "enabled"}
LOG_WRITES = ["_delta_log/*.checkpoint.parquet", "_delta_log/_last_checkpoint"]


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_disabled_checkpoints_create_no_resources(resources: dict[str, dict[str, Any]]) -> None:
    disabled = transformed(parameters=BUCKETS)
    # Each deployment of the API has a new name (AlwaysDeploy).
    added = {name for name in resources.keys() - disabled.keys() if not name.startswith("ApiDeployment")}
    functions = {name for name, resource in disabled.items() if resource["Type"] == "AWS::Lambda::Function"}
    assert all(resources[name] == disabled[name] for name in functions)
    assert sorted(resources[name]["Type"].rpartition("::")[2] for name in added) == [
        "Alarm", "Alarm", "Alias", "Function", "LayerVersion", "LogGroup", "Role", "Role", "Schedule", "Version",
    ]  # fmt: skip


def test_checkpoint_function_writes_only_checkpoints(resources: dict[str, dict[str, Any]]) -> None:
    grants = granted(resources, "CheckpointTables")
    assert {grant for grant in grants if grant[0].startswith("s3:")} == {
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::raw"),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS),
        *(("s3:PutObject", f"arn:aws:s3:::{bucket}/*{name}") for bucket in ("lake", "raw") for name in LOG_WRITES),
    }
    assert {resource for action, resource in grants if action.startswith("dynamodb:")} == {"${Catalog.Arn}"}
    assert keys(resources, "CheckpointTables") == {
        "dynamodb:Query": ["shares", "share/*"],
        "dynamodb:BatchGetItem": ["checkpoint/*"],
        "dynamodb:GetItem": ["storages", "lease/*"],
        "dynamodb:UpdateItem": ["checkpoint/*", "lease/*"],
    }
    assert {resource for action, resource in grants if action.startswith("secretsmanager:")} == {STORAGE_SECRETS}
    assert not [action for action, _ in grants if "*" in action or action.startswith(("sts:", "kms:"))]
    keyed = transformed(parameters={**ON, "DataKeys": "arn:aws:kms:us-east-1:000000000000:key/1"})
    assert {action for action, _ in granted(keyed, "CheckpointTables") if action.startswith("kms:")} == {
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }


@pytest.mark.parametrize(
    ("key", "written"),
    [
        pytest.param("a/_delta_log/00000000000000000009.checkpoint.parquet", True, id="checkpoint"),
        pytest.param("_delta_log/_last_checkpoint", True, id="hint_of_a_table_that_is_the_bucket"),
        pytest.param("a/_delta_log/00000000000000000009.json", False, id="commit"),
        pytest.param("a/_delta_log/_sidecars/x.parquet", False, id="sidecar"),
        pytest.param("a/part-00000.parquet", False, id="data"),
    ],
)
def test_only_checkpoint_files_of_a_log_are_writable(key: str, written: bool) -> None:
    assert any(fnmatchcase(f"lake/{key}", f"lake/*{name}") for name in LOG_WRITES) is written


def test_schedule_invokes_the_published_function_with_both_layers(resources: dict[str, dict[str, Any]]) -> None:
    (schedule,) = [item["Properties"] for item in resources.values() if item["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == "${CheckpointTablesAliaslive}"
    role = resources[schedule["Target"]["RoleArn"][2:].partition(".")[0]]["Properties"]
    (policy,) = [policy["PolicyDocument"]["Statement"] for policy in role["Policies"]]
    assert [(item["Action"], item["Resource"]) for item in policy] == [
        ("lambda:InvokeFunction", "${CheckpointTablesAliaslive}")
    ]
    layers = resources["CheckpointTables"]["Properties"]["Layers"]
    assert [re.sub(r"[0-9a-f]{10}\}", "}", layer) for layer in layers] == ["${DeltaicLayer}", "${DeltalakeLayer}"]
    assert set(layers) <= {f"${{{name}}}" for name in resources}
