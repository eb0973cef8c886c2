"""Responses of the gateway conform to its OpenAPI document, for generated requests and those of the kit."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
import schemathesis
from conformance.conftest import Gateway
from conformance.contract import DOCUMENT, schema_errors
from conformance.defects import CachingTransport, Defect, Exchange
from conformance.shared_tables import ENTRIES
from delta_sharing_conformance.client import DELTA, SharingClient
from delta_sharing_conformance.run import run
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.routes import RouteTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

pytestmark = pytest.mark.slow

EXAMPLES = 20
"""Number of requests for each operation. Every run sends the same ones."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
PATHS = st.sampled_from(ENTRIES).map(lambda entry: {"share": entry.share, "schema": entry.schema, "table": entry.table})
UNKNOWN_TABLE = st.just({"share": "first", "schema": "plain", "table": "no_such_table"})
CAPABILITIES = st.sampled_from(
    [
        {},
        {"delta-sharing-capabilities": DELTA},
        {"delta-sharing-capabilities": f"{DELTA};includeendstreamaction=true", "fileidhash": "Parquet"},
        {"delta-sharing-capabilities": "responseformat=parquet;asyncquery=true"},
    ]
)
BODIES = st.fixed_dictionaries(
    {"idempotencyKey": st.just("k")},
    optional={
        "limitHint": st.integers(0, 200),
        "maxFiles": st.integers(1, 3),
        "predicateHints": st.lists(st.sampled_from(["dose > 3", "number = 7", "day IS NULL", "no SQL ("]), max_size=2),
    },
)
VERSIONS = st.fixed_dictionaries({}, optional={"version": st.integers(0, 5)}) | st.fixed_dictionaries(
    {"startingVersion": st.integers(0, 5)}, optional={"endingVersion": st.integers(0, 5)}
)
FEEDS = st.fixed_dictionaries(
    {"startingVersion": st.integers(0, 5)},
    optional={"includeHistoricalMetadata": st.just("true"), "maxFiles": st.integers(1, 3)},
)
VALID_REQUESTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "query": st.builds(
        lambda body, versions, headers: {"body": {**body, **versions}, "headers": headers},
        BODIES,
        VERSIONS,
        CAPABILITIES,
    ),
    "changes": st.builds(lambda query, headers: {"query": query, "headers": headers}, FEEDS, CAPABILITIES),
    "metadata": st.builds(lambda headers: {"query": {}, "headers": headers}, CAPABILITIES),
}
"""Valid requests with status 200, which generation from the document seldom produces."""
MODES = st.sampled_from(list(schemathesis.GenerationMode))


def line_errors(method: str, path: str, headers: Mapping[str, str], body: bytes) -> list[str]:
    """Return the schema errors of an NDJSON response."""
    allowed = DOCUMENT["paths"][path][method.lower()]["responses"]["200"]["content"]["application/x-ndjson"]["x-lines"]
    kinds = {schema["$ref"].rpartition("/")[2] for schema in allowed["anyOf"]}
    errors = []
    for text in body.splitlines():
        line = json.loads(text)
        kind = "DeltaLine" if "responseformat=delta" in headers["delta-sharing-capabilities"] else "ParquetLine"
        kind = "StatusLine" if "queryStatus" in line else kind
        assert kind in kinds
        errors += [f"{kind} {error}" for error in schema_errors(kind, line)]
    return errors


MakeCase = Callable[[st.DataObject], schemathesis.Case[Any]]


@pytest.fixture
def send_cases(gateway: Gateway) -> Callable[[MakeCase], Counter[int]]:
    """Return a function that sends cases, checks the responses, and counts statuses."""

    def send(make_case: MakeCase) -> Counter[int]:
        statuses: Counter[int] = Counter()
        token = {"Authorization": f"Bearer {gateway.token}"}

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(data=st.data())
        def send_one(data: st.DataObject) -> None:
            case = make_case(data)
            reply = case.call(base_url=gateway.stack.endpoint, headers=token)
            statuses[reply.status_code] += 1
            case.validate_response(reply, checks=CHECKS)
            headers = {name: value[0] for name, value in reply.headers.items()}
            if headers["content-type"].startswith("application/x-ndjson"):
                assert line_errors(case.method, case.path, headers, reply.content) == []

        send_one()
        return statuses

    return send


