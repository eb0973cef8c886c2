"""Test that each fault of a deployed stack fails its own row of `deltaic prove`, and no other row."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import boto3
import httpx
import msgspec
import pytest
from cli.conftest import Deltaic
from delta_sharing_conformance.client import SharingClient
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.checks.doctor.bucket_checks import check_table_buckets
from deltaic_ops.checks.doctor.examination import examine
from deltaic_ops.checks.endpoint_checks import AGENT, verify
from deltaic_ops.checks.prove.probes import Trial
from deltaic_ops.checks.prove.prove_rows import ROWS, results
from deltaic_ops.checks.prove.trial_catalog import ENCRYPTED, PLAIN, SCHEMA, SHARE, TrialCatalog
from deltaic_ops.cli.operator import GlobalOptions, Operator
from deltaic_ops.cli.stack.doctor import check_context
from deltaic_ops.deploy.deployed_stack import read_stack
from deltaic_ops.inspection.findings import Finding, ok
from deltaic_ops.local.embedded import EmbeddedAws
from deploy.deployments import Deployment
from deploy.test_doctor import (
    ExaminedStack,
    fake_service,
    gateway_without_role,
    role_without_trust,
    table_without_recovery,
    unknown_storage_role,
)
from served import served

pytestmark = pytest.mark.deploy

STACK, LAKE, FILES = "deltaic-deploytest", "deploytest-lake", 300


@dataclass(frozen=True)
class Proof:
    """A trial on the deployed stack, and the findings of its correct state."""

    trial: Trial
    findings: list[Finding]
    stack: ExaminedStack


def examined(trial: Trial) -> list[Finding]:
    """Return the findings of `doctor` and `verify`."""
    checks = verify(trial.client, [SHARE], [], 3, with_client=False)
    return [*examine(trial.target, (SHARE, SCHEMA, PLAIN)), *checks]


@pytest.fixture(scope="module")
def proof(
    embedded_aws: EmbeddedAws,
    deployment: Deployment,
    admin: CatalogAdmin,
    client: Callable[[Any], Any],
    lake: str,
) -> Iterator[Proof]:
    """Return one trial for all faults."""
    role = {"op": "replace", "path": "/cloudwatchRoleArn", "value": "arn:aws:iam::000000000000:role/log"}
    client("apigateway").update_account(patchOperations=[role])
    recovery = {"PointInTimeRecoveryEnabled": True}
    for name in (deployment.outputs.catalog_table, deployment.outputs.tokens_table):
        client("dynamodb").update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in embedded_aws.environment.items():
            environment.setenv(name, value)
        cli = Operator(GlobalOptions(stack=STACK, stack_first=True))
        context, storage = check_context(cli, ""), cli.connection.storage_options
        location = f"s3://{lake}/faults"
        catalog = TrialCatalog(admin, client("s3"), storage, location, f"s3://{lake}/fault-keys", FILES)
        stack = read_stack(client("cloudformation"), STACK)
        with (
            catalog.created() as recipient,
            admin.tokens.for_checks(recipient) as bearer,
            httpx.Client(timeout=60) as http,
        ):
            sharing = SharingClient(http, context.endpoint, bearer, AGENT)
            trial = Trial(context, stack, catalog, recipient, sharing, on_aws=False)
            yield Proof(trial, examined(trial), ExaminedStack(Deltaic({}), admin, client, deployment))


def outcomes(trial: Trial, findings: list[Finding], probed: str) -> dict[str, str]:
    """Return the outcome of each row; rows with probes are taken as passed, except for `probed`."""
    passed = ok("", "")
    known = {row.name: passed for row in ROWS if callable(row.check) and row.name != probed}
    return {row.name: result.verdict for row, result in zip(ROWS, results(trial, findings, known), strict=True)}


Fault = Callable[[Proof], AbstractContextManager[Trial]]


def defect(of_stack: Callable[[ExaminedStack], AbstractContextManager[None]], **changes: Any) -> Fault:
    """Return a fault that breaks the stack as in the tests of `doctor`."""

    @contextmanager
    def fault(proof: Proof) -> Iterator[Trial]:
        with of_stack(proof.stack):
            yield replace(proof.trial, **changes)

    return fault


def changed(change: Callable[[Trial], Trial]) -> Fault:
    """Return a fault that changes what the trial knows of its stack."""
    return lambda proof: nullcontext(change(proof.trial))


NOTHING: Mapping[str, str] = {}


def with_stack(trial: Trial, resources: Mapping[str, str] = NOTHING, /, **parameters: str) -> Trial:
    """Return a trial of a stack that also has these resources and parameters."""
    stack = trial.stack
    stack = replace(
        stack,
        parameters={**stack.parameters, **parameters},
        resources={**stack.resources, **resources},
        outputs={**stack.outputs, "JobsApplicationId": "00application", "Endpoint": "https://localhost:1"},
    )
    return replace(trial, stack=stack)


def with_parameters(*, on_aws: bool = False, **parameters: str) -> Fault:
    return changed(lambda trial: replace(with_stack(trial, NOTHING, **parameters), on_aws=on_aws))


def without_function(logical_id: str) -> Fault:
    return changed(lambda trial: with_stack(trial, {logical_id: "deltaic-missing"}))


def answering(service: str, answer: object, *, on_aws: bool = True, **parameters: str) -> Fault:
    """Return a fault: a service of AWS gives this answer to every request."""

    @contextmanager
    def fault(proof: Proof) -> Iterator[Trial]:
        with fake_service(json.dumps(answer)) as address:
            trial = with_stack(proof.trial, APPLICATION, **parameters)
            yield replace(
                trial, on_aws=on_aws, target=replace(trial.target, client=redirected(trial, service, address))
            )

    return fault


def redirected(trial: Trial, service: str, address: str) -> Callable[[str], Any]:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    fake = boto3.client(service, endpoint_url=address, **keys)  # type: ignore[call-overload]
    return lambda name: fake if name == service else trial.target.client(name)


@contextmanager
def missing_layer(proof: Proof) -> Iterator[Trial]:
    """Let requests reach code of a function that cannot import its packages."""
    functions, archive = proof.stack.client("lambda"), io.BytesIO()
    function = {"FunctionName": proof.trial.stack.resources["ListShares"]}
    version = functions.get_alias(**function, Name="live")["FunctionVersion"]
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("app.py", "import package_of_a_missing_layer")
    functions.update_function_code(**function, ZipFile=archive.getvalue())
    # Not a new version, because the numbers of versions are not used again, and other tests count them.
    functions.update_alias(**function, Name="live", FunctionVersion="$LATEST")
    try:
        yield proof.trial
    finally:
        functions.update_alias(**function, Name="live", FunctionVersion=version)
        bucket, key = proof.trial.stack.packages["ListShares"]
        functions.update_function_code(**function, S3Bucket=bucket, S3Key=key)


@contextmanager
def stale_cache(proof: Proof) -> Iterator[Trial]:
    """Keep answers of the authorizer longer than the row allows."""
    gateway, api = proof.stack.client("apigateway"), {"restApiId": proof.stack.deployment.api_id}
    [authorizer] = gateway.get_authorizers(**api)["items"]
    before = authorizer["authorizerResultTtlInSeconds"]
    assert before >= 1

    def keep(seconds: int) -> None:
        change = {"op": "replace", "path": "/authorizerResultTtlInSeconds", "value": str(seconds)}
        gateway.update_authorizer(**api, authorizerId=authorizer["id"], patchOperations=[change])

    keep(60)
    try:
        yield replace(proof.trial, cache_seconds=1.0)
    finally:
        keep(before)


@contextmanager
def missing_file(proof: Proof) -> Iterator[Trial]:
    s3, bucket = proof.stack.client("s3"), LAKE
    listing = s3.list_objects_v2(Bucket=bucket, Prefix=f"fault-keys/{ENCRYPTED}/site")["Contents"]
    bodies = {item["Key"]: s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read() for item in listing}
    for key in bodies:
        s3.delete_object(Bucket=bucket, Key=key)
    try:
        yield proof.trial
    finally:
        for key, body in bodies.items():
            s3.put_object(Bucket=bucket, Key=key, Body=body)


@contextmanager
def list_permission_missing(proof: Proof) -> Iterator[Trial]:
    with fake_service("<Error><Code>AccessDenied</Code></Error>", status=403) as address:
        storage = {**proof.trial.catalog.storage, "AWS_ENDPOINT_URL": address}
        yield replace(proof.trial, catalog=replace(proof.trial.catalog, storage=storage))


@contextmanager
def unlimited_stage(proof: Proof) -> Iterator[Trial]:
    gateway, stage = proof.stack.client("apigateway"), {"restApiId": proof.stack.deployment.api_id}

    def limit(rate: str, burst: str) -> None:
        changes = [
            {"op": "replace", "path": f"/*/*/throttling/{name}Limit", "value": value}
            for name, value in (("rate", rate), ("burst", burst))
        ]
        gateway.update_stage(**stage, stageName="delta-sharing", patchOperations=changes)

    limit("0", "5")  # three times as many requests as the burst are sent
    try:
        yield replace(proof.trial, on_aws=True)
    finally:
        limit("100", "200")


def missing_files(proof: Proof) -> AbstractContextManager[Trial]:
    trial = with_stack(proof.trial, ResponseStreaming="enabled")
    return nullcontext(replace(trial, catalog=replace(trial.catalog, files=FILES + 9)))


class WholeObject(BaseHTTPRequestHandler):
    """Store that ignores the header Range."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"whole object")


