"""Our own gateway answers as the contract's document says: to requests made from it, and to those of the kit."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
import schemathesis
from conformance.conftest import Gateway
from conformance.contract import DOCUMENT, mistakes
from conformance.shared_tables import ENTRIES
from conformance.wrong import Cached, Defect, Exchange
from delta_sharing_conformance.client import DELTA, SharingClient
from delta_sharing_conformance.run import run
from deltaic_ops.deploy.template import load_template
from deltaic_ops.local.routes import RouteTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

pytestmark = pytest.mark.slow

EXAMPLES = 20
"""Requests of each operation: as many in a run as in every other, the same ones each time."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
PLACES = st.sampled_from(ENTRIES).map(
    lambda entry: {"share": entry.share, "schema": entry.schema, "table": entry.table}
)
NOWHERE = st.just({"share": "first", "schema": "plain", "table": "no_such_table"})
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
TRAVELS = st.fixed_dictionaries({}, optional={"version": st.integers(0, 5)}) | st.fixed_dictionaries(
    {"startingVersion": st.integers(0, 5)}, optional={"endingVersion": st.integers(0, 5)}
)
FEEDS = st.fixed_dictionaries(
    {"startingVersion": st.integers(0, 5)},
    optional={"includeHistoricalMetadata": st.just("true"), "maxFiles": st.integers(1, 3)},
)
SENSIBLE: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "query": st.builds(
        lambda body, more, headers: {"body": {**body, **more}, "headers": headers}, BODIES, TRAVELS, CAPABILITIES
    ),
    "changes": st.builds(lambda query, headers: {"query": query, "headers": headers}, FEEDS, CAPABILITIES),
    "metadata": st.builds(lambda headers: {"query": {}, "headers": headers}, CAPABILITIES),
}
"""What the document alone would seldom make: requests that are answered with 200."""
MODES = st.sampled_from(list(schemathesis.GenerationMode))


def line_mistakes(method: str, path: str, headers: Mapping[str, str], body: bytes) -> list[str]:
    """Return what is wrong with the lines of an NDJSON answer, each of which is one of those that the route names."""
    allowed = DOCUMENT["paths"][path][method.lower()]["responses"]["200"]["content"]["application/x-ndjson"]["x-lines"]
    named = {one["$ref"].rpartition("/")[2] for one in allowed["anyOf"]}
    found = []
    for text in body.splitlines():
        told = json.loads(text)
        kind = "DeltaLine" if "responseformat=delta" in headers["delta-sharing-capabilities"] else "ParquetLine"
        kind = "StatusLine" if "queryStatus" in told else kind
        assert kind in named
        found += [f"{kind} {mistake}" for mistake in mistakes(kind, told)]
    return found


Asked = Callable[[st.DataObject], schemathesis.Case[Any]]


@pytest.fixture
def asks(gateway: Gateway) -> Callable[[Asked], Counter[int]]:
    """Return a function that sends cases, checks their answers, and counts their statuses."""

    def send(made: Asked) -> Counter[int]:
        seen: Counter[int] = Counter()
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
        def ask(data: st.DataObject) -> None:
            case = made(data)
            reply = case.call(base_url=gateway.stack.endpoint, headers=token)
            seen[reply.status_code] += 1
            case.validate_response(reply, checks=CHECKS)
            headers = {name: value[0] for name, value in reply.headers.items()}
            if headers["content-type"].startswith("application/x-ndjson"):
                assert line_mistakes(case.method, case.path, headers, reply.content) == []

        ask()
        return seen

    return send


def _within(path: str, place: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in place.items() if f"{{{name}}}" in path}


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests_made_from_the_document_are_answered_as_it_says(
    asks: Callable[[Asked], Counter[int]], method: str, path: str
) -> None:
    operation = SCHEMA[path][method]
    has_parts = bool(operation.body) or any(True for _ in operation.iter_parameters())

    def made(data: st.DataObject) -> schemathesis.Case[Any]:
        place = {**data.draw(PLACES | PLACES | PLACES | NOWHERE), "queryId": "no-such-query"}
        mode = data.draw(MODES) if has_parts else schemathesis.GenerationMode.POSITIVE
        case: schemathesis.Case[Any] = data.draw(operation.as_strategy(mode, path_parameters=_within(path, place)))
        return case

    assert asks(made).total() == EXAMPLES


@pytest.mark.parametrize("name", SENSIBLE)
def test_requests_that_make_sense_are_answered_as_it_says(asks: Callable[[Asked], Counter[int]], name: str) -> None:
    ((method, path),) = [known for known in OPERATIONS if known[1].endswith(f"/{name}")]
    operation = SCHEMA[path][method]

    def made(data: st.DataObject) -> schemathesis.Case[Any]:
        parts = data.draw(SENSIBLE[name])
        media = "application/json" if "body" in parts else None
        return operation.Case(path_parameters=_within(path, data.draw(PLACES)), media_type=media, **parts)

    assert asks(made)[httpx.codes.OK] > EXAMPLES // 10


def test_every_answer_that_the_kit_was_given_is_as_the_document_says(
    caller: Callable[[Defect | None], AbstractContextManager[SharingClient]], answers: Cached
) -> None:
    with caller(None) as right:
        list(run(right))
    routes = RouteTable(load_template().routes)
    seen: Counter[str] = Counter()
    for exchange in answers.exchanges:
        match = None if exchange.path.startswith("file:") else routes.match(exchange.method, exchange.path)
        if match is not None:
            assert answer_mistakes(exchange, match.route.path) == [], exchange
            seen |= Counter(_kinds(exchange))
    lines = {"protocol", "metaData", "file", "add", "cdf", "remove", "endStreamAction", "queryStatus"}
    assert lines <= seen.keys()


def test_a_line_that_is_wrong_is_seen() -> None:
    file = {"url": "u", "id": "i", "partitionValues": {"day": None}, "size": 1}
    assert mistakes("ParquetLine", {"file": file}) == []
    wrong: list[dict[str, Any]] = [
        {"file": {**file, "size": "1"}},
        {"file": {**file, "tags": {}}},
        {"file": {name: value for name, value in file.items() if name != "id"}},
        {"add": file},
        {"file": file, "protocol": {"minReaderVersion": 1}},
        {"files": file},
        {},
    ]
    assert all(mistakes("ParquetLine", line) for line in wrong)


def answer_mistakes(exchange: Exchange, path: str) -> list[str]:
    """Return what is wrong with an answer: its status, its content type, its body."""
    responses = DOCUMENT["paths"][path][exchange.method.lower()]["responses"]
    if str(exchange.status) not in responses:
        return [f"{exchange.status} is not in the document"]
    said: dict[str, Any] = responses[str(exchange.status)]
    if "$ref" in said:
        said = DOCUMENT["components"]["responses"][said["$ref"].rpartition("/")[2]]
    if "content" not in said or exchange.method == "HEAD":
        return [] if not exchange.content else ["a body where the document has none"]
    media = exchange.headers["content-type"].partition(";")[0]
    if media not in said["content"]:
        return [f"{media} is not in the document"]
    if media == "application/x-ndjson":
        return line_mistakes(exchange.method, path, exchange.headers, exchange.content)
    return mistakes(said["content"][media]["schema"]["$ref"].rpartition("/")[2], json.loads(exchange.content))


def _kinds(exchange: Exchange) -> list[str]:
    if not exchange.headers.get("content-type", "").startswith("application/x-ndjson"):
        return []
    return [next(iter(json.loads(line))) for line in exchange.content.splitlines()]
