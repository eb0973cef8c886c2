"""The OpenAPI document is valid and agrees with the code."""

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
from deltaic_ops.deploy.sam_template import load_template
from openapi_spec_validator import validate

PARAMETERS: dict[str, dict[str, Any]] = DOCUMENT["components"]["parameters"]
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def parameters(method: str, path: str, location: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of an operation in the query, path or headers, by name."""
    entries = OPERATIONS[method, path]["parameters"]
    resolved = [PARAMETERS[entry["$ref"].rpartition("/")[2]] if "$ref" in entry else entry for entry in entries]
    return {parameter["name"]: parameter for parameter in resolved if parameter["in"] == location}


def test_document_is_valid_openapi() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_document_has_the_routes_of_the_template() -> None:
    # The document does not include web pages.
    all_routes = {(route.method, route.path) for route in load_template().routes}
    routes = {(method, path) for method, path in all_routes if not path.startswith(("/activate/", "/explore"))}
    assert OPERATIONS.keys() == routes, (
        "functions/api/get_contract/openapi.json and template.yaml have different routes"
    )


def test_operations_declare_their_path_parameters() -> None:
    for method, path in OPERATIONS:
        names = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert parameters(method, path, "path").keys() == names


def test_document_has_the_error_codes_for_recipients() -> None:
    values = vars(errors).values()
    classes = [value for value in values if isinstance(value, type) and issubclass(value, errors.DeltaicError)]
    codes = {error.code for error in classes if error.status != errors.Conflict.status}
    assert set(SCHEMAS["Error"]["properties"]["errorCode"]["enum"]) == codes
    for operation in OPERATIONS.values():
        for error in classes:
            if error.status < 500 and error.status != errors.Conflict.status:
                assert str(error.status) in operation["responses"]


def test_document_has_the_responses_of_the_api_gateway() -> None:
    codes = set(SCHEMAS["Error"]["properties"]["errorCode"]["enum"])
    for response in load_template().gateway_responses.values():
        assert json.loads(response.body)["errorCode"] in codes
        for operation in OPERATIONS.values():
            assert (str(response.status) if response.status and response.status < 500 else "5XX") in operation[
                "responses"
            ]


def test_document_has_the_capabilities_of_the_server() -> None:
    parameter = PARAMETERS["capabilities"]
    assert parameter["name"] == HEADER
    assert PARAMETERS["fileidhash"]["name"] == FILE_ID_HASH_HEADER
    values = ("delta", "x", "true", "true")
    for name, value in zip(parameter["x-capabilities"], values, strict=True):
        assert Capabilities.parse(f"{name}={value}") != Capabilities.parse(None)
        assert name in parameter["description"]
    pattern = DOCUMENT["components"]["headers"][HEADER]["schema"]["pattern"]
    assert all(
        name in pattern
        for name in reply("delta", end_stream_action=True, async_query=True).replace("=", ";").split(";")
    )


def test_document_has_the_reader_features_of_the_server() -> None:
    assert SCHEMAS["ReaderFeature"]["enum"] == sorted(name.lower() for name in features.READABLE)


def test_document_has_the_fields_of_requests() -> None:
    def fields(request: type[msgspec.Struct]) -> set[str]:
        return {camel_case(name) for name in request.__struct_fields__}

    table = "/shares/{share}/schemas/{schema}/tables/{table}"
    without_value = {"namesRefreshToken"}
    assert SCHEMAS["QueryBody"]["properties"].keys() == fields(QueryRequest) - without_value
    assert parameters("GET", f"{table}/changes", "query").keys() == fields(ChangesRequest)
    assert parameters("GET", f"{table}/metadata", "query").keys() == fields(MetadataRequest)
    assert PARAMETERS["maxResults"]["schema"]["maximum"] == MAX_RESULTS
    assert SCHEMAS["Name"]["maxLength"] == names.MAX_NAME


@pytest.mark.slow
def test_document_requires_a_token(gateway: Gateway) -> None:
    recipient = Recipient(gateway.stack.endpoint, gateway.token)
    reply = recipient.get("/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert reply.body == PATH.read_bytes()
    replace(recipient, token="nobody").get("/openapi.json").refused(401, "UNAUTHENTICATED")