@contextmanager
def ignored_range(proof: Proof) -> Iterator[Trial]:
    with served(WholeObject) as address:
        target = replace(proof.trial.target, client=redirected(proof.trial, "s3", address))
        yield replace(proof.trial, target=target)


def access_log(line: str) -> Fault:
    """Return a fault: the bucket's access log has this line."""

    @contextmanager
    def fault(proof: Proof) -> Iterator[Trial]:
        s3, lake = proof.stack.client("s3"), LAKE
        log = {"Bucket": lake, "Key": "fault-log/2026"}
        settings = {"LoggingEnabled": {"TargetBucket": lake, "TargetPrefix": "fault-log/"}}
        s3.put_bucket_logging(Bucket=lake, BucketLoggingStatus=settings)
        s3.put_object(**log, Body=line.encode())
        try:
            yield proof.trial
        finally:
            s3.put_bucket_logging(Bucket=lake, BucketLoggingStatus={})
            s3.delete_object(**log)

    return fault


class Edge(BaseHTTPRequestHandler):
    """API that streams a list of files, and whose firewall blocks the attack of `prove`; it has no valid tokens."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, code = (403, "FORBIDDEN") if "X-Proof" in self.headers else (401, "UNAUTHENTICATED")
        body = json.dumps({"errorCode": code, "message": ""}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        line = b'{"file":{"id":"' + b"x" * 1_000 + b'"}}\n'
        for chunk in (*[line] * FILES, b""):
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")


def edge(host: str = "127.0.0.1", *, on_aws: bool = False, **parameters: str) -> Fault:
    """Return a correct answer: the endpoint and the stack's own domain are this API."""

    @contextmanager
    def answer(proof: Proof) -> Iterator[Trial]:
        with served(Edge, host) as address:
            trial = with_stack(proof.trial, NOTHING, **parameters)
            stack = replace(trial.stack, outputs={**trial.stack.outputs, "Endpoint": address})
            yield replace(trial, stack=stack, client=replace(trial.client, endpoint=address), on_aws=on_aws)

    return answer


