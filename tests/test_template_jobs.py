"""The template's Spark jobs: nothing of them while they are off, and no more rights than they use while they are on."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.rights import several
from deltaic_ops.deploy.template import TEMPLATE
from deltaic_ops.deploy.transform import transformed
from template_rights import BUCKETS, CHANGED, OBJECTS, configured, granted, keys, published

APPLICATION = "arn:aws:emr-serverless:us-east-1:000000000000:/applications"
ON = {**BUCKETS, "SparkJobs": "enabled"}
KINDS = {"AWS::EMRServerless::Application", "AWS::Scheduler::ScheduleGroup", "AWS::S3::Bucket"}


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def role(resources: dict[str, dict[str, Any]], name: str = "JobRole") -> list[dict[str, Any]]:
    [policy] = resources[name]["Properties"]["Policies"]
    statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return statements


def rights(resources: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for statement in role(resources)
        for action in several(statement["Action"])
        for resource in several(statement["Resource"])
    }


def test_while_they_are_off_there_is_nothing_to_pay_for() -> None:
    off = transformed(parameters=BUCKETS)
    assert not KINDS & {said["Type"] for said in off.values()}
    assert not {name for name in off if "Job" in name or "Schedule" in name}


def test_an_application_that_exists_is_used() -> None:
    resources = transformed(parameters={**BUCKETS, "SparkJobs": "00abc123"})
    assert "JobsApplication" not in resources
    assert resources["SubmitJob"]["Properties"]["Environment"]["Variables"]["JOBS_APPLICATION"] == "00abc123"
    assert ("emr-serverless:StartJobRun", f"{APPLICATION}/00abc123") in granted(resources, "SubmitJob")


def test_the_application_has_our_pins_starts_and_stops_by_itself_and_is_bounded(
    resources: dict[str, dict[str, Any]],
) -> None:
    said = resources["JobsApplication"]["Properties"]
    assert (said["ReleaseLabel"], said["Type"], said["Architecture"]) == ("emr-spark-8.1.0", "SPARK", "ARM64")
    assert said["AutoStartConfiguration"]["Enabled"] is True
    assert said["AutoStopConfiguration"]["Enabled"] is True
    assert set(said["MaximumCapacity"]) == {"Cpu", "Memory", "Disk"}
    assert "InitialCapacity" not in said
    assert "NetworkConfiguration" not in said


def test_jobs_run_in_subnets_where_those_are_named() -> None:
    told = {**ON, "JobSubnets": "subnet-1,subnet-2", "JobSecurityGroups": "sg-1"}
    said = transformed(parameters=told)["JobsApplication"]["Properties"]
    assert said["NetworkConfiguration"] == {"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}


def test_a_job_may_do_what_jobs_do_and_nothing_else(resources: dict[str, dict[str, Any]]) -> None:
    group = "arn:aws:logs:us-east-1:000000000000:log-group:/deltaic/dev/jobs"
    assert rights(resources) == {
        *(("s3:ListBucket", bucket) for bucket in BUCKETS["DataBuckets"].split(",")),
        *(
            (f"s3:{action}", objects)
            for action in ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload")
            for objects in OBJECTS
        ),
        ("s3:GetObject", "${JobsBucket.Arn}/*"),
        ("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-east-1:000000000000:secret:deltaic/dev/jobs/*"),
        *((f"dynamodb:{action}", "${Catalog.Arn}") for action in ("GetItem", "Query", "UpdateItem")),
        *((f"dynamodb:{action}", "${Catalog.Arn}") for action in ("PutItem", "ConditionCheckItem", "DeleteItem")),
        ("logs:DescribeLogGroups", "*"),
        *(
            (f"logs:{action}", name)
            for action in ("DescribeLogStreams", "CreateLogStream", "PutLogEvents")
            for name in (group, f"{group}:*")
        ),
    }


def test_a_job_reads_entries_and_writes_leases_tables_and_variants(resources: dict[str, dict[str, Any]]) -> None:
    bound = {
        action: statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in role(resources)
        for action in several(statement["Action"])
        if action.startswith("dynamodb:")
    }
    assert bound == {
        "dynamodb:GetItem": ["lease/*", "shares", "share/*"],
        "dynamodb:Query": ["shares", "share/*", "recipients", "storages"],
        "dynamodb:UpdateItem": ["lease/*", "shares", "share/*"],
        "dynamodb:PutItem": ["shares", "share/*"],
        "dynamodb:ConditionCheckItem": ["shares", "share/*"],
        "dynamodb:DeleteItem": ["share/*"],
    }
    # Grants, tokens and queries: what says who may read.
    for partition in ("recipient/0a", "query/0a", "token/ab"):
        assert not any(fnmatchcase(partition, key) for allowed in bound.values() for key in allowed)


def test_only_emr_runs_jobs_and_only_those_of_the_application(resources: dict[str, dict[str, Any]]) -> None:
    [trust] = resources["JobRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
    assert trust["Condition"]["ArnLike"]["aws:SourceArn"] == f"{APPLICATION}/${{JobsApplication}}*"


def test_sources_and_keys_are_read_where_they_are_named() -> None:
    key = "arn:aws:kms:us-east-1:000000000000:key/1"
    found = rights(transformed(parameters={**ON, "SourceBuckets": "arn:aws:s3:::inbox", "DataKeys": key}))
    assert {grant for grant in found if "inbox" in grant[1]} == {
        ("s3:ListBucket", "arn:aws:s3:::inbox"),
        ("s3:GetObject", "arn:aws:s3:::inbox/*"),
    }
    assert {action for action, resource in found if resource == key} == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_the_function_starts_jobs_and_gives_them_their_role(resources: dict[str, dict[str, Any]]) -> None:
    assert granted(resources, "SubmitJob") == {
        ("emr-serverless:StartJobRun", f"{APPLICATION}/${{JobsApplication}}"),
        ("iam:PassRole", "${JobRole.Arn}"),
        ("s3:GetObject", "${JobsBucket.Arn}/jobs/current"),
    }
    assert keys(resources, "SubmitJob") == {}


def test_schedules_start_jobs_by_the_alias_and_nothing_else(resources: dict[str, dict[str, Any]]) -> None:
    assert role(resources, "ScheduleRole") == [
        {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "${SubmitJobAliaslive}"}
    ]


def test_a_failure_anywhere_on_the_way_reaches_the_topic(resources: dict[str, dict[str, Any]]) -> None:
    topic = {"AlarmTopic": "arn:aws:sns:us-east-1:000000000000:alarms"}
    for found, actions in ((resources, None), (transformed(parameters={**ON, **topic}), [topic["AlarmTopic"]])):
        alarms = {
            said["Properties"]["MetricName"]: said["Properties"].get("AlarmActions")
            for name, said in found.items()
            if name in {"JobFailuresAlarm", "JobStartsAlarm", "ScheduleFailuresAlarm"}
        }
        assert alarms == dict.fromkeys(("FailedJobs", "Errors", "InvocationDroppedCount"), actions)


@pytest.mark.parametrize("parameter", CHANGED)
def test_a_changed_parameter_publishes_the_function_that_it_changes(
    resources: dict[str, dict[str, Any]], parameter: str
) -> None:
    value = "00abc123" if parameter == "SparkJobs" else CHANGED[parameter]
    other = transformed(parameters={**ON, parameter: value})
    changed = configured(other, "SubmitJob") != configured(resources, "SubmitJob")
    assert (published(other)["SubmitJob"] != published(resources)["SubmitJob"]) == changed


def test_the_outputs_are_there_when_the_jobs_are() -> None:
    conditional = {name for name, said in read(TEMPLATE)["Outputs"].items() if said.get("Condition") == "RunsJobs"}
    assert conditional >= {"JobsApplicationId", "JobsBucketName", "SubmitJobArn", "ScheduleGroup", "ScheduleRoleArn"}
