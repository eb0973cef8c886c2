"""The same suite on three emulators of AWS: the deployed template serves rows, and refuses what it should."""

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
from deltalake import write_deltalake
from deploy.places import Place, run_emulators
from deploy.test_roles import ALLOWED, PROBE, REFUSED

pytestmark = [
    pytest.mark.deploy,
    # The client opens a temporary event loop for its reads and leaves it to the collector.
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
    """A table of two versions, and what its recipient has."""

    place: Place
    profile: Path
    bearer: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Ask as the recipient."""
        known = {"Authorization": f"Bearer {self.bearer}", **headers}
        return httpx.request(method, f"{self.place.endpoint}{path}", headers=known, json=body, timeout=120)

    def files(self) -> list[str]:
        """Return the signed URLs of the whole table."""
        answer = self.ask("POST", f"{PATH}/query", {})
        return [line["file"]["url"] for line in map(json.loads, answer.text.splitlines()) if "file" in line]


@pytest.fixture(scope="module")
def shared(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    location = f"s3://{place.lake}/smoke/doses"
    options = {**place.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    write_deltalake(location, ROWS.slice(0, 6), partition_by=["day"], storage_options=options)
    write_deltalake(location, ROWS.slice(6), mode="append", storage_options=options)
    catalog = place.catalog
    catalog.shares.create(SHARE)
    catalog.schemas.create(SHARE, SCHEMA)
    catalog.tables.create(SHARE, SCHEMA, TABLE, location, history=True, access_modes=("url", "dir"))
    reader = catalog.recipients.create("smoke")
    catalog.grants.create("smoke", SHARE)
    bearer = catalog.tokens.create(reader).secret
    profile = tmp_path_factory.mktemp("profile") / "smoke.share"
    known = {"shareCredentialsVersion": 1, "endpoint": place.endpoint, "bearerToken": bearer}
    profile.write_text(json.dumps(known), encoding="utf-8")
    return Shared(place, profile, bearer)


def test_the_published_client_lists_and_reads_every_row(shared: Shared) -> None:
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
def test_a_query_is_answered_in_the_format_that_was_asked_for(shared: Shared, name: str) -> None:
    answer = shared.ask("POST", f"{PATH}/query", {}, **{"delta-sharing-capabilities": FORMATS[name]})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines[:2]] == ["protocol", "metaData"]
    assert ["deltaSingleAction" in line["file"] for line in lines[2:]] == [name == "delta"] * len(ROWS)
    assert answer.headers["delta-table-version"] == "1"
    # A streamed answer's length is not known when it begins.
    assert ("content-length" not in answer.headers) is shared.place.streams
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
def test_who_has_no_live_token_gets_401(shared: Shared, header: str | None) -> None:
    headers = {"Authorization": header} if header else {}
    answer = httpx.get(f"{shared.place.endpoint}/shares", headers=headers, timeout=120)
    assert answer.status_code == 401
    body = answer.json()
    if shared.place.own_errors:
        assert (body["errorCode"], answer.headers["www-authenticate"]) == ("UNAUTHENTICATED", "Bearer")
    else:
        assert "errorCode" not in body


def test_what_is_not_there_is_404(shared: Shared) -> None:
    answer = shared.ask("GET", "/shares/nothing")
    expected = {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "share 'nothing' not found"}
    assert (answer.status_code, answer.json()) == (404, expected)
    route = shared.ask("GET", "/nowhere")
    if shared.place.own_errors:
        assert (route.status_code, route.json()["errorCode"]) == (404, "RESOURCE_DOES_NOT_EXIST")
    else:
        assert "errorCode" not in route.json()


def test_a_url_gives_its_file_and_nothing_without_its_signature(shared: Shared) -> None:
    url, other, *_ = shared.files()
    bare, query = url.split("?")
    tried = {
        "as it is": url,
        "stripped": bare,
        "altered": f"{url[:-4]}0000",
        "for another file": f"{other.split('?')[0]}?{query}",
    }
    assert {how: httpx.get(each, timeout=60).status_code for how, each in tried.items()} == {
        "as it is": 200,
        "stripped": 403 if shared.place.private else 200,
        "altered": 403,
        "for another file": 403,
    }


def test_a_url_that_has_expired_is_403(shared: Shared) -> None:
    vended = shared.ask("POST", f"{PATH}/temporary-table-credentials", {}).json()["credentials"]
    keys = vended["awsTempCredentials"]
    signer = boto3.client(
        "s3",
        endpoint_url=shared.place.environment["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id=keys["accessKeyId"],
        aws_secret_access_key=keys["secretAccessKey"],
        aws_session_token=keys["sessionToken"],
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    bucket, _, folder = vended["location"].removeprefix("s3://").partition("/")
    log = {"Bucket": bucket, "Key": f"{folder}/_delta_log/{0:020d}.json"}
    live, brief = (signer.generate_presigned_url("get_object", log, ExpiresIn=seconds) for seconds in (300, 1))
    time.sleep(2)  # the shortest life that a URL can have, and a moment
    assert [httpx.get(url, timeout=60).status_code for url in (live, brief)] == [200, 403]


def calls(place: Place) -> Iterator[tuple[str, str, tuple[str, str, dict[str, Any]], set[str]]]:
    """Yield role, meaning, call of AWS, and what has to be enforced for it to be refused (nothing: it is allowed)."""
    outputs = place.deployment.outputs
    token, tokens = {"pk": {"S": "token/ab"}, "sk": {"S": "token"}}, outputs.tokens_table
    other = {"pk": {"S": "other/ab"}, "sk": {"S": "token"}}
    catalog = outputs.catalog_table

    def query(key: str) -> dict[str, Any]:
        said = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": key}}}
        return {"TableName": catalog, **said}

    def batch(key: str) -> dict[str, Any]:
        return {"RequestItems": {catalog: {"Keys": [{"pk": {"S": key}, "sk": {"S": "a"}}]}}}

    secret = {"SecretId": outputs.token_key_secret}
    yield "Authorizer", "read a token", ("dynamodb", "get_item", {"TableName": tokens, "Key": token}), set()
    yield "Authorizer", "read what is no token", ("dynamodb", "get_item", {"TableName": tokens, "Key": other}), {"keys"}
    yield "Authorizer", "read all tokens", ("dynamodb", "scan", {"TableName": tokens}), {"roles"}
    yield "Authorizer", "write a token", ("dynamodb", "put_item", {"TableName": tokens, "Item": token}), {"roles"}
    yield "Authorizer", "read the catalog", ("dynamodb", "query", query("shares")), {"roles"}
    yield "Authorizer", "read the token key", ("secretsmanager", "get_secret_value", secret), {"roles"}
    yield "ListShares", "list grants", ("dynamodb", "query", query("recipient/a")), set()
    yield "ListShares", "list storages", ("dynamodb", "query", query("storages")), {"keys"}
    yield "ListShares", "read shares", ("dynamodb", "batch_get_item", batch("shares")), set()
    yield "ListShares", "read storages", ("dynamodb", "batch_get_item", batch("storages")), {"keys"}
    yield "ListShares", "read the token key", ("secretsmanager", "get_secret_value", secret), set()
    yield "ListShares", "list the lake", ("s3", "list_objects_v2", {"Bucket": place.lake}), {"roles"}


@pytest.mark.parametrize("function", ["Authorizer", "ListShares"])
def test_a_function_cannot_do_what_its_role_does_not_allow(place: Place, function: str) -> None:
    tried = {meaning: (call, needs) for role, meaning, call, needs in calls(place) if role == function}
    answers = probed(place, function, {meaning: call for meaning, (call, _) in tried.items()})
    refused = {meaning for meaning, answer in answers.items() if answer != ALLOWED}
    assert {answers[meaning] for meaning in refused} <= REFUSED
    assert refused == {meaning for meaning, (_, needs) in tried.items() if any(getattr(place, need) for need in needs)}


def probed(place: Place, function: str, asked: dict[str, Any]) -> dict[str, str]:
    """Make calls of AWS inside a real function that has the role and the layer of a deployed one."""
    functions = place.client("lambda")
    name, archive = f"smoke-{function}", io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("probe.py", PROBE)
    parts = place.client("cloudformation").describe_stack_resources(StackName=STACKS[place.name])["StackResources"]
    [layer] = [part for part in parts if part["LogicalResourceId"].startswith("DeltaicLayer")]
    functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="probe.handler",
        Role=place.deployment.roles[function],
        Code={"ZipFile": archive.getvalue()},
        Layers=[layer["PhysicalResourceId"]],
        Timeout=60,
    )
    functions.get_waiter("function_active_v2").wait(FunctionName=name)
    answer = functions.invoke(FunctionName=name, Payload=json.dumps(asked))
    told: dict[str, str] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, told
    return told


STACKS = {"ministack": "deltaic-deploytest", "localemu": "deltaic", "localstack-core": "deltaic"}


def test_a_recipients_round_finds_nothing_wrong(shared: Shared) -> None:
    with httpx.Client(timeout=120) as client:
        findings = list(verify(SharingClient(client, shared.place.endpoint, shared.bearer), [SHARE], []))
    bare = f"refuses that URL without its signature ({SHARE}.{SCHEMA}.{TABLE})"
    wrong = [finding.check for finding in findings if not finding.holds]
    assert wrong == ([] if shared.place.private else [bare])
    # The client is not asked for a table of which something is wrong already.
    read = f"returns rows of {SHARE}.{SCHEMA}.{TABLE} to the published client"
    assert (read in {finding.check for finding in findings}) is shared.place.private


@pytest.mark.parametrize("place", ["localemu"], indirect=True)
def test_the_commands_know_the_stack_that_they_made(place: Place) -> None:
    state = place.state
    assert state is not None
    known = json.loads(run(state, "localstack", "status", "--json"))
    run_emulators("up", "--port", "0", state=state)  # it is up, so nothing happens
    assert json.loads(run(state, "localstack", "status", "--json")) == known
    assert (known["engine"], known["sharingEndpoint"]) == ("localemu", place.endpoint)
    found = json.loads(run(state, "verify", "--json"))
    assert all(finding["holds"] for finding in found)
    read = {finding["check"]: finding["said"] for finding in found}
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