def read_units(count: float) -> Fault:
    """Return a fault: CloudWatch has this number of read units of the stack's tables in ten minutes."""

    @contextmanager
    def fault(proof: Proof) -> Iterator[Trial]:
        table = f"costs-{count:g}"
        metric = {"MetricName": "ConsumedReadCapacityUnits", "Dimensions": [{"Name": "TableName", "Value": table}]}
        if count:
            metrics = [{**metric, "Value": count, "Unit": "Count"}]
            proof.stack.client("cloudwatch").put_metric_data(Namespace="AWS/DynamoDB", MetricData=metrics)
        stack = replace(proof.trial.stack, resources={})
        target = replace(proof.trial.target, catalog_table=table)
        yield replace(proof.trial, stack=stack, target=target)

    return fault


def groups(**settings: object) -> dict[str, object]:
    """Return the answers of CodeDeploy about one group of deployments."""
    return {
        "deploymentGroups": ["group"],
        "deploymentGroupsInfo": [{"alarmConfiguration": {"enabled": True}, **settings}],
    }


ROLLBACK = {"enabled": True, "events": ["DEPLOYMENT_STOP_ON_ALARM"]}
APPLICATION = {"ServerlessDeploymentApplication": "deltaic"}
LINE = (
    "79a5 bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.3 79a5 3E57427F3EXAMPLE REST.GET.OBJECT key "
    '"GET /bucket/key HTTP/1.1" 200 - 113 113 7 6 "-" "S3Console/0.4" - id SigV4 ECDHE AuthHeader host TLSV1.2 -'
)

EXAMINED: dict[str, Fault] = {
    "CloudFormation": changed(lambda trial: replace(trial, target=replace(trial.target, stack="nowhere"))),
    "Access log of the gateway": defect(gateway_without_role),
    "Concurrent executions": answering("lambda", {"AccountLimit": {"ConcurrentExecutions": 10}}, on_aws=False),
    "The layer": missing_layer,
    "The signing role": defect(role_without_trust),
    "Encrypted buckets": missing_file,
    "Backups": defect(table_without_recovery, on_aws=True),
    "All other checks": defect(unknown_storage_role),
}
"""Faults that `doctor` or `verify` find."""

