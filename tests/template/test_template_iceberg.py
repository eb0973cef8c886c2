"""What serves Iceberg's clients: nothing of it while it is off, and no more rights than it uses otherwise."""

import json
from typing import Any

import pytest
from cloudformation import transformed
from deltaic.sharing.iceberg_clients.background_generation import UNDER_WAY_SECONDS
from deltaic_ops.deploy.sam_template import load_template
from template_rights import BUCKETS, CHANGED, LOG_OBJECTS, OBJECTS, configured, granted, keys, published

ON = {**BUCKETS, "Iceberg": "enabled"}
FUNCTIONS = ("ListIceberg", "LoadIcebergTable", "MakeIcebergMetadata", "SignIcebergRequest")
OBJECTS_MADE = "arn:aws:s3:::${IcebergBucket}/*"
SIGNING = {("sts:AssumeRole", "${SigningRole.Arn}"), ("sts:TagSession", "${SigningRole.Arn}")}


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    return transformed(parameters=ON)


def test_while_it_is_off_nothing_of_it_is_made(made: dict[str, dict[str, Any]]) -> None:
    off = transformed(parameters=BUCKETS)
    more = sorted(made[name]["Type"] for name in made.keys() - off.keys() if not name.startswith("ApiDeployment"))
    # A function has a permission for each of its routes, and none shares a version with a stack that lacks it.
    assert [kind for kind in more if kind not in {"AWS::Lambda::Permission", "AWS::Lambda::Version"}] == [
        *["AWS::IAM::Role"] * 4, *["AWS::Lambda::Alias"] * 4, "AWS::Lambda::EventInvokeConfig",
        *["AWS::Lambda::Function"] * 4, "AWS::S3::Bucket", "AWS::S3::BucketPolicy",
    ]  # fmt: skip
    assert "IcebergBucket" not in json.dumps(off)
    assert [one.path for one in load_template().routes if one.path.startswith("/iceberg")] == []


def test_the_list_reads_the_catalog_alone(made: dict[str, dict[str, Any]]) -> None:
    assert {resource for _, resource in granted(made, "ListIceberg")} == {"${Catalog.Arn}"}
    bound = keys(made, "ListIceberg")
    assert bound["dynamodb:UpdateItem"] == ["limits/*"]
    assert bound["dynamodb:BatchGetItem"] == ["recipient/*", "shares", "share/*"]


@pytest.mark.parametrize("function", ["LoadIcebergTable", "MakeIcebergMetadata"])
def test_what_makes_metadata_reads_logs_and_what_it_has_made(made: dict[str, dict[str, Any]], function: str) -> None:
    grants = granted(made, function)
    assert {grant for grant in grants if grant[0].startswith(("s3:", "sts:"))} == {
        *(("s3:ListBucket", f"arn:aws:s3:::{bucket}") for bucket in ("lake", "raw", "${IcebergBucket}")),
        *(("s3:GetObject", objects) for objects in (*LOG_OBJECTS, OBJECTS_MADE)),
        ("s3:PutObject", OBJECTS_MADE),
        *SIGNING,
    }


def test_the_one_that_is_waited_for_may_invoke_the_other_alone_which_is_tried_once(
    made: dict[str, dict[str, Any]],
) -> None:
    invoked = [(one, *grant) for one in FUNCTIONS for grant in granted(made, one) if grant[0].startswith("lambda:")]
    template = load_template(parameters=ON)
    maker = template.functions["MakeIcebergMetadata"]
    assert invoked == [("LoadIcebergTable", "lambda:InvokeFunction", maker.arn)]
    assert template.functions["LoadIcebergTable"].environment["ICEBERG_MAKER"] == maker.arn
    assert maker.timeout == UNDER_WAY_SECONDS
    [how] = [one["Properties"] for one in made.values() if one["Type"] == "AWS::Lambda::EventInvokeConfig"]
    assert (how["Qualifier"], how["MaximumRetryAttempts"]) == (maker.arn.rpartition(":")[2], 0)
    assert how["MaximumEventAgeInSeconds"] < UNDER_WAY_SECONDS


def test_what_signs_reads_no_table_and_writes_nothing(made: dict[str, dict[str, Any]]) -> None:
    grants = granted(made, "SignIcebergRequest")
    assert {grant for grant in grants if grant[0].startswith(("s3:", "sts:"))} == {
        ("s3:GetObject", OBJECTS_MADE),
        *SIGNING,
    }


@pytest.mark.parametrize("function", FUNCTIONS)
def test_counts_are_all_that_they_write_into_the_catalog(made: dict[str, dict[str, Any]], function: str) -> None:
    database = {grant for grant in granted(made, function) if grant[0].startswith("dynamodb:")}
    assert {resource for _, resource in database} == {"${Catalog.Arn}"}
    writes = {action for action, _ in database} - {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
    assert writes == {"dynamodb:UpdateItem"}
    assert keys(made, function)["dynamodb:UpdateItem"] == ["limits/*"]


def test_the_signing_role_reads_what_was_made_and_lists_none_of_it(made: dict[str, dict[str, Any]]) -> None:
    role = made["SigningRole"]["Properties"]
    assert role["Policies"][0]["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": BUCKETS["DataBuckets"].split(",")},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS_MADE},
    ]
    trusted = role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"]
    assert {f"${{{name}Role.Arn}}" for name in FUNCTIONS} & set(trusted) == {
        f"${{{name}Role.Arn}}" for name in FUNCTIONS[1:]
    }


def test_the_bucket_is_private_encrypted_and_forgets(made: dict[str, dict[str, Any]]) -> None:
    # A bucket that is not empty would keep its stack from being deleted.
    assert made["IcebergBucket"]["DeletionPolicy"] == "RetainExceptOnCreate"
    said = made["IcebergBucket"]["Properties"]
    assert set(said["PublicAccessBlockConfiguration"].values()) == {True}
    assert said["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    [encryption] = said["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    [rule] = said["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 21)


@pytest.mark.parametrize("parameter", ["LimitsOnFailure", "LogLevel", "Tracing", "SnapStart", "UrlTtlSeconds"])
def test_a_change_of_them_is_deployed(made: dict[str, dict[str, Any]], parameter: str) -> None:
    changed = transformed(parameters={**ON, parameter: CHANGED[parameter]})
    for function in FUNCTIONS:
        same = configured(made, function) == configured(changed, function)
        assert (published(made)[function] == published(changed)[function]) == same, function


def test_the_output_by_which_profiles_know_of_it() -> None:
    assert "IcebergBucketName" in load_template(parameters=ON).outputs
    assert "IcebergBucketName" not in load_template(parameters=BUCKETS).outputs