def _path_parameters(path: str, names: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in names.items() if f"{{{name}}}" in path}


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_generated_requests_get_documented_responses(
    send_cases: Callable[[MakeCase], Counter[int]], method: str, path: str
) -> None:
    operation = SCHEMA[path][method]
    has_parts = bool(operation.body) or any(True for _ in operation.iter_parameters())

    def make_case(data: st.DataObject) -> schemathesis.Case[Any]:
        names = {**data.draw(PATHS | PATHS | PATHS | UNKNOWN_TABLE), "queryId": "no-such-query"}
        mode = data.draw(MODES) if has_parts else schemathesis.GenerationMode.POSITIVE
        case: schemathesis.Case[Any] = data.draw(
            operation.as_strategy(mode, path_parameters=_path_parameters(path, names))
        )
        return case

    assert send_cases(make_case).total() == EXAMPLES


@pytest.mark.parametrize("name", VALID_REQUESTS)
def test_valid_requests_get_documented_responses(send_cases: Callable[[MakeCase], Counter[int]], name: str) -> None:
    ((method, path),) = [operation for operation in OPERATIONS if operation[1].endswith(f"/{name}")]
    operation = SCHEMA[path][method]

    def make_case(data: st.DataObject) -> schemathesis.Case[Any]:
        parts = data.draw(VALID_REQUESTS[name])
        media = "application/json" if "body" in parts else None
        return operation.Case(path_parameters=_path_parameters(path, data.draw(PATHS)), media_type=media, **parts)

    assert send_cases(make_case)[httpx.codes.OK] > EXAMPLES // 10


def test_responses_to_the_kit_conform_to_the_document(
    defective: Callable[[Defect | None], AbstractContextManager[SharingClient]], cache: CachingTransport
) -> None:
    with defective(None) as client:
        list(run(client))
    routes = RouteTable(load_template().routes)
    kinds: Counter[str] = Counter()
    for exchange in cache.exchanges:
        match = None if exchange.path.startswith("file:") else routes.match(exchange.method, exchange.path)
        if match is not None:
            assert response_errors(exchange, match.route.path) == [], exchange
            kinds |= Counter(_kinds(exchange))
    lines = {"protocol", "metaData", "file", "add", "cdf", "remove", "endStreamAction", "queryStatus"}
    assert lines <= kinds.keys()


def test_invalid_lines_have_schema_errors() -> None:
    file = {"url": "u", "id": "i", "partitionValues": {"day": None}, "size": 1}
    assert schema_errors("ParquetLine", {"file": file}) == []
    invalid: list[dict[str, Any]] = [
        {"file": {**file, "size": "1"}},
        {"file": {**file, "tags": {}}},
        {"file": {name: value for name, value in file.items() if name != "id"}},
        {"add": file},
        {"file": file, "protocol": {"minReaderVersion": 1}},
        {"files": file},
        {},
    ]
    assert all(schema_errors("ParquetLine", line) for line in invalid)


def response_errors(exchange: Exchange, path: str) -> list[str]:
    """Return the errors in the status, content type and body of a response."""
    responses = DOCUMENT["paths"][path][exchange.method.lower()]["responses"]
    if str(exchange.status) not in responses:
        return [f"{exchange.status} is not in the document"]
    response: dict[str, Any] = responses[str(exchange.status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    if "content" not in response or exchange.method == "HEAD":
        return [] if not exchange.content else ["a body that is not in the document"]
    media = exchange.headers["content-type"].partition(";")[0]
    if media not in response["content"]:
        return [f"{media} is not in the document"]
    if media == "application/x-ndjson":
        return line_errors(exchange.method, path, exchange.headers, exchange.content)
    return schema_errors(response["content"][media]["schema"]["$ref"].rpartition("/")[2], json.loads(exchange.content))


def _kinds(exchange: Exchange) -> list[str]:
    if not exchange.headers.get("content-type", "").startswith("application/x-ndjson"):
        return []
    return [next(iter(json.loads(line))) for line in exchange.content.splitlines()]
