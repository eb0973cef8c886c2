"""Test the template's notices: optional, and with only the permissions that they use."""

import json
from typing import Any

import pytest
from cloudformation import transformed
from template_rights import BUCKETS, LOG_OBJECTS, granted, keys

pytestmark = pytest.mark.slow

WEBHOOK = "https://notices.example/deltaic"
ON = {**BUCKETS, "Notices": "14", "NoticesWebhook": WEBHOOK}
WITHOUT_WEBHOOK = {**ON, "NoticesWebhook": ""}
WEBHOOK_RESOURCES = [
    "Alarm", "ApiDestination", "Connection", "Queue", "QueuePolicy", "Role", "Rule", "Secret",
]  # fmt: skip


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def added_types(parameters: dict[str, str], base_parameters: dict[str, str]) -> list[str]:
    resources, base = transformed(parameters=parameters), transformed(parameters=base_parameters)
    names = {name for name in resources.keys() - base.keys() if not name.startswith("ApiDeployment")}
    return sorted(resources[name]["Type"].rpartition("::")[2] for name in names)


def test_disabled_notices_create_no_resources() -> None:
    disabled = {**ON, "Notices": "disabled"}
    assert added_types(disabled, BUCKETS) == []
    assert added_types(WITHOUT_WEBHOOK, disabled) == [
        "Alarm", "Alias", "Function", "LogGroup", "Role", "Role", "Role", "Schedule", "Schedule", "Version",
    ]  # fmt: skip
    assert added_types(ON, WITHOUT_WEBHOOK) == WEBHOOK_RESOURCES


def test_notices_function_reads_lists_and_logs_and_writes_versions(
    resources: dict[str, dict[str, Any]],
) -> None:
    grants = granted(resources, "SendNotices")
    assert {grant for grant in grants if grant[0].startswith(("s3:", "events:"))} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw")),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS),
        ("events:PutEvents", "arn:aws:events:us-east-1:000000000000:event-bus/default"),
    }
    assert keys(resources, "SendNotices") == {
        "dynamodb:Query": ["recipient/*", "shares", "share/*", "recipients", "recipient/*"],
        "dynamodb:GetItem": ["recipient/*", "storages", "recipients"],
        "dynamodb:BatchGetItem": ["version/*"],
        "dynamodb:UpdateItem": ["version/*"],
    }
    token_actions = {action for action, resource in grants if resource == "${Tokens.Arn}"}
    assert token_actions == {"dynamodb:GetItem", "dynamodb:Query"}


def test_schedules_request_both_kinds_of_notices(resources: dict[str, dict[str, Any]]) -> None:
    schedules = [
        resource["Properties"] for resource in resources.values() if resource["Type"] == "AWS::Scheduler::Schedule"
    ]
    inputs = {schedule["ScheduleExpression"]: json.loads(schedule["Target"]["Input"]) for schedule in schedules}
    assert inputs == {"cron(0 6 * * ? *)": {"tell": "endings"}, "rate(1 hour)": {"tell": "versions"}}
    assert {schedule["Target"]["Arn"] for schedule in schedules} == {"${SendNoticesAliaslive}"}


def test_webhook_gets_the_notices_of_the_stage_with_a_generated_key(resources: dict[str, dict[str, Any]]) -> None:
    rule, function = resources["NoticesToWebhook"]["Properties"], resources["SendNotices"]["Properties"]
    assert rule["EventPattern"] == {"source": [function["Environment"]["Variables"]["NOTICES_SOURCE"]]}
    assert rule["EventBusName"] == function["Environment"]["Variables"]["NOTICES_BUS"]
    [target] = rule["Targets"]
    assert target["DeadLetterConfig"] == {"Arn": "${UndeliveredNotices.Arn}"}
    destination = resources["NoticesDestination"]["Properties"]
    assert (destination["InvocationEndpoint"], destination["HttpMethod"]) == (WEBHOOK, "POST")
    key = resources["NoticesConnection"]["Properties"]["AuthParameters"]["ApiKeyAuthParameters"]
    assert key["ApiKeyValue"] == "{{resolve:secretsmanager:${NoticesKey}:SecretString}}"
    [statement] = resources["WebhookRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert (statement["Action"], statement["Resource"]) == ("events:InvokeApiDestination", target["Arn"])
    [queue_statement] = resources["UndeliveredNoticesPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert queue_statement["Condition"] == {"ArnEquals": {"aws:SourceArn": "${NoticesToWebhook.Arn}"}}
