"""The template's function for checkpoints: nothing of it while it is off, no more rights than it uses otherwise."""

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from cloudformation import transformed
from template_rights import BUCKETS, CHANGED, LOG_OBJECTS, STORAGE_SECRETS, configured, granted, keys, published

ON = {**BUCKETS, "Checkpoints": "enabled"}
LOG_WRITES = ["_delta_log/*.checkpoint.parquet", "_delta_log/_last_checkpoint"]


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_while_they_are_off_nothing_of_them_is_made(made: dict[str, dict[str, Any]]) -> None:
    resources = transformed(parameters=BUCKETS)
    # A deployment of the API is a new one each time (AlwaysDeploy).
    more = {name for name in made.keys() - resources.keys() if not name.startswith("ApiDeployment")}
    assert all(made[name] == said for name, said in resources.items() if said["Type"] == "AWS::Lambda::Function")
    assert sorted(made[name]["Type"].rpartition("::")[2] for name in more) == [
        "Alarm", "Alarm", "Alias", "Function", "LayerVersion", "LogGroup", "Role", "Role", "Schedule", "Version",
    ]  # fmt: skip


def test_what_writes_checkpoints_writes_nothing_else_and_deletes_nothing(made: dict[str, dict[str, Any]]) -> None:
    grants = granted(made, "CheckpointTables")
    assert {grant for grant in grants if grant[0].startswith("s3:")} == {
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::raw"),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS),
        *(("s3:PutObject", f"arn:aws:s3:::{bucket}/*{name}") for bucket in ("lake", "raw") for name in LOG_WRITES),
    }
    assert {resource for action, resource in grants if action.startswith("dynamodb:")} == {"${Catalog.Arn}"}
    assert keys(made, "CheckpointTables") == {
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
def test_of_a_log_only_checkpoints_are_written(key: str, written: bool) -> None:
    assert any(fnmatchcase(f"lake/{key}", f"lake/*{name}") for name in LOG_WRITES) is written


def test_the_schedule_invokes_the_published_function_which_has_both_layers(made: dict[str, dict[str, Any]]) -> None:
    (schedule,) = [said["Properties"] for said in made.values() if said["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == "${CheckpointTablesAliaslive}"
    role = made[schedule["Target"]["RoleArn"][2:].partition(".")[0]]["Properties"]
    (policy,) = [policy["PolicyDocument"]["Statement"] for policy in role["Policies"]]
    assert [(said["Action"], said["Resource"]) for said in policy] == [
        ("lambda:InvokeFunction", "${CheckpointTablesAliaslive}")
    ]
    layers = made["CheckpointTables"]["Properties"]["Layers"]
    assert [re.sub(r"[0-9a-f]{10}\}", "}", layer) for layer in layers] == ["${DeltaicLayer}", "${DeltalakeLayer}"]
    assert set(layers) <= {f"${{{name}}}" for name in made}


@pytest.mark.parametrize("parameter", sorted(CHANGED.keys() - {"Checkpoints"}))
def test_a_changed_parameter_publishes_the_function_if_it_changes_it(
    made: dict[str, dict[str, Any]], parameter: str
) -> None:
    other = transformed(parameters={**ON, parameter: CHANGED[parameter]})
    changed = configured(other, "CheckpointTables") != configured(made, "CheckpointTables")
    assert (published(other)["CheckpointTables"] != published(made)["CheckpointTables"]) == changed
