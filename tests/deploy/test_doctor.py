"""What `deltaic doctor` says of a deployed stack that is right, and of the same stack with one thing wrong."""

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
class Stack:
    """The deployed stack, and what looks at it."""

    deltaic: Deltaic
    catalog: CatalogAdmin
    client: Callable[[Any], Any]
    deployment: Deployment

    def found(
        self, *, deltaic: Deltaic | None = None, options: str = "", **variables: str
    ) -> dict[str, dict[str, str]]:
        """Return the findings by what was looked at, after seeing that the exit code is theirs."""
        return self.read((deltaic or self.deltaic)(f"{options} doctor --table {TABLE} --json", **variables))

    def read(self, answer: Result) -> dict[str, dict[str, str]]:
        """Return the findings of a run of the doctor."""
        found = json.loads(answer.stdout)
        assert answer.exit_code == any(one["verdict"] == "failed" for one in found), answer.output
        assert all(bool(one["remedy"]) == (one["verdict"] in {"failed", "warning"}) for one in found), found
        return {one["check"]: one for one in found}


@pytest.fixture(scope="module")
def stack(  # noqa: PLR0917 -- fixtures are arguments
    deployment: Deployment,
    admin: CatalogAdmin,
    embedded_aws: EmbeddedAws,
    endpoint: str,
    lake: str,
    client: Callable[[Any], Any],
) -> Iterator[Stack]:
    """Return the stack with what the embedded AWS does not do by itself, and a table that somebody may read."""
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
    yield Stack(Deltaic(variables), admin, client, deployment)
    for name in tables:
        client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=False)
    admin.shares.delete("doctor_share", force=True)
    admin.recipients.delete("doctors_reader")


def test_of_a_stack_that_is_right_everything_is_ok_and_nothing_stays(stack: Stack) -> None:
    found = stack.found()
    assert {check: one["said"] for check, one in found.items() if one["verdict"] != "ok"} == {}
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
        "runs the code of this checkout",
        "can read bucket deploytest-lake",
        "finds bucket deploytest-lake in the stack's region",
        "the page /explore can read bucket deploytest-lake",
        "reads the logs of shared tables",
        f"returns the version of {TABLE}",
        f"signs a URL that reads {TABLE}",
        f"streams responses for {TABLE}",
    } <= set(found)
    resources = transformed(parameters=EVERYTHING)
    [trust] = resources["SigningRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    signers = f"{len(trust['Principal']['AWS'])} functions"
    assert found["the signing role trusts signing functions"]["said"] == signers
    assert found["signing functions can assume the signing role"]["said"] == signers
    of_ours = [
        one
        for one, made in resources.items()
        if made["Type"] == "AWS::Lambda::Function" or one.startswith("DeltaicLayer")
    ]
    assert found["runs the code of this checkout"]["said"] == f"{len(of_ours)} packages"
    reader = stack.catalog.recipients.get("doctors_reader")
    assert stack.catalog.tokens.list(reader.id) == []


def test_people_get_a_line_and_a_remedy(stack: Stack) -> None:
    answer = stack.deltaic("--catalog nowhere doctor")
    assert answer.exit_code == 1
    assert "ok the stack is deployed deltaic-deploytest: " in answer.stdout
    assert (
        "FAILED reaches the table of shares DescribeTable: ResourceNotFoundException\n   check the name ("
        in answer.stdout
    )
    assert "failed" in answer.stderr


@contextmanager
def deleted_key(stack: Stack) -> Iterator[None]:
    name = stack.deployment.outputs.token_key_secret
    stack.client("secretsmanager").delete_secret(SecretId=name, RecoveryWindowInDays=7)
    yield
    stack.client("secretsmanager").restore_secret(SecretId=name)


@contextmanager
def unprotected(stack: Stack) -> Iterator[None]:
    name = stack.deployment.outputs.tokens_table
    stack.client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=False)
    yield
    stack.client("dynamodb").update_table(TableName=name, DeletionProtectionEnabled=True)


