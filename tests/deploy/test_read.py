"""Test that the published client reads through the deployed endpoint, with a role for each function."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import DeltaTable, write_deltalake
from deploy.deployments import Deployment

pytestmark = [
    pytest.mark.deploy,
    # The client creates a temporary event loop for reads and leaves it to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHARE, SCHEMA, TABLE = "vaccine_share", "acme_vaccine_data", "vaccine_patients"
DAYS = ["2021-01-01", "a b", "50%", "x+y=z", "it's", "\u00fc\u4e2d"]
ROWS = pa.table({"day": DAYS * 2, "dose": pa.array(range(12), pa.int64())})


@dataclass(frozen=True, slots=True)
class Shared:
    """The recipient's profile file, and the secrets of a revoked token and of another recipient's token."""

    profile: Path
    recipient_id: str
    revoked: str
    stranger: str


@pytest.fixture(scope="module")
def location(lake: str, embedded_aws: EmbeddedAws) -> str:
    """Return the location of a partitioned table with two versions."""
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    location = f"s3://{lake}/shared/patients"
    write_deltalake(location, ROWS.slice(0, 6), partition_by=["day"], storage_options=options)
    write_deltalake(location, ROWS.slice(6), mode="append", storage_options=options)
    return location


@pytest.fixture(scope="module")
def shared(
    admin: CatalogAdmin,
    endpoint: str,
    location: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Shared:
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, SCHEMA)
    admin.tables.create(SHARE, SCHEMA, TABLE, location, history=True, access_modes=("url", "dir"))
    alice, eve = admin.recipients.create("alice"), admin.recipients.create("eve")
    admin.grants.create("alice", SHARE)
    tokens = admin.tokens
    profile = tmp_path_factory.mktemp("profile") / "alice.share"
    live, revoked = tokens.create(alice), tokens.create(alice)
    tokens.revoke(alice, revoked.token.id)
    profile.write_text(
        json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": live.secret}),
        encoding="utf-8",
    )
    return Shared(profile, alice.id, revoked.secret, tokens.create(eve).secret)


def test_client_lists_granted_entries(shared: Shared) -> None:
    client = delta_sharing.SharingClient(str(shared.profile))
    [share] = client.list_shares()
    [schema] = client.list_schemas(share)
    [table] = client.list_tables(schema)
    assert (share.name, schema.name, table.name) == (SHARE, SCHEMA, TABLE)
    assert client.list_all_tables() == [table]


def test_client_reads_every_row(shared: Shared) -> None:
    url = f"{shared.profile}#{SHARE}.{SCHEMA}.{TABLE}"
    assert delta_sharing.get_table_version(url) == 1
    assert delta_sharing.get_table_metadata(url).partition_columns == ["day"]
    rows = delta_sharing.load_as_pandas(url)
    assert sorted(zip(rows["day"], rows["dose"], strict=True)) == sorted(
        zip(ROWS["day"].to_pylist(), ROWS["dose"].to_pylist(), strict=True)
    )
    assert len(delta_sharing.load_as_pandas(url, limit=3)) == 3


def post(
    shared: Shared, endpoint: str, call: str, body: dict[str, Any] | None = None, **headers: str
) -> httpx.Response:
    bearer = json.loads(shared.profile.read_text(encoding="utf-8"))["bearerToken"]
    return httpx.post(
        f"{endpoint}/shares/{SHARE}/schemas/{SCHEMA}/tables/{TABLE}/{call}",
        headers={"Authorization": f"Bearer {bearer}", **headers},
        json=body or {},
        timeout=60,
    )


def test_query_is_submitted_to_one_function_and_answered_by_another(shared: Shared, endpoint: str) -> None:
    accepts = {"delta-sharing-capabilities": "responseformat=parquet;asyncquery=true"}
    pending, again = (post(shared, endpoint, "query", {"idempotencyKey": "k"}, **accepts) for _ in range(2))
    assert pending.status_code == 200, pending.text
    assert (pending.text, pending.headers["delta-table-version"]) == (again.text, "1")
    query_id = pending.json()["queryStatus"]["queryId"]
    answer = post(shared, endpoint, f"queries/{query_id}", {"maxFiles": 5})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines] == ["protocol", "metaData", *["file"] * 5, "endStreamAction"]
    assert {httpx.get(line["file"]["url"]).status_code for line in lines[2:-1]} == {200}


def test_deny_on_the_recipients_tag_blocks_existing_urls_and_credentials(
    shared: Shared, deployment: Deployment, embedded_aws: EmbeddedAws, endpoint: str, client: Callable[[Any], Any]
) -> None:
    vended = post(shared, endpoint, "temporary-table-credentials").json()["credentials"]
    options = {
        "AWS_ACCESS_KEY_ID": vended["awsTempCredentials"]["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": vended["awsTempCredentials"]["secretAccessKey"],
        "AWS_SESSION_TOKEN": vended["awsTempCredentials"]["sessionToken"],
        "AWS_REGION": embedded_aws.environment["AWS_REGION"],
        "AWS_ENDPOINT_URL": embedded_aws.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }

    def doses() -> list[int]:
        read = DeltaTable(vended["location"], storage_options=options).to_pyarrow_table()
        return sorted(read["dose"].to_pylist())

    assert doses() == ROWS["dose"].to_pylist()
    answer = post(shared, endpoint, "query")
    urls = [line["file"]["url"] for line in map(json.loads, answer.text.splitlines()) if "file" in line]
    assert [httpx.get(url).status_code for url in urls] == [200] * len(ROWS)
    role = deployment.outputs.signing_role_arn.rsplit("/", 1)[-1]
    deny = {
        "Effect": "Deny",
        "Action": "*",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:PrincipalTag/recipient": shared.recipient_id}},
    }
    iam = client("iam")
    document = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    iam.put_role_policy(RoleName=role, PolicyName="CutOff", PolicyDocument=document)
    try:
        assert {httpx.get(url).status_code for url in urls} == {403}
        with pytest.raises(OSError, match="403 Forbidden"):
            doses()
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="CutOff")
    assert {httpx.get(url).status_code for url in urls} == {200}
    assert doses() == ROWS["dose"].to_pylist()


def test_share_without_grant_looks_like_a_missing_share(shared: Shared, endpoint: str) -> None:
    answers = [
        httpx.get(f"{endpoint}/shares/{name}", headers={"Authorization": f"Bearer {shared.stranger}"}, timeout=60)
        for name in (SHARE, "nothing")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert [answer.json() for answer in answers] == [
        {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": f"share '{name}' not found"} for name in (SHARE, "nothing")
    ]


def test_revoked_token_is_refused(shared: Shared, endpoint: str) -> None:
    answer = httpx.get(f"{endpoint}/shares", headers={"Authorization": f"Bearer {shared.revoked}"}, timeout=60)
    assert answer.status_code == 401
