"""Test the template's functions for Iceberg clients: optional, and with only the permissions that they use."""

import json
from typing import Any

import pytest
from cloudformation import transformed
from deltaic.sharing.iceberg_clients.background_generation import UNDER_WAY_SECONDS
from deltaic_ops.deploy.sam_template import load_template
from template_rights import BUCKETS, CHANGED, LOG_OBJECTS, OBJECTS, configured, granted, keys, published

ON = {**BUCKETS, "Iceberg": "enabled"}
FUNCTIONS = ("ListIceberg", "LoadIcebergTable", "MakeIcebergMetadata", "SignIcebergRequest")
METADATA_OBJECTS = "arn:aws:s3:::${IcebergBucket}/*"
SIGNING = {("sts:AssumeRole", "${SigningRole.Arn}"), ("sts:TagSession", "${SigningRole.Arn}")}


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_disabled_iceberg_creates_no_resources(resources: dict[str, dict[str, Any]]) -> None:
    disabled = transformed(parameters=BUCKETS)
    added = sorted(
        resources[name]["Type"] for name in resources.keys() - disabled.keys() if not name.startswith("ApiDeployment")
    )
    # Ignore permissions, one for each route, and versions, which differ between stacks.
    ignored = {"AWS::Lambda::Permission", "AWS::Lambda::Version"}
    assert [resource_type for resource_type in added if resource_type not in ignored] == [
        *["AWS::IAM::Role"] * 4, *["AWS::Lambda::Alias"] * 4, "AWS::Lambda::EventInvokeConfig",
        *["AWS::Lambda::Function"] * 4, "AWS::S3::Bucket", "AWS::S3::BucketPolicy",
    ]  # fmt: skip
    assert "IcebergBucket" not in json.dumps(disabled)
    assert [route.path for route in load_template().routes if route.path.startswith("/iceberg")] == []


def test_list_function_reads_only_the_catalog(resources: dict[str, dict[str, Any]]) -> None:
    assert {resource for _, resource in granted(resources, "ListIceberg")} == {"${Catalog.Arn}"}
    bound = keys(resources, "ListIceberg")
    assert bound["dynamodb:UpdateItem"] == ["limits/*"]
    assert bound["dynamodb:BatchGetItem"] == ["recipient/*", "shares", "share/*"]


@pytest.mark.parametrize("function", ["LoadIcebergTable", "MakeIcebergMetadata"])
def test_functions_that_generate_metadata_read_logs_and_metadata(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    grants = granted(resources, function)
    assert {grant for grant in grants if grant[0].startswith(("s3:", "sts:"))} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw", "${IcebergBucket}")),
        *(("s3:GetObject", objects) for objects in (*LOG_OBJECTS, METADATA_OBJECTS)),
        ("s3:PutObject", METADATA_OBJECTS),
        *SIGNING,
    }


def test_load_function_invokes_only_the_background_function_without_retries(
    resources: dict[str, dict[str, Any]],
) -> None:
    invoked = [
        (function, *grant)
        for function in FUNCTIONS
        for grant in granted(resources, function)
        if grant[0].startswith("lambda:")
    ]
    template = load_template(parameters=ON)
    background = template.functions["MakeIcebergMetadata"]
    assert invoked == [("LoadIcebergTable", "lambda:InvokeFunction", background.arn)]
    assert template.functions["LoadIcebergTable"].environment["ICEBERG_MAKER"] == background.arn
    assert background.timeout == UNDER_WAY_SECONDS
    [config] = [
        function["Properties"]
        for function in resources.values()
        if function["Type"] == "AWS::Lambda::EventInvokeConfig"
    ]
    assert (config["Qualifier"], config["MaximumRetryAttempts"]) == (background.arn.rpartition(":")[2], 0)
    assert config["MaximumEventAgeInSeconds"] < UNDER_WAY_SECONDS


def test_signing_function_reads_no_table_and_writes_nothing(resources: dict[str, dict[str, Any]]) -> None:
    grants = granted(resources, "SignIcebergRequest")
    assert {grant for grant in grants if grant[0].startswith(("s3:", "sts:"))} == {
        ("s3:GetObject", METADATA_OBJECTS),
        *SIGNING,
    }


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_write_only_counts_to_the_catalog(resources: dict[str, dict[str, Any]], function: str) -> None:
    database = {grant for grant in granted(resources, function) if grant[0].startswith("dynamodb:")}
    assert {resource for _, resource in database} == {"${Catalog.Arn}"}
    writes = {action for action, _ in database} - {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
    assert writes == {"dynamodb:UpdateItem"}
    assert keys(resources, function)["dynamodb:UpdateItem"] == ["limits/*"]


def test_signing_role_reads_metadata_and_cannot_list_it(resources: dict[str, dict[str, Any]]) -> None:
    role = resources["SigningRole"]["Properties"]
    assert role["Policies"][0]["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": BUCKETS["DataBuckets"].split(",")},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": METADATA_OBJECTS},
    ]
    trusted = role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"]
    assert {f"${{{name}Role.Arn}}" for name in FUNCTIONS} & set(trusted) == {
        f"${{{name}Role.Arn}}" for name in FUNCTIONS[1:]
    }


def test_bucket_is_private_and_encrypted_and_deletes_old_objects(resources: dict[str, dict[str, Any]]) -> None:
    # A non-empty bucket would prevent deletion of the stack.
    assert resources["IcebergBucket"]["DeletionPolicy"] == "RetainExceptOnCreate"
    properties = resources["IcebergBucket"]["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    [encryption] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    [rule] = properties["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 21)


@pytest.mark.parametrize("parameter", ["LimitsOnFailure", "LogLevel", "Tracing", "SnapStart", "UrlTtlSeconds"])
def test_changed_parameters_are_deployed(resources: dict[str, dict[str, Any]], parameter: str) -> None:
    changed = transformed(parameters={**ON, parameter: CHANGED[parameter]})
    for function in FUNCTIONS:
        is_same = configured(resources, function) == configured(changed, function)
        assert (published(resources)[function] == published(changed)[function]) == is_same, function


def test_output_contains_the_bucket() -> None:
    assert "IcebergBucketName" in load_template(parameters=ON).outputs
    assert "IcebergBucketName" not in load_template(parameters=BUCKETS).outputs
