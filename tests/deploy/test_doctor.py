"""Test `deltaic doctor` on a correct deployed stack, and on the same stack with defects."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

import pyarrow as pa
import pytest
from cli.conftest import Deltaic
from cloudformation import transformed
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.local.bucket_cors import allow_origins, origin_of
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from deploy.deployments import Deployment
from served import served
from template_rights import EVERYTHING
from typer.testing import Result

pytestmark = pytest.mark.deploy

TABLE = "doctor_share.s.numbers"


@dataclass(frozen=True)
class ExaminedStack:
    """The deployed stack, with the command line and clients that examine it."""

    deltaic: Deltaic
    catalog: CatalogAdmin
    client: Callable[[Any], Any]
    deployment: Deployment

    def examine(
        self, *, deltaic: Deltaic | None = None, options: str = "", **variables: str
    ) -> dict[str, dict[str, str]]:
        """Run the doctor, and return the findings by check."""
        return self.read((deltaic or self.deltaic)(f"{options} doctor --table {TABLE} --json", **variables))

    def read(self, result: Result) -> dict[str, dict[str, str]]:
        """Return the findings of a run by check, and check that its exit code agrees with them."""
        findings = json.loads(result.stdout)
        assert result.exit_code == any(finding["verdict"] == "failed" for finding in findings), result.output
        assert all(bool(finding["remedy"]) == (finding["verdict"] in {"failed", "warning"}) for finding in findings), (
            findings
        )
        return {finding["check"]: finding for finding in findings}


@pytest.fixture(scope="module")
def stack(  # noqa: PLR0917 -- fixtures are arguments
    deployment: Deployment,
    admin: CatalogAdmin,
    embedded_aws: EmbeddedAws,
    endpoint: str,
    lake: str,
    client: Callable[[Any], Any],
) -> Iterator[ExaminedStack]:
    """Return the stack with settings that the embedded AWS lacks, and with a shared table."""
    location, tables = f"s3://{lake}/doctor", (deployment.outputs.catalog_table, deployment.outputs.tokens_table)
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    write_deltalake(location, pa.table({"number": [1, 2, 3]}), storage_options=options)
    admin.shares.create("doctor_share")
    admin.schemas.create("doctor_share", "s")
    admin.tables.create("doctor_share", "s", "numbers", location)
    admin.recipients.create("doctors_reader")
    admin.grants.create("doctors_reader", "doctor_share")
    recovery = {"PointInTimeRecoveryEnabled": True}
    for name in tables:
        client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=True)
        client("dynamodb").update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
    role = {"op": "replace", "path": "/cloudwatchRoleArn", "value": deployment.outputs.signing_role_arn}
    client("apigateway").update_account(patchOperations=[role])
    allow_origins(client("s3"), lake, [origin_of(endpoint)])
    variables = {**embedded_aws.environment, "DELTAIC_STACK": "deltaic-deploytest", "DELTAIC_ENDPOINT": endpoint}
    yield ExaminedStack(Deltaic(variables), admin, client, deployment)
    for name in tables:
        client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=False)
    admin.shares.delete("doctor_share", force=True)
    admin.recipients.delete("doctors_reader")


def test_correct_stack_has_only_ok_findings(stack: ExaminedStack) -> None:
    findings = stack.examine()
    assert {check: finding["message"] for check, finding in findings.items() if finding["verdict"] != "ok"} == {}
    assert {
        "the clock of this machine matches AWS",
        "the stack is deployed",
        "reaches the table of shares",
        "reaches the table of tokens",
        "protects the table of tokens from deletion",
        "can restore the table of shares",
        "has the key of page tokens",
        "the signing role trusts signing functions",
        "signing functions can assume the signing role",
        "enough functions can run at once",
        "the gateway can write its access log",
        "runs the code of this installation",
        "can read bucket deploytest-lake",
        "finds bucket deploytest-lake in the stack's region",
        "the page /explore can read bucket deploytest-lake",
        "reads the logs of shared tables",
        f"returns the version of {TABLE}",
        f"signs a URL that reads {TABLE}",
        f"streams responses for {TABLE}",
    } <= set(findings)
    resources = transformed(parameters=EVERYTHING)
    [trust] = resources["SigningRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    signers = f"{len(trust['Principal']['AWS'])} functions"
    assert findings["the signing role trusts signing functions"]["message"] == signers
    assert findings["signing functions can assume the signing role"]["message"] == signers
    packages = [
        name
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Function" or name.startswith("DeltaicLayer")
    ]
    assert findings["runs the code of this installation"]["message"] == f"{len(packages)} packages"
    reader = stack.catalog.recipients.get("doctors_reader")
    assert stack.catalog.tokens.list(reader.id) == []


def test_findings_are_printed_with_a_remedy(stack: ExaminedStack) -> None:
    answer = stack.deltaic("--catalog nowhere doctor")
    assert answer.exit_code == 1
    assert "ok the stack is deployed deltaic-deploytest: " in answer.stdout
    assert (
        "FAILED reaches the table of shares DescribeTable: ResourceNotFoundException\n   check the name ("
        in answer.stdout
    )
    assert "failed" in answer.stderr


@contextmanager
def deleted_key(stack: ExaminedStack) -> Iterator[None]:
    name = stack.deployment.outputs.token_key_secret
    stack.client("secretsmanager").delete_secret(SecretId=name, RecoveryWindowInDays=7)
    yield
    stack.client("secretsmanager").restore_secret(SecretId=name)


@contextmanager
def table_without_protection(stack: ExaminedStack) -> Iterator[None]:
    name = stack.deployment.outputs.tokens_table
    stack.client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=False)
    yield
    stack.client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=True)


@contextmanager
def table_without_recovery(stack: ExaminedStack) -> Iterator[None]:
    dynamodb, name = stack.client("dynamodb"), stack.deployment.outputs.catalog_table
    for enabled in (False, True):
        dynamodb.update_continuous_backups(
            TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": enabled}
        )
        if not enabled:
            yield


@contextmanager
def role_without_trust(stack: ExaminedStack) -> Iterator[None]:
    iam, name = stack.client("iam"), stack.deployment.outputs.signing_role_arn.rsplit("/", 1)[-1]
    before = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    query = stack.deployment.roles["QueryTable"]
    after = json.loads(json.dumps(before).replace(query, query.replace("QueryTable", "GetShare")))
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(after))
    yield
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(before))


@contextmanager
def denied_function(stack: ExaminedStack) -> Iterator[None]:
    iam, name = stack.client("iam"), stack.deployment.roles["GetQuery"].rsplit("/", 1)[-1]
    deny = {"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    iam.put_role_policy(RoleName=name, PolicyName="No", PolicyDocument=document)
    yield
    iam.delete_role_policy(RoleName=name, PolicyName="No")


@contextmanager
def bucket_in_another_region(stack: ExaminedStack) -> Iterator[None]:
    region: Any = {"LocationConstraint": "eu-west-1"}
    stack.client("s3").create_bucket(Bucket="doctor-elsewhere", CreateBucketConfiguration=region)
    stack.catalog.tables.create("doctor_share", "s", "elsewhere", "s3://doctor-elsewhere/t")
    yield
    stack.catalog.tables.delete("doctor_share", "s", "elsewhere")
    stack.client("s3").delete_bucket(Bucket="doctor-elsewhere")


@contextmanager
def unknown_storage_role(stack: ExaminedStack) -> Iterator[None]:
    stack.catalog.storages.create("doctors", role_arn="arn:aws:iam::123456789012:role/partner")
    yield
    stack.catalog.storages.delete("doctors")


@contextmanager
def missing_log(stack: ExaminedStack) -> Iterator[None]:
    object_ = {"Bucket": "deploytest-lake", "Key": "doctor/_delta_log/00000000000000000000.json"}
    content = stack.client("s3").get_object(**object_)["Body"].read()
    stack.client("s3").delete_object(**object_)
    yield
    stack.client("s3").put_object(**object_, Body=content)


@contextmanager
def gateway_without_role(stack: ExaminedStack) -> Iterator[None]:
    gateway, change = stack.client("apigateway"), {"op": "replace", "path": "/cloudwatchRoleArn"}
    before = gateway.get_account()["cloudwatchRoleArn"]
    gateway.update_account(patchOperations=[{**change, "value": ""}])
    yield
    gateway.update_account(patchOperations=[{**change, "value": before}])


@contextmanager
def different_code(stack: ExaminedStack) -> Iterator[None]:
    formation = stack.client("cloudformation")
    template = formation.get_template(StackName="deltaic-deploytest", TemplateStage="Processed")["TemplateBody"]
    code = template["Resources"]["ListShares"]["Properties"]["Code"]
    object_ = {"Bucket": code["S3Bucket"], "Key": code["S3Key"]}
    content = stack.client("s3").get_object(**object_)["Body"].read()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zip_file:
        zip_file.writestr("app.py", "handler = None")
    stack.client("s3").put_object(**object_, Body=archive.getvalue())
    yield
    stack.client("s3").put_object(**object_, Body=content)


LAKE, ELSEWHERE = "arn:aws:s3:::deploytest-lake", "arn:aws:s3:::doctor-elsewhere"
WRONG: dict[Callable[[ExaminedStack], Any], dict[str, tuple[str, str]]] = {
    deleted_key: {"has the key of page tokens": ("failed", "restore-secret --secret-id deltaic/deploytest/token-key")},
    table_without_protection: {
        "protects the table of tokens from deletion": ("warning", "--deletion-protection-enabled")
    },
    table_without_recovery: {"can restore the table of shares": ("failed", "PointInTimeRecoveryEnabled=true")},
    role_without_trust: {"the signing role trusts signing functions": ("failed", "deploy again")},
    denied_function: {"signing functions can assume the signing role": ("failed", "SignUrls")},
    bucket_in_another_region: {
        "can read bucket doctor-elsewhere": ("failed", f"DataBuckets={LAKE},{ELSEWHERE}, or move doctor_share"),
        "finds bucket doctor-elsewhere in the stack's region": ("failed", "--region eu-west-1"),
        "reads the log of doctor_share.s.elsewhere": ("failed", "deltaic table delete doctor_share.s.elsewhere"),
    },
    unknown_storage_role: {
        "can assume the role of storage doctors": ("failed", "StorageRoles=arn:aws:iam::123456789012:")
    },
    missing_log: {
        f"reads the log of {TABLE}": ("failed", f"deltaic table update {TABLE} --location"),
        f"returns the version of {TABLE}": ("failed", "check its location"),
    },
    gateway_without_role: {"the gateway can write its access log": ("failed", "AmazonAPIGatewayPushToCloudWatchLogs")},
    different_code: {"runs the code of this installation": ("warning", "deploy this version")},
}
"""Defects, each with its findings: verdict and part of the remedy. The test creates all of them at once."""


def test_every_defect_is_found_with_its_remedy(stack: ExaminedStack) -> None:
    with ExitStack() as defects:
        for defect in WRONG:
            defects.enter_context(defect(stack))
        answer = stack.deltaic(f"doctor --table {TABLE} --json")
    findings = stack.read(answer)  # after all defects were repaired
    for expected in WRONG.values():
        for check, (verdict, remedy) in expected.items():
            assert (findings[check]["verdict"], remedy in findings[check]["remedy"]) == (verdict, True), findings[check]
    # Queries also fail without the key and without the log. All other checks have the same results.
    failed = {check for check, finding in findings.items() if finding["verdict"] == "failed"}
    assert failed - {check for expected in WRONG.values() for check in expected} == {f"responds to queries of {TABLE}"}


@contextmanager
def fake_service(body: str, status: int = 200, date: str = "") -> Iterator[str]:
    """Run a server that replaces a service of AWS and always sends the same response."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815 -- the base class's names

        def date_time_string(self, timestamp: float | None = None) -> str:
            return date or super().date_time_string(timestamp)

    with served(Handler) as address:
        yield address


