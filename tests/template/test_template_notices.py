"""The template's notices: nothing of them while they are off, and no more rights than they use otherwise."""

import json
from typing import Any

import pytest
from cloudformation import transformed
from template_rights import BUCKETS, CHANGED, LOG_OBJECTS, configured, granted, keys, published

WEBHOOK = "https://notices.example/deltaic"
ON = {**BUCKETS, "Notices": "14", "NoticesWebhook": WEBHOOK}
TOLD = {**ON, "NoticesWebhook": ""}
OF_WEBHOOK = [
    "Alarm", "ApiDestination", "Connection", "Queue", "QueuePolicy", "Role", "Rule", "Secret",
]  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def more(parameters: dict[str, str], fewer: dict[str, str]) -> list[str]:
    resources, without = transformed(parameters=parameters), transformed(parameters=fewer)
    names = {name for name in resources.keys() - without.keys() if not name.startswith("ApiDeployment")}
    return sorted(resources[name]["Type"].rpartition("::")[2] for name in names)


def test_while_they_are_off_nothing_of_them_is_made() -> None:
    off = {**ON, "Notices": "disabled"}
    assert more(off, BUCKETS) == []
    assert more(TOLD, off) == [
        "Alarm", "Alias", "Function", "LogGroup", "Role", "Role", "Role", "Schedule", "Schedule", "Version",
    ]  # fmt: skip
    assert more(ON, TOLD) == OF_WEBHOOK


def test_what_sends_notices_reads_lists_and_logs_and_writes_which_versions_it_told(
    made: dict[str, dict[str, Any]],
) -> None:
    grants = granted(made, "SendNotices")
    assert {grant for grant in grants if grant[0].startswith(("s3:", "events:"))} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw")),
        *(("s3:GetObject", objects) for objects in LOG_OBJECTS),
        ("events:PutEvents", "arn:aws:events:us-east-1:000000000000:event-bus/default"),
    }
    assert keys(made, "SendNotices") == {
        "dynamodb:Query": ["recipient/*", "shares", "share/*", "recipients", "recipient/*"],
        "dynamodb:GetItem": ["recipient/*", "storages", "recipients"],
        "dynamodb:BatchGetItem": ["version/*"],
        "dynamodb:UpdateItem": ["version/*"],
    }
    of_tokens = {action for action, resource in grants if resource == "${Tokens.Arn}"}
    assert of_tokens == {"dynamodb:GetItem", "dynamodb:Query"}


def test_the_schedules_ask_for_what_the_function_tells(made: dict[str, dict[str, Any]]) -> None:
    schedules = [said["Properties"] for said in made.values() if said["Type"] == "AWS::Scheduler::Schedule"]
    asked = {one["ScheduleExpression"]: json.loads(one["Target"]["Input"]) for one in schedules}
    assert asked == {"cron(0 6 * * ? *)": {"tell": "endings"}, "rate(1 hour)": {"tell": "versions"}}
    assert {one["Target"]["Arn"] for one in schedules} == {"${SendNoticesAliaslive}"}


def test_the_webhook_gets_the_stages_notices_with_a_key_that_no_template_holds(made: dict[str, dict[str, Any]]) -> None:
    rule, function = made["NoticesToWebhook"]["Properties"], made["SendNotices"]["Properties"]
    assert rule["EventPattern"] == {"source": [function["Environment"]["Variables"]["NOTICES_SOURCE"]]}
    assert rule["EventBusName"] == function["Environment"]["Variables"]["NOTICES_BUS"]
    [target] = rule["Targets"]
    assert target["DeadLetterConfig"] == {"Arn": "${UndeliveredNotices.Arn}"}
    destination = made["NoticesDestination"]["Properties"]
    assert (destination["InvocationEndpoint"], destination["HttpMethod"]) == (WEBHOOK, "POST")
    key = made["NoticesConnection"]["Properties"]["AuthParameters"]["ApiKeyAuthParameters"]
    assert key["ApiKeyValue"] == "{{resolve:secretsmanager:${NoticesKey}:SecretString}}"
    [right] = made["WebhookRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert (right["Action"], right["Resource"]) == ("events:InvokeApiDestination", target["Arn"])
    [may] = made["UndeliveredNoticesPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert may["Condition"] == {"ArnEquals": {"aws:SourceArn": "${NoticesToWebhook.Arn}"}}


@pytest.mark.parametrize("parameter", sorted(CHANGED.keys() - {"Notices"}))
def test_a_changed_parameter_publishes_the_function_if_it_changes_it(
    made: dict[str, dict[str, Any]], parameter: str
) -> None:
    other = transformed(parameters={**ON, parameter: CHANGED[parameter]})
    changed = configured(other, "SendNotices") != configured(made, "SendNotices")
    assert (published(other)["SendNotices"] != published(made)["SendNotices"]) == changed