@contextmanager
def unrecoverable(stack: Stack) -> Iterator[None]:
    dynamodb, name = stack.client("dynamodb"), stack.deployment.outputs.catalog_table
    for enabled in (False, True):
        dynamodb.update_continuous_backups(
            TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": enabled}
        )
        if not enabled:
            yield


@contextmanager
def untrusting(stack: Stack) -> Iterator[None]:
    iam, name = stack.client("iam"), stack.deployment.outputs.signing_role_arn.rsplit("/", 1)[-1]
    before = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    query = stack.deployment.roles["QueryTable"]
    after = json.loads(json.dumps(before).replace(query, query.replace("QueryTable", "GetShare")))
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(after))
    yield
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(before))


@contextmanager
def denied(stack: Stack) -> Iterator[None]:
    iam, name = stack.client("iam"), stack.deployment.roles["GetQuery"].rsplit("/", 1)[-1]
    deny = {"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    iam.put_role_policy(RoleName=name, PolicyName="No", PolicyDocument=document)
    yield
    iam.delete_role_policy(RoleName=name, PolicyName="No")


@contextmanager
def outside(stack: Stack) -> Iterator[None]:
    region: Any = {"LocationConstraint": "eu-west-1"}
    stack.client("s3").create_bucket(Bucket="doctor-elsewhere", CreateBucketConfiguration=region)
    stack.catalog.tables.create("doctor_share", "s", "elsewhere", "s3://doctor-elsewhere/t")
    yield
    stack.catalog.tables.delete("doctor_share", "s", "elsewhere")
    stack.client("s3").delete_bucket(Bucket="doctor-elsewhere")


@contextmanager
def storage_role(stack: Stack) -> Iterator[None]:
    stack.catalog.storages.create("doctors", role_arn="arn:aws:iam::123456789012:role/partner")
    yield
    stack.catalog.storages.delete("doctors")


@contextmanager
def lost_log(stack: Stack) -> Iterator[None]:
    place = {"Bucket": "deploytest-lake", "Key": "doctor/_delta_log/00000000000000000000.json"}
    kept = stack.client("s3").get_object(**place)["Body"].read()
    stack.client("s3").delete_object(**place)
    yield
    stack.client("s3").put_object(**place, Body=kept)


@contextmanager
def without_role(stack: Stack) -> Iterator[None]:
    gateway, change = stack.client("apigateway"), {"op": "replace", "path": "/cloudwatchRoleArn"}
    before = gateway.get_account()["cloudwatchRoleArn"]
    gateway.update_account(patchOperations=[{**change, "value": ""}])
    yield
    gateway.update_account(patchOperations=[{**change, "value": before}])


@contextmanager
def other_code(stack: Stack) -> Iterator[None]:
    formation = stack.client("cloudformation")
    template = formation.get_template(StackName="deltaic-deploytest", TemplateStage="Processed")["TemplateBody"]
    code = template["Resources"]["ListShares"]["Properties"]["Code"]
    place = {"Bucket": code["S3Bucket"], "Key": code["S3Key"]}
    kept = stack.client("s3").get_object(**place)["Body"].read()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("app.py", "handler = None")
    stack.client("s3").put_object(**place, Body=archive.getvalue())
    yield
    stack.client("s3").put_object(**place, Body=kept)


LAKE, ELSEWHERE = "arn:aws:s3:::deploytest-lake", "arn:aws:s3:::doctor-elsewhere"
WRONG: dict[Callable[[Stack], Any], dict[str, tuple[str, str]]] = {
    deleted_key: {"has the key of page tokens": ("failed", "restore-secret --secret-id deltaic/deploytest/token-key")},
    unprotected: {"protects the table of tokens from deletion": ("warning", "--deletion-protection-enabled")},
    unrecoverable: {"can restore the table of shares": ("failed", "PointInTimeRecoveryEnabled=true")},
    untrusting: {"the signing role trusts signing functions": ("failed", "deploy again")},
    denied: {"signing functions can assume the signing role": ("failed", "SignUrls")},
    outside: {
        "can read bucket doctor-elsewhere": ("failed", f"DataBuckets={LAKE},{ELSEWHERE}, or move doctor_share"),
        "finds bucket doctor-elsewhere in the stack's region": ("failed", "--region eu-west-1"),
        "reads the log of doctor_share.s.elsewhere": ("failed", "deltaic table delete doctor_share.s.elsewhere"),
    },
    storage_role: {"can assume the role of storage doctors": ("failed", "StorageRoles=arn:aws:iam::123456789012:")},
    lost_log: {
        f"reads the log of {TABLE}": ("failed", f"deltaic table update {TABLE} --location"),
        f"returns the version of {TABLE}": ("failed", "check its location"),
    },
    without_role: {"the gateway can write its access log": ("failed", "AmazonAPIGatewayPushToCloudWatchLogs")},
    other_code: {"runs the code of this checkout": ("warning", "sam build")},
}
"""What can be wrong, and which finding it makes: its verdict, and what its remedy says. All at once are looked for."""


def test_everything_that_is_wrong_is_found_with_its_remedy(stack: Stack) -> None:
    with ExitStack() as defects:
        for wrong in WRONG:
            defects.enter_context(wrong(stack))
        answer = stack.deltaic(f"doctor --table {TABLE} --json")
    found = stack.read(answer)  # now that everything is mended
    for expected in WRONG.values():
        for check, (verdict, remedy) in expected.items():
            assert (found[check]["verdict"], remedy in found[check]["remedy"]) == (verdict, True), found[check]
    # A query without the key, and of a table without a log, fails too; all else is as it was.
    others = {check for check, one in found.items() if one["verdict"] == "failed"}
    assert others - {check for expected in WRONG.values() for check in expected} == {f"answers queries of {TABLE}"}


@contextmanager
def answering(body: str, status: int = 200, date: str = "") -> Iterator[str]:
    """Run a server in the place of one of AWS's, which answers everything alike; `date` is its clock."""

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

    with served(Handler) as where:
        yield where


def test_a_clock_that_is_off_is_the_first_finding_and_a_small_quota_a_warning(stack: Stack) -> None:
    with (
        answering("", date="Sun, 22 Nov 2020 12:00:00 GMT") as late,
        answering(json.dumps({"AccountLimit": {"ConcurrentExecutions": 10}})) as small,
    ):
        found = stack.found(AWS_ENDPOINT_URL_STS=late, AWS_ENDPOINT_URL_LAMBDA=small)
    first = next(iter(found.values()))
    assert (first["check"], first["verdict"]) == ("the clock of this machine matches AWS", "failed")
    assert "AWS has 2020-11-22 12:00:00 UTC" in first["remedy"]
    quota = found["enough functions can run at once"]
    assert (quota["verdict"], quota["said"]) == ("warning", "10 in the account, 0 reserved by this stack")
    assert "L-B99A9384" in quota["remedy"]


RIGHTS = [("Allow", "*"), ("Deny", "iam:GetRole")]


def test_what_the_caller_may_not_ask_is_told(stack: Stack) -> None:
    iam = stack.client("iam")
    iam.create_user(UserName="doctor")
    statements = [{"Effect": effect, "Action": action, "Resource": "*"} for effect, action in RIGHTS]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="doctor", PolicyName="P", PolicyDocument=document)
    key = iam.create_access_key(UserName="doctor")["AccessKey"]
    found = stack.found(AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"])
    said = {check: one["said"] for check, one in found.items() if one["verdict"] == "not asked"}
    refused = "GetRole was refused (AccessDenied)"
    assert (
        said["the signing role trusts signing functions"]
        == said["signing functions can assume the signing role"]
        == refused
    )


def test_a_stack_and_an_endpoint_that_are_not_there_are_findings(stack: Stack) -> None:
    refused = stack.deltaic(f"--stack nowhere doctor --table {TABLE} --json")
    assert refused.exit_code == 1
    assert "there is no stack 'nowhere'" in refused.stderr
    found = stack.found(DELTAIC_ENDPOINT="http://127.0.0.1:9")
    assert found[f"reads {TABLE}"]["said"] == "ConnectError at http://127.0.0.1:9"
