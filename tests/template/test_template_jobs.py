"""Test the template's Spark jobs: optional, and with only the permissions that they use."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from cloudformation import transformed
from deltaic.catalog import keys as keys_of
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.catalog.writes import update
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import TEMPLATE
from deltaic_pipeline.table.catalog_entry import CatalogEntry, EntryName, JobCatalog
from deltaic_pipeline.view_refresh.catalog_session import finish_task, start_task
from deltaic_pipeline.view_refresh.refresh import RefreshResult
from ministack.core.iam_evaluator import EvalContext, evaluate, evaluate_resource_policy, parse_policy_document
from pipeline.place import CATALOG
from template_rights import BUCKETS, OBJECTS, granted, keys, several

pytestmark = pytest.mark.slow

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


def test_disabled_jobs_create_no_resources() -> None:
    disabled = transformed(parameters=BUCKETS)
    assert not KINDS & {resource["Type"] for resource in disabled.values()}
    assert not {name for name in disabled if "Job" in name or "Schedule" in name}


def test_existing_application_is_used() -> None:
    resources = transformed(parameters={**BUCKETS, "SparkJobs": "00abc123"})
    assert "JobsApplication" not in resources
    assert resources["SubmitJob"]["Properties"]["Environment"]["Variables"]["JOBS_APPLICATION"] == "00abc123"
    assert {grant for grant in granted(resources, "SubmitJob") if "emr" in grant[0]} == {
        ("emr-serverless:StartJobRun", f"{APPLICATION}/00abc123"),
        ("emr-serverless:GetJobRun", f"{APPLICATION}/00abc123/jobruns/*"),
    }


def test_application_has_the_pinned_release_and_limits(
    resources: dict[str, dict[str, Any]],
) -> None:
    properties = resources["JobsApplication"]["Properties"]
    assert (properties["ReleaseLabel"], properties["Type"], properties["Architecture"]) == (
        "emr-spark-8.1.0",
        "SPARK",
        "ARM64",
    )
    assert properties["AutoStartConfiguration"]["Enabled"] is True
    assert properties["AutoStopConfiguration"]["Enabled"] is True
    assert set(properties["MaximumCapacity"]) == {"Cpu", "Memory", "Disk"}
    assert "InitialCapacity" not in properties
    assert "NetworkConfiguration" not in properties


def test_jobs_run_in_the_given_subnets() -> None:
    parameters = {**ON, "JobSubnets": "subnet-1,subnet-2", "JobSecurityGroups": "sg-1"}
    properties = transformed(parameters=parameters)["JobsApplication"]["Properties"]
    assert properties["NetworkConfiguration"] == {"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}


def test_job_role_has_only_the_rights_of_jobs(resources: dict[str, dict[str, Any]]) -> None:
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
        *(
            (f"dynamodb:{action}", "${Catalog.Arn}")
            for action in ("GetItem", "BatchGetItem", "Query", "UpdateItem", "DeleteItem")
        ),
        ("logs:DescribeLogGroups", "*"),
        *(
            (f"logs:{action}", name)
            for action in ("DescribeLogStreams", "CreateLogStream", "PutLogEvents")
            for name in (group, f"{group}:*")
        ),
    }


def test_job_reads_entries_and_writes_leases_tables_and_variants(resources: dict[str, dict[str, Any]]) -> None:
    bound = {
        action: statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in role(resources)
        for action in several(statement["Action"])
        if action.startswith("dynamodb:")
    }
    assert bound == {
        "dynamodb:GetItem": ["lease/*", "shares", "share/*", "overlaps"],
        "dynamodb:BatchGetItem": ["lease/*", "shares", "share/*", "overlaps"],
        "dynamodb:Query": ["shares", "share/*", "recipients", "storages"],
        "dynamodb:UpdateItem": ["lease/*", "shares", "share/*", "overlaps"],
        "dynamodb:DeleteItem": ["share/*/*"],
    }
    # Jobs have no access to grants, tokens and queries.
    for partition in ("recipient/0a", "query/0a", "token/ab"):
        assert not any(fnmatchcase(partition, key) for allowed in bound.values() for key in allowed)


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("account", ["123456789012", "000000000000"])
def test_buckets_deny_plain_http_except_to_emulators(account: str, secure: bool) -> None:
    resources = transformed(parameters={**ON, "Iceberg": "enabled"})
    buckets = {name for name, resource in resources.items() if resource["Type"] == "AWS::S3::Bucket"}
    policies = [
        resource["Properties"] for resource in resources.values() if resource["Type"] == "AWS::S3::BucketPolicy"
    ]
    assert {policy["Bucket"] for policy in policies} == {f"${{{name}}}" for name in buckets}
    for policy in policies:
        bucket = f"arn:aws:s3:::{policy['Bucket'][2:-1].lower()}"
        document = json.dumps(policy["PolicyDocument"]).replace(f"{policy['Bucket'][:-1]}.Arn}}", bucket)
        for action, target in (("s3:GetObject", f"{bucket}/key"), ("s3:ListBucket", bucket)):
            context = EvalContext(
                "reader", "AssumedRole", account, action, target, "us-east-1", secure_transport=secure
            )
            denied = evaluate_resource_policy(json.loads(document), context).decision == "Deny"
            assert denied == (not secure and account != "000000000000")


Decide = Callable[[str, Mapping[str, Any]], bool]
RESTRICTIONS = {"partition_filter": "region = 'EU'", "hidden_columns": ["region"], "access_modes": ["url"]}


@pytest.fixture
def decide(resources: dict[str, dict[str, Any]]) -> Decide:
    """Return a function that decides whether a job may do a write, from its keys and attributes, as AWS does."""
    table = "arn:aws:dynamodb:us-east-1:000000000000:table/catalog"
    document = json.dumps({"Version": "2012-10-17", "Statement": role(resources)}).replace("${Catalog.Arn}", table)
    policies = [parse_policy_document(document)]

    def allowed(action: str, arguments: Mapping[str, Any]) -> bool:
        item = arguments.get("Key") or arguments["Item"]
        attributes = [*item, *arguments.get("ExpressionAttributeNames", {}).values()]
        service_context = {"dynamodb:leadingkeys": [item["pk"]["S"]], "dynamodb:attributes": attributes}
        context = EvalContext("job", "AssumedRole", "000000000000", f"dynamodb:{action}", table, "us-east-1")
        return bool(evaluate(replace(context, service_context=service_context), policies).decision == "Allow")

    return allowed


def test_job_can_do_all_its_writes(dynamo: Dynamo, admin: CatalogAdmin, decide: Decide) -> None:
    writes: list[tuple[str, dict[str, Any]]] = []

    def record(params: dict[str, Any], **_: Any) -> None:
        writes.extend(
            (f"{kind}Item", arguments) for item in params["TransactItems"] for kind, arguments in item.items()
        )

    admin.recipients.create("alice", properties={"site": "Porto"})
    dynamo.client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", record)
    leases = Leases(CATALOG, dynamo)
    jobs_catalog = JobCatalog(leases, admin)
    entry = CatalogEntry(EntryName("made", "by", "jobs"), "s3://lake/made", create_share=True)
    assert len(jobs_catalog.register(entry)) == 3
    assert jobs_catalog.register(entry) == []
    leases.acquire("s3://lake/made", "job", timedelta(seconds=60))
    leases.renew("s3://lake/made", "job", timedelta(seconds=60))
    leases.release("s3://lake/made", "job")
    dynamo.client.meta.events.unregister("provide-client-params.dynamodb.TransactWriteItems", record)
    admin.grants.create("alice", "made")
    sql = "SELECT id FROM source WHERE site = current_recipient('site')"
    view = admin.views.create("made", "by", "view", "s3://lake/v", source="made.by.jobs", sql=sql, properties=["site"])
    dynamo.client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", record)
    task = start_task(admin, view)
    result = RefreshResult(0, {"made.by.jobs": 0}, "", 1, 0, 0, {task.audiences[0].name: 1}, 1)
    assert finish_task(admin, task, result, "run", 1.0).refreshed_at
    admin.views.record_failure(view, "of no use")
    admin.views.partitions.remove("made", view.table_id, [task.audiences[0].name])
    dynamo.client.meta.events.unregister("provide-client-params.dynamodb.TransactWriteItems", record)
    assert {kind for kind, _ in writes} == {"UpdateItem", "DeleteItem"}
    assert [write for write in writes if not decide(*write)] == []


def test_job_cannot_change_restrictions_or_delete_entries(decide: Decide) -> None:
    key = keys_of.asset("table", "s", "d", "t")
    other_attributes = {
        "iceberg": "vended",
        "format": "iceberg",
        "metadata_location": "s3://lake/t/metadata/v1.metadata.json",
    }
    protected = {
        **RESTRICTIONS,
        **other_attributes,
        "view_properties": ["site"],
        "recipient": "alice",
        "recipient_id": "0a",
    }
    for name, value in protected.items():
        for change in ({name: value}, {"history": True, name: None}):
            [[_, write]] = update("catalog", key, assign=change).items()
            assert not decide("UpdateItem", write), change
    [[_, write]] = update("catalog", key, assign={"history": True}).items()
    assert decide("UpdateItem", write)  # the remaining access of a job to entries of others: docs/leaks.md
    for entry in (
        key,
        keys_of.asset("view", "s", "d", "t"),
        keys_of.share_entry("grant", "s", "0a"),
        keys_of.schema("s", "d"),
    ):
        assert not decide("DeleteItem", {"Key": {"pk": {"S": entry.pk}, "sk": {"S": entry.sk}}})
        assert not decide("PutItem", {"Item": {"pk": {"S": entry.pk}, "sk": {"S": entry.sk}}})
    for entry in (
        keys_of.recipient_entry("grant", "0a", "s"),
        keys_of.catalog_entry("recipient", "alice"),
        keys_of.catalog_entry("storage", "minio"),
    ):
        assert not decide("UpdateItem", {"Key": {"pk": {"S": entry.pk}, "sk": {"S": entry.sk}}})


def test_only_emr_with_this_application_assumes_the_job_role(resources: dict[str, dict[str, Any]]) -> None:
    [trust] = resources["JobRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
    assert trust["Condition"]["ArnLike"]["aws:SourceArn"] == f"{APPLICATION}/${{JobsApplication}}*"


def test_job_reads_given_sources_and_keys() -> None:
    key = "arn:aws:kms:us-east-1:000000000000:key/1"
    job_rights = rights(transformed(parameters={**ON, "SourceBuckets": "arn:aws:s3:::inbox", "DataKeys": key}))
    assert {grant for grant in job_rights if "inbox" in grant[1]} == {
        ("s3:ListBucket", "arn:aws:s3:::inbox"),
        ("s3:GetObject", "arn:aws:s3:::inbox/*"),
    }
    assert {action for action, resource in job_rights if resource == key} == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_function_starts_jobs_with_the_job_role(resources: dict[str, dict[str, Any]]) -> None:
    assert granted(resources, "SubmitJob") == {
        ("emr-serverless:StartJobRun", f"{APPLICATION}/${{JobsApplication}}"),
        ("emr-serverless:GetJobRun", f"{APPLICATION}/${{JobsApplication}}/jobruns/*"),
        ("iam:PassRole", "${JobRole.Arn}"),
        ("s3:GetObject", "${JobsBucket.Arn}/jobs/current"),
    }
    assert keys(resources, "SubmitJob") == {}


def test_schedules_only_invoke_the_alias_of_the_function(resources: dict[str, dict[str, Any]]) -> None:
    assert role(resources, "ScheduleRole") == [
        {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "${SubmitJobAliaslive}"}
    ]


def test_failures_of_jobs_starts_and_schedules_notify_the_topic(resources: dict[str, dict[str, Any]]) -> None:
    topic = {"AlarmTopic": "arn:aws:sns:us-east-1:000000000000:alarms"}
    for stack, actions in ((resources, None), (transformed(parameters={**ON, **topic}), [topic["AlarmTopic"]])):
        alarms = {
            resource["Properties"]["MetricName"]: resource["Properties"].get("AlarmActions")
            for name, resource in stack.items()
            if name in {"JobFailuresAlarm", "JobStartsAlarm", "ScheduleFailuresAlarm"}
        }
        assert alarms == dict.fromkeys(("FailedJobs", "Errors", "InvocationDroppedCount"), actions)


def test_outputs_of_jobs_are_conditional() -> None:
    conditional = {name for name, output in read(TEMPLATE)["Outputs"].items() if output.get("Condition") == "RunsJobs"}
    assert conditional >= {"JobsApplicationId", "JobsBucketName", "SubmitJobArn", "ScheduleGroup", "ScheduleRoleArn"}
