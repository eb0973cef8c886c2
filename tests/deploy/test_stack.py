"""The deployed stack says where it is, and its endpoint lets in who holds a token and nobody else."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from deltaic.errors import NotFound
from deltaic_ops.deploy.outputs import stack_outputs
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy


def test_the_outputs_are_what_the_operator_needs(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    outputs = deployment.outputs
    assert re.fullmatch(r"https://\w+\.execute-api\.us-east-1\.amazonaws\.com/delta-sharing", outputs.endpoint)
    assert (outputs.catalog_table, outputs.tokens_table) == ("deltaic-deploytest-catalog", "deltaic-deploytest-tokens")
    assert ":role/" in outputs.signing_role_arn
    key = client("secretsmanager").get_secret_value(SecretId=outputs.token_key_secret)["SecretString"]
    assert len(key) == 64


def test_the_tables_of_a_test_can_be_deleted(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    tables = [deployment.outputs.catalog_table, deployment.outputs.tokens_table]
    found = [client("dynamodb").describe_table(TableName=name)["Table"] for name in tables]
    assert [said["DeletionProtectionEnabled"] for said in found] == [False, False]


def test_the_deployed_stage_is_throttled(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    stage = client("apigateway").get_stage(restApiId=deployment.api_id, stageName="delta-sharing")
    settings = stage["methodSettings"]["*/*"]
    assert (settings["throttlingRateLimit"], settings["throttlingBurstLimit"]) == (100, 200)


def test_a_stack_that_does_not_exist_is_named(client: Callable[[Any], Any]) -> None:
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
def test_without_a_live_token_the_endpoint_answers_401(endpoint: str, header: str | None) -> None:
    answer = httpx.get(f"{endpoint}/shares", headers={"Authorization": header} if header else {}, timeout=60)
    assert answer.status_code == 401
