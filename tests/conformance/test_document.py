"""The contract's document is an OpenAPI document, and says what the code says."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from conformance.conftest import Gateway
from conformance.contract import DOCUMENT, PATH, SCHEMAS
from contract.recipient import Recipient
from deltaic import errors
from deltaic.delta import features
from deltaic.protocol import names
from deltaic.protocol.capabilities import FILE_ID_HASH_HEADER, HEADER, Capabilities, reply
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.request_body import camel_case
from deltaic.protocol.requests import MAX_RESULTS, MetadataRequest
from deltaic_ops.deploy.template import load_template
from openapi_spec_validator import validate

PARAMETERS: dict[str, dict[str, Any]] = DOCUMENT["components"]["parameters"]
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def parameters(method: str, path: str, place: str) -> dict[str, dict[str, Any]]:
    """Return an operation's parameters in the query, the path or the headers, by name."""
    listed = OPERATIONS[method, path]["parameters"]
    found = [PARAMETERS[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in listed]
    return {one["name"]: one for one in found if one["in"] == place}


def test_it_is_an_openapi_document() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_its_routes_are_the_templates() -> None:
    # Pages for people are not among them.
    all_routes = {(route.method, route.path) for route in load_template().routes}
    routes = {(method, path) for method, path in all_routes if not path.startswith(("/activate/", "/explore"))}
    assert OPERATIONS.keys() == routes, "functions/api/get_contract/openapi.json beside the routes of template.yaml"


def test_every_operation_names_the_parameters_of_its_path() -> None:
    for method, path in OPERATIONS:
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert parameters(method, path, "path").keys() == named


def test_its_error_codes_are_those_that_recipients_can_see() -> None:
    tree = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.DeltaicError)]
    seen = {one.code for one in tree if one.status != errors.Conflict.status}
    assert set(SCHEMAS["Error"]["properties"]["errorCode"]["enum"]) == seen
    for operation in OPERATIONS.values():
        for one in tree:
            if one.status < 500 and one.status != errors.Conflict.status:
                assert str(one.status) in operation["responses"]


def test_the_gateways_own_answers_are_in_it() -> None:
    codes = set(SCHEMAS["Error"]["properties"]["errorCode"]["enum"])
    for told in load_template().gateway_responses.values():
        assert json.loads(told.body)["errorCode"] in codes
        for operation in OPERATIONS.values():
            assert (str(told.status) if told.status and told.status < 500 else "5XX") in operation["responses"]


def test_its_capabilities_are_those_that_are_read() -> None:
    known = PARAMETERS["capabilities"]
    assert known["name"] == HEADER
    assert PARAMETERS["fileidhash"]["name"] == FILE_ID_HASH_HEADER
    values = ("delta", "x", "true", "true")
    for name, value in zip(known["x-capabilities"], values, strict=True):
        assert Capabilities.parse(f"{name}={value}") != Capabilities.parse(None)
        assert name in known["description"]
    pattern = DOCUMENT["components"]["headers"][HEADER]["schema"]["pattern"]
    assert all(
        name in pattern
        for name in reply("delta", end_stream_action=True, async_query=True).replace("=", ";").split(";")
    )


def test_its_reader_features_are_those_that_are_served() -> None:
    assert SCHEMAS["ReaderFeature"]["enum"] == sorted(name.lower() for name in features.READABLE)


def test_its_fields_are_those_that_requests_have() -> None:
    def fields(request: type[msgspec.Struct]) -> set[str]:
        return {camel_case(name) for name in request.__struct_fields__}

    table = "/shares/{share}/schemas/{schema}/tables/{table}"
    said_by_the_key_alone = {"namesRefreshToken"}
    assert SCHEMAS["QueryBody"]["properties"].keys() == fields(QueryRequest) - said_by_the_key_alone
    assert parameters("GET", f"{table}/changes", "query").keys() == fields(ChangesRequest)
    assert parameters("GET", f"{table}/metadata", "query").keys() == fields(MetadataRequest)
    assert PARAMETERS["maxResults"]["schema"]["maximum"] == MAX_RESULTS
    assert SCHEMAS["Name"]["maxLength"] == names.MAX_NAME


@pytest.mark.slow
def test_it_is_served_to_who_has_a_token_and_to_nobody_else(gateway: Gateway) -> None:
    known = Recipient(gateway.stack.endpoint, gateway.token)
    reply = known.get("/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert reply.body == PATH.read_bytes()
    replace(known, token="nobody").get("/openapi.json").refused(401, "UNAUTHENTICATED")
