"""Test that requests reach the published version behind each function's alias; `test_updates` changes the alias."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from deltaic_ops.deploy.sam_template import load_template
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

PARAMETERS = {"Stage": "deploytest", "ClientCredentials": "enabled", "CorsOrigins": "*", "Iceberg": "enabled"}
FUNCTIONS = [function.name for function in load_template(parameters=PARAMETERS).functions.values()]
OF_ANY_METHOD = "deltaic-deploytest-list-iceberg"
"""All its routes have the method ANY, for which the embedded AWS creates no route from the API's body."""

INVOKED_BY_FUNCTIONS = "deltaic-deploytest-make-iceberg-metadata"
AUTHORIZER = "deltaic-deploytest-authorizer"
UNKNOWN = {"Authorization": "Bearer dlt_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"}


@pytest.fixture
def broken_unpublished_version(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[None]:  # noqa: ARG001 -- it must exist
    """Break the authorizer's unpublished version, and check that it is broken."""
    functions = client("lambda")
    functions.update_function_configuration(FunctionName=AUTHORIZER, Handler="nowhere.handler")
    try:
        assert "FunctionError" in functions.invoke(FunctionName=AUTHORIZER, Payload=b"{}")
        yield
    finally:
        functions.update_function_configuration(FunctionName=AUTHORIZER, Handler="app.handler")


@pytest.mark.usefixtures("broken_unpublished_version")
def test_endpoint_invokes_the_published_version(endpoint: str) -> None:
    assert httpx.get(f"{endpoint}/shares", headers=UNKNOWN, timeout=60).status_code == 401


def test_routes_and_authorizer_use_the_alias(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    gateway = client("apigateway")
    resources = gateway.get_resources(restApiId=deployment.api_id, limit=500, embed=["methods"])["items"]
    uris = [
        method["methodIntegration"]["uri"]
        for resource in resources
        for method in resource.get("resourceMethods", {}).values()
    ]
    uris += [entry["authorizerUri"] for entry in gateway.get_authorizers(restApiId=deployment.api_id)["items"]]
    assert {uri.partition("/functions/")[2] for uri in uris} == {
        f"arn:aws:lambda:us-east-1:000000000000:function:{name}:live/invocations"
        for name in FUNCTIONS
        if name not in {OF_ANY_METHOD, INVOKED_BY_FUNCTIONS}
    }


def test_only_the_gateway_can_invoke_the_alias(deployment: Deployment, client: Callable[[Any], Any]) -> None:
    functions = client("lambda")
    for name in FUNCTIONS:
        if name == INVOKED_BY_FUNCTIONS:
            with pytest.raises(functions.exceptions.ResourceNotFoundException):  # only roles allow it
                functions.get_policy(FunctionName=name, Qualifier="live")
            continue
        policy = json.loads(functions.get_policy(FunctionName=name, Qualifier="live")["Policy"])
        for statement in policy["Statement"]:
            assert statement["Principal"] == {"Service": "apigateway.amazonaws.com"}
            assert statement["Resource"].endswith(f":{name}:live")
            assert f":{deployment.api_id}/" in json.dumps(statement["Condition"])
