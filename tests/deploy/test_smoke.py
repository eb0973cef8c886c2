"""Test the deployed template on three emulators of AWS: it serves rows and refuses other requests."""

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import delta_sharing
import httpx
import pyarrow as pa
import pytest
from botocore.config import Config
from delta_sharing_conformance.client import SharingClient
from deltaic_ops.checks.endpoint_checks import verify
from deltaic_ops.checks.prove import prove_rows
from deltalake import write_deltalake
from deploy.places import EmulatedDeployment, run_emulators
from deploy.test_roles import ALLOWED, PROBE, REFUSED

pytestmark = [
    pytest.mark.deploy,
    # The client creates a temporary event loop for reads and leaves it to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHARE, SCHEMA, TABLE = "smoke_share", "acme", "doses"
PATH = f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{TABLE}"
DAYS = ["2026-11-22", "a b", "50%", "x+y=z", "it's", "\u00fc\u4e2d"]
ROWS = pa.table({"day": DAYS * 2, "dose": pa.array(range(12), pa.int64())})
FORMATS = {
    "parquet": "responseformat=parquet",
    "delta": "responseformat=delta;readerfeatures=deletionvectors",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared table of two versions, with the profile and token of its recipient."""

    emulated: EmulatedDeployment
    profile: Path
    bearer: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request as the recipient."""
        all_headers = {"Authorization": f"Bearer {self.bearer}", **headers}
        return httpx.request(method, f"{self.emulated.endpoint}{path}", headers=all_headers, json=body, timeout=120)

    def files(self) -> list[str]:
        """Return the signed URLs of all files."""
        answer = self.ask("POST", f"{PATH}/query", {})
        return [line["file"]["url"] for line in map(json.loads, answer.text.splitlines()) if "file" in line]


@pytest.fixture(scope="module")
def shared(emulated: EmulatedDeployment, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    location = f"s3://{emulated.lake}/smoke/doses"
    options = {**emulated.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    write_deltalake(location, ROWS.slice(0, 6), partition_by=["day"], storage_options=options)
    write_deltalake(location, ROWS.slice(6), mode="append", storage_options=options)
    catalog = emulated.catalog
    catalog.shares.create(SHARE)
    catalog.schemas.create(SHARE, SCHEMA)
    catalog.tables.create(SHARE, SCHEMA, TABLE, location, history=True, access_modes=("url", "dir"))
    reader = catalog.recipients.create("smoke")
    catalog.grants.create("smoke", SHARE)
    bearer = catalog.tokens.create(reader).secret
    profile = tmp_path_factory.mktemp("profile") / "smoke.share"
    fields = {"shareCredentialsVersion": 1, "endpoint": emulated.endpoint, "bearerToken": bearer}
    profile.write_text(json.dumps(fields), encoding="utf-8")
    return Shared(emulated, profile, bearer)


def test_client_lists_and_reads_every_row(shared: Shared) -> None:
    url = f"{shared.profile}#{SHARE}.{SCHEMA}.{TABLE}"
    [table] = delta_sharing.SharingClient(str(shared.profile)).list_all_tables()
    assert (table.share, table.schema, table.name) == (SHARE, SCHEMA, TABLE)
    assert delta_sharing.get_table_version(url) == 1
    assert delta_sharing.get_table_metadata(url).partition_columns == ["day"]
    rows = delta_sharing.load_as_pandas(url)
    assert sorted(zip(rows["day"], rows["dose"], strict=True)) == sorted(
        zip(ROWS["day"].to_pylist(), ROWS["dose"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("name", FORMATS)
def test_query_returns_the_requested_format(shared: Shared, name: str) -> None:
    answer = shared.ask("POST", f"{PATH}/query", {}, **{"delta-sharing-capabilities": FORMATS[name]})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines[:2]] == ["protocol", "metaData"]
    assert ["deltaSingleAction" in line["file"] for line in lines[2:]] == [name == "delta"] * len(ROWS)
    assert answer.headers["delta-table-version"] == "1"
    # A streamed response has no Content-Length.
    assert ("content-length" not in answer.headers) is shared.emulated.streams
    metadata = shared.ask("GET", f"{PATH}/metadata", **{"delta-sharing-capabilities": FORMATS[name]})
    assert [next(iter(json.loads(line))) for line in metadata.text.splitlines()] == ["protocol", "metaData"]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="none"),
        pytest.param("Basic YTpi", id="another scheme"),
        pytest.param("Bearer dlt_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", id="unknown token"),
    ],
)
def test_request_without_live_token_returns_401(shared: Shared, header: str | None) -> None:
    headers = {"Authorization": header} if header else {}
    answer = httpx.get(f"{shared.emulated.endpoint}/shares", headers=headers, timeout=120)
    assert answer.status_code == 401
    body = answer.json()
    if shared.emulated.own_errors:
        assert (body["errorCode"], answer.headers["www-authenticate"]) == ("UNAUTHENTICATED", "Bearer")
    else:
        assert "errorCode" not in body


def test_missing_entry_returns_404(shared: Shared) -> None:
    answer = shared.ask("GET", "/shares/nothing")
    expected = {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "share 'nothing' not found"}
    assert (answer.status_code, answer.json()) == (404, expected)
    route = shared.ask("GET", "/nowhere")
    if shared.emulated.own_errors:
        assert (route.status_code, route.json()["errorCode"]) == (404, "RESOURCE_DOES_NOT_EXIST")
    else:
        assert "errorCode" not in route.json()


def test_url_returns_its_file_only_with_its_signature(shared: Shared) -> None:
    url, other_url, *_ = shared.files()
    bare, query = url.split("?")
    tried = {
        "as it is": url,
        "stripped": bare,
        "altered": f"{url[:-4]}0000",
        "for another file": f"{other_url.split('?')[0]}?{query}",
    }
    assert {how: httpx.get(each, timeout=60).status_code for how, each in tried.items()} == {
        "as it is": 200,
        "stripped": 403 if shared.emulated.private else 200,
        "altered": 403,
        "for another file": 403,
    }


def test_expired_url_returns_403(shared: Shared) -> None:
    vended = shared.ask("POST", f"{PATH}/temporary-table-credentials", {}).json()["credentials"]
    keys = vended["awsTempCredentials"]
    signer = boto3.client(
        "s3",
        endpoint_url=shared.emulated.environment["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id=keys["accessKeyId"],
        aws_secret_access_key=keys["secretAccessKey"],
        aws_session_token=keys["sessionToken"],
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    bucket, _, folder = vended["location"].removeprefix("s3://").partition("/")
    log = {"Bucket": bucket, "Key": f"{folder}/_delta_log/{0:020d}.json"}
    live, brief = (signer.generate_presigned_url("get_object", log, ExpiresIn=seconds) for seconds in (300, 1))
    time.sleep(2)  # the shortest lifetime of a URL, and a second more
    assert [httpx.get(url, timeout=60).status_code for url in (live, brief)] == [200, 403]


def calls(emulated: EmulatedDeployment) -> Iterator[tuple[str, str, tuple[str, str, dict[str, Any]], set[str]]]:
    """Yield function, meaning, call of AWS, and the checks that refuse the call; no check if it is allowed."""
    outputs = emulated.deployment.outputs
    token, tokens = {"pk": {"S": "token/ab"}, "sk": {"S": "token"}}, outputs.tokens_table
    other_key = {"pk": {"S": "other/ab"}, "sk": {"S": "token"}}
    catalog = outputs.catalog_table

    def query(key: str) -> dict[str, Any]:
        request = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": key}}}
        return {"TableName": catalog, **request}

    def batch(key: str) -> dict[str, Any]:
        return {"RequestItems": {catalog: {"Keys": [{"pk": {"S": key}, "sk": {"S": "a"}}]}}}

    secret = {"SecretId": outputs.token_key_secret}
    yield "Authorizer", "read a token", ("dynamodb", "get_item", {"TableName": tokens, "Key": token}), set()
    yield (
        "Authorizer",
        "read what is no token",
        ("dynamodb", "get_item", {"TableName": tokens, "Key": other_key}),
        {"keys"},
    )
    yield "Authorizer", "read all tokens", ("dynamodb", "scan", {"TableName": tokens}), {"roles"}
    yield "Authorizer", "write a token", ("dynamodb", "put_item", {"TableName": tokens, "Item": token}), {"roles"}
    yield "Authorizer", "read the catalog", ("dynamodb", "query", query("shares")), {"roles"}
    yield "Authorizer", "read the token key", ("secretsmanager", "get_secret_value", secret), {"roles"}
    yield "ListShares", "list grants", ("dynamodb", "query", query("recipient/a")), set()
    yield "ListShares", "list storages", ("dynamodb", "query", query("storages")), {"keys"}
    yield "ListShares", "read shares", ("dynamodb", "batch_get_item", batch("shares")), set()
    yield "ListShares", "read storages", ("dynamodb", "batch_get_item", batch("storages")), {"keys"}
    yield "ListShares", "read the token key", ("secretsmanager", "get_secret_value", secret), set()
    yield "ListShares", "list the lake", ("s3", "list_objects_v2", {"Bucket": emulated.lake}), {"roles"}


@pytest.mark.parametrize("function", ["Authorizer", "ListShares"])
def test_function_can_do_only_what_its_role_allows(emulated: EmulatedDeployment, function: str) -> None:
    tried = {meaning: (call, needs) for role, meaning, call, needs in calls(emulated) if role == function}
    answers = run_probe(emulated, function, {meaning: call for meaning, (call, _) in tried.items()})
    refused = {meaning for meaning, answer in answers.items() if answer != ALLOWED}
    assert {answers[meaning] for meaning in refused} <= REFUSED
    assert refused == {
        meaning for meaning, (_, needs) in tried.items() if any(getattr(emulated, need) for need in needs)
    }


def run_probe(emulated: EmulatedDeployment, function: str, requests: dict[str, Any]) -> dict[str, str]:
    """Call AWS inside a real function with the role and layer of a deployed one."""
    functions = emulated.client("lambda")
    name, archive = f"smoke-{function}", io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("probe.py", PROBE)
    parts = emulated.client("cloudformation").describe_stack_resources(StackName=STACKS[emulated.name])[
        "StackResources"
    ]
    [layer] = [part for part in parts if part["LogicalResourceId"].startswith("DeltaicLayer")]
    functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="probe.handler",
        Role=emulated.deployment.roles[function],
        Code={"ZipFile": archive.getvalue()},
        Layers=[layer["PhysicalResourceId"]],
        Timeout=60,
    )
    functions.get_waiter("function_active_v2").wait(FunctionName=name)
    answer = functions.invoke(FunctionName=name, Payload=json.dumps(requests))
    results: dict[str, str] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, results
    return results


STACKS = {"ministack": "deltaic-deploytest", "localemu": "deltaic", "localstack-core": "deltaic"}


def test_conformance_kit_finds_no_mistakes(shared: Shared) -> None:
    with httpx.Client(timeout=120) as client:
        findings = list(verify(SharingClient(client, shared.emulated.endpoint, shared.bearer), [SHARE], []))
    bare = f"rejects that URL without its signature ({SHARE}.{SCHEMA}.{TABLE})"
    wrong = [finding.check for finding in findings if not finding.holds]
    assert wrong == ([] if shared.emulated.private else [bare])
    # The client check is skipped for a table that has failed another check.
    read = f"returns rows of {SHARE}.{SCHEMA}.{TABLE} to the published client"
    assert (read in {finding.check for finding in findings}) is shared.emulated.private


@pytest.mark.parametrize("emulated", ["localemu"], indirect=True)
def test_proof_has_a_result_for_each_row(emulated: EmulatedDeployment, tmp_path: Path) -> None:
    report = tmp_path / "proof"
    assert emulated.state is not None
    run(
        emulated.state, *f"--stack deltaic prove s3://{emulated.lake}/proof --report {report} --files 300 --yes".split()
    )
    rows = json.loads(report.with_suffix(".json").read_text())["rows"]
    assert [row["row"] for row in rows] == [row.name for row in prove_rows.ROWS]
    assert all(row["seen"] for row in rows)
    held = {row["row"] for row in rows if row["verdict"] == "ok"}
    assert {"The signing role", "Streaming", "2 MB/s and 200 MB", "An unsigned `If-Range`"} <= held


@pytest.mark.parametrize("emulated", ["localemu"], indirect=True)
def test_commands_find_the_deployed_stack(emulated: EmulatedDeployment) -> None:
    state = emulated.state
    assert state is not None
    status = json.loads(run(state, "localstack", "status", "--json"))
    run_emulators("up", "--port", "0", state=state)  # already running, so nothing happens
    assert json.loads(run(state, "localstack", "status", "--json")) == status
    assert status == {"up": True, "endpoint": emulated.environment["AWS_ENDPOINT_URL"]}
    findings = json.loads(run(state, "verify", "--as", "localstack_reader", "--json"))
    assert all(finding["holds"] for finding in findings)
    read = {finding["check"]: finding["message"] for finding in findings}
    assert read["returns rows of localstack_share.sample.doses to the published client"] == "6 rows"
    assert "localstack_share" in {share["name"] for share in json.loads(run(state, "share", "list", "--json"))}


def run(state: Path, *command: str) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "deltaic"), "--state", str(state), *command],
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout
