"""Our own gateway answers as the contract's document says: to requests made from it, and to those of the kit."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests
import schemathesis
from bench.conformance_tables import ENTRIES
from conformance.conftest import Gateway
from conformance.contract import DOCUMENT, mistakes
from conformance.wrong import Cached, Defect, Exchange
from deltaic_ops.conformance.caller import Caller
from deltaic_ops.conformance.run import run
from deltaic_ops.deploy.template import load_template
from deltaic_ops.local.routes import RouteTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

pytestmark = pytest.mark.slow

EXAMPLES = 25
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


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests_made_from_the_document_are_answered_as_it_says(gateway: Gateway, method: str, path: str) -> None:
    operation = SCHEMA[path][method]
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {gateway.token}"

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
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        place = {**data.draw(PLACES | PLACES | NOWHERE), "queryId": "no-such-query"}
        mode = (
            data.draw(MODES)
            if operation.body or list(operation.iter_parameters())
            else schemathesis.GenerationMode.POSITIVE
        )
        told = {name: value for name, value in place.items() if name in named}
        case = data.draw(operation.as_strategy(mode, path_parameters=told))
        reply = case.call(base_url=gateway.stack.endpoint, session=session)
        case.validate_response(reply, checks=CHECKS)
        if reply.headers.get("content-type", [""])[0].startswith("application/x-ndjson"):
            assert (
                line_mistakes(method, path, {name: value[0] for name, value in reply.headers.items()}, reply.content)
                == []
            )

    with session:
        ask()


def test_every_answer_that_the_kit_was_given_is_as_the_document_says(
    caller: Callable[[Defect | None], AbstractContextManager[Caller]], answers: Cached
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
