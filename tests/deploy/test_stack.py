"""Test the outputs of the deployed stack, and that its endpoint accepts only requests with a live token."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from deltaic.errors import NotFound
from deltaic_ops.deploy.outputs import stack_outputs
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy


def test_outputs_are_complete(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    outputs = deployment.outputs
    assert re.fullmatch(r"https://\w+\.execute-api\.us-east-1\.amazonaws\.com/delta-sharing", outputs.endpoint)
    assert (outputs.catalog_table, outputs.tokens_table) == ("deltaic-deploytest-catalog", "deltaic-deploytest-tokens")
    assert ":role/" in outputs.signing_role_arn
    key = client("secretsmanager").get_secret_value(SecretId=outputs.token_key_secret)["SecretString"]
    assert len(key) == 64


def test_tables_of_a_test_stack_can_be_deleted(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    tables = [deployment.outputs.catalog_table, deployment.outputs.tokens_table]
    tables_ = [client("dynamodb").describe_table(TableName=name)["Table"] for name in tables]
    assert [table["DeletionProtectionEnabled"] for table in tables_] == [False, False]


def test_deployed_stage_is_throttled(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    stage = client("apigateway").get_stage(restApiId=deployment.api_id, stageName="delta-sharing")
    settings = stage["methodSettings"]["*/*"]
    assert (settings["throttlingRateLimit"], settings["throttlingBurstLimit"]) == (100, 200)


def test_missing_stack_is_named_in_the_error(client: Callable[[Any], Any]) -> None:
    with pytest.raises(NotFound, match="there is no stack 'nowhere'"):
        stack_outputs(client("cloudformation"), "nowhere")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="none"),
        pytest.param("Basic YTpi", id="another scheme"),
        pytest.param("Bearer dlt_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", id="unknown token"),
    ],
)
def test_request_without_live_token_returns_401(endpoint: str, header: str | None) -> None:
    answer = httpx.get(f"{endpoint}/shares", headers={"Authorization": header} if header else {}, timeout=60)
    assert answer.status_code == 401