PROBED: dict[str, Fault] = {
    "The authorizer's cache": stale_cache,
    "A missing object in a folder shared by credentials": list_permission_missing,
    "Streaming": with_parameters(ResponseStreaming="enabled"),  # the embedded AWS does not stream
    "Binary media types": with_parameters(on_aws=True),  # the embedded AWS returns base64
    "2 MB/s and 200 MB": missing_files,
    "Throttling": unlimited_stage,
    "IPv6": with_parameters(IpAddressType="dualstack"),
    "The firewall": with_parameters(on_aws=True, WebAcl="enabled"),
    "Your own KMS key": with_parameters(StateKey="arn:aws:kms:us-east-1:000000000000:key/a"),
    "X-Ray": answering("xray", {"TraceSummaries": []}, Tracing="Active"),
    "Your own domain": with_parameters(DomainName="localhost"),
    "Gradual deployment": answering("codedeploy", groups(), GradualDeployment="enabled"),
    "EMR Serverless": answering("emr-serverless", {"application": {"state": "TERMINATED"}}),
    "Schedules": without_function("CheckpointTables"),
    "Follow": without_function("FollowTables"),
    "Notices": without_function("SendNotices"),
    "S3's access log": access_log("not a line of an access log"),
    "Removal": changed(lambda trial: replace(trial, stack=replace(trial.stack, retained={}))),
    "An unsigned `If-Range`": ignored_range,
    "Costs": read_units(1e6),
}
"""Faults that a row's probe finds; other probes are not repeated."""

CORRECT: dict[str, Fault] = {
    "X-Ray": answering("xray", {"TraceSummaries": [{"Id": "1-5759e988"}]}, Tracing="Active"),
    "Gradual deployment": answering(
        "codedeploy", groups(autoRollbackConfiguration=ROLLBACK), GradualDeployment="enabled"
    ),
    "EMR Serverless": answering("emr-serverless", {"application": {"state": "CREATED"}}),
    "S3's access log": access_log(LINE),
    "Costs": read_units(1e3),
    "Streaming": edge(ResponseStreaming="enabled"),
    "2 MB/s and 200 MB": edge(ResponseStreaming="enabled"),
    "IPv6": edge("::1", IpAddressType="dualstack"),
    "The firewall": edge(on_aws=True, WebAcl="enabled"),
    "Your own domain": edge(DomainName="localhost"),
}
"""Correct answers for rows that neither the embedded AWS nor LocalEmu shows."""


def failing(result: dict[str, str]) -> set[str]:
    return {name for name, outcome in result.items() if outcome == "failed"}


def test_every_row_has_a_fault() -> None:
    assert {row.name for row in ROWS} == {*EXAMINED, *PROBED, "S3 Tables"}


@pytest.mark.parametrize("row", EXAMINED)
def test_fault_of_the_stack_fails_exactly_its_row(proof: Proof, row: str) -> None:
    assert failing(outcomes(proof.trial, proof.findings, "")) == set()
    with EXAMINED[row](proof) as trial:
        result = outcomes(trial, examined(trial), "")
    assert failing(result) == {row}


@pytest.mark.parametrize("row", PROBED)
def test_fault_that_a_probe_finds_fails_exactly_its_row(proof: Proof, row: str) -> None:
    with PROBED[row](proof) as trial:
        result = outcomes(trial, proof.findings, row)
    assert failing(result) == {row}


@pytest.mark.parametrize("row", CORRECT)
def test_correct_answer_of_aws_passes_its_row(proof: Proof, row: str) -> None:
    with CORRECT[row](proof) as trial:
        assert outcomes(trial, proof.findings, row)[row] == "ok"


def test_costs_are_not_tried_without_metrics(proof: Proof) -> None:
    with read_units(0)(proof) as trial:
        assert outcomes(trial, proof.findings, "Costs")["Costs"] == "not tried"


@pytest.mark.parametrize(("bucket", "outcome"), [("lake", "ok"), ("another", "failed")])
def test_table_bucket_without_permission_fails_its_row(proof: Proof, bucket: str, outcome: str) -> None:
    arn = "arn:aws:s3tables:us-east-1:000000000000:bucket/{}".format
    plain = proof.trial.catalog.admin.tables.get(SHARE, SCHEMA, PLAIN)
    table = msgspec.structs.replace(plain, metadata_location=f"s3tables://{arn('lake')}/a/b")
    trial = with_stack(proof.trial, TableBuckets=arn(bucket))
    findings = [*proof.findings, *check_table_buckets([table], [arn(bucket)])]
    result = outcomes(trial, findings, "")
    assert (result["S3 Tables"], failing(result)) == (outcome, {"S3 Tables"} if outcome == "failed" else set())
