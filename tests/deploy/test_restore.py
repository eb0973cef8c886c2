"""A backup that is restored into the emptied stack makes every profile work again, through the deployed gateway."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from cli.conftest import Deltaic
from deltaic_ops.deploy.sam import Deployment
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake

pytestmark = pytest.mark.deploy

LIVE = {"ann": "ann", "ann-second": "ann", "ben": "ben"}
"""Profiles that work, by whose they are."""

SHARES = {"ann": "restored_a", "ben": "restored_b"}


@pytest.fixture
def deltaic(deployment: Deployment, embedded_aws: EmbeddedAws, endpoint: str, lake: str, tmp_path: Path) -> Deltaic:
    """Return the command over the stack, with two recipients who hold a share each, and a revoked token."""
    assert deployment.api_id
    known = {**embedded_aws.environment, "DELTAIC_STACK": "deltaic-deploytest", "DELTAIC_ENDPOINT": endpoint}
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    write_deltalake(f"s3://{lake}/restored", pa.table({"number": [1, 2, 3]}), storage_options=options)
    command = Deltaic(known)
    for recipient, share in SHARES.items():
        command.done(f"share create {share}")
        command.done(f"schema create {share}.s")
        command.done(f"table create {share}.s.t --location s3://{lake}/restored")
        command.done(f"recipient create {recipient}")
        command.done(f"grant create {recipient} {share}")
    command.done(f"token create ben --profile {tmp_path}/gone.share")
    command.done(f"token revoke ben {command.json('token list ben')[0]['id']}")
    for name, recipient in LIVE.items():
        command.done(f"token create {recipient} --profile {tmp_path}/{name}.share")
    return command


def statuses(profile: Path) -> dict[str, list[int]]:
    """Return what a profile's holder gets of each share: of its tables, of a query, of a file's first byte."""
    told = json.loads(profile.read_text())
    with httpx.Client(timeout=60, headers={"Authorization": f"Bearer {told['bearerToken']}"}) as client:
        found: dict[str, list[int]] = {}
        for share in SHARES.values():
            listed = client.get(f"{told['endpoint']}/shares/{share}/all-tables")
            query = client.post(f"{told['endpoint']}/shares/{share}/schemas/s/tables/t/query", json={})
            found[share] = [listed.status_code, query.status_code]
            if query.status_code == httpx.codes.OK:
                url = json.loads(query.text.splitlines()[-1])["file"]["url"]
                found[share].append(httpx.get(url, headers={"Range": "bytes=0-0"}, timeout=60).status_code)
    return found


def test_every_profile_works_again_and_no_other(
    deltaic: Deltaic, deployment: Deployment, client: Callable[[Any], Any], tmp_path: Path
) -> None:
    deltaic.done(f"backup {tmp_path}/copy.jsonl")
    dynamodb = client("dynamodb")
    for name in (deployment.outputs.catalog_table, deployment.outputs.tokens_table):
        for item in dynamodb.scan(TableName=name)["Items"]:
            dynamodb.delete_item(TableName=name, Key={key: item[key] for key in ("pk", "sk")})
    assert deltaic.json("share list") == deltaic.json("recipient list") == []
    assert statuses(tmp_path / "ben.share") == {"restored_a": [401, 401], "restored_b": [401, 401]}

    deltaic.done(f"restore {tmp_path}/copy.jsonl")
    reads, hidden = [200, 200, 206], [404, 404]
    for name, recipient in LIVE.items():
        expected = {share: reads if share == SHARES[recipient] else hidden for share in SHARES.values()}
        assert statuses(tmp_path / f"{name}.share") == expected, name
    assert statuses(tmp_path / "gone.share") == {"restored_a": [401, 401], "restored_b": [401, 401]}