def test_wrong_clock_fails_and_small_quota_is_a_warning(stack: ExaminedStack) -> None:
    with (
        fake_service("", date="Sun, 22 Nov 2020 12:00:00 GMT") as clock,
        fake_service(json.dumps({"AccountLimit": {"ConcurrentExecutions": 10}})) as quotas,
    ):
        findings = stack.examine(AWS_ENDPOINT_URL_STS=clock, AWS_ENDPOINT_URL_LAMBDA=quotas)
    first = next(iter(findings.values()))
    assert (first["check"], first["verdict"]) == ("the clock of this machine matches AWS", "failed")
    assert "AWS has 2020-11-22 12:00:00 UTC" in first["remedy"]
    quota = findings["enough functions can run at once"]
    assert (quota["verdict"], quota["message"]) == ("warning", "10 in the account, 0 reserved by this stack")
    assert "L-B99A9384" in quota["remedy"]


RIGHTS = [("Allow", "*"), ("Deny", "iam:GetRole")]


def test_refused_requests_are_reported(stack: ExaminedStack) -> None:
    iam = stack.client("iam")
    iam.create_user(UserName="doctor")
    statements = [{"Effect": effect, "Action": action, "Resource": "*"} for effect, action in RIGHTS]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="doctor", PolicyName="P", PolicyDocument=document)
    key = iam.create_access_key(UserName="doctor")["AccessKey"]
    findings = stack.examine(AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"])
    observations = {
        check: finding["message"] for check, finding in findings.items() if finding["verdict"] == "not tried"
    }
    refused = "GetRole was rejected (AccessDenied)"
    assert (
        observations["the signing role trusts signing functions"]
        == observations["signing functions can assume the signing role"]
        == refused
    )


def test_missing_stack_and_endpoint_are_reported(stack: ExaminedStack) -> None:
    result = stack.deltaic(f"--stack nowhere doctor --table {TABLE} --json")
    assert result.exit_code == 1
    assert "there is no stack 'nowhere'" in result.stderr
    findings = stack.examine(DELTAIC_ENDPOINT="http://127.0.0.1:9")
    assert findings[f"reads {TABLE}"]["message"] == "ConnectError at http://127.0.0.1:9"
