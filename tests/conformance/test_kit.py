"""Results of the conformance kit for the gateway, and for servers with one defect each."""

import gzip
import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from conformance.conftest import Gateway
from conformance.defects import (
    Defect,
    Exchange,
    action,
    document,
    first_file_missing,
    header,
    item,
    line,
    lines,
    next_version,
    no_files,
    status,
    when,
    without,
)
from conformance.opensharing_defects import OPENSHARING_DEFECTS
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.listings import ABSENT
from delta_sharing_conformance.run import CHECKS, CheckResult, run
from delta_sharing_conformance.untrusted_http import MAX_BYTES, UnsafeResponse
from deltaic_ops.cli import app
from typer.testing import CliRunner

pytestmark = pytest.mark.slow

ClientWith = Callable[[Defect | None], AbstractContextManager[SharingClient]]


def at(suffix: str, **query: str) -> Callable[[Exchange], bool]:
    """Return a condition on the end of the path and on query parameters."""
    return lambda exchange: exchange.path.endswith(suffix) and query.items() <= exchange.query.items()


def with_body(*names: str, suffix: str = "/query") -> Callable[[Exchange], bool]:
    """Return a condition on fields that a query body must have."""
    return lambda exchange: (
        exchange.path.endswith(suffix) and all(exchange.fields.get(name) not in (None, [], "") for name in names)
    )


def with_capabilities(capabilities: str, suffix: str = "/query") -> Callable[[Exchange], bool]:
    return lambda exchange: exchange.path.endswith(suffix) and exchange.capabilities.startswith(capabilities)


def is_signed_url(exchange: Exchange) -> bool:
    return exchange.path.startswith("file:")


def bad_request(suffix: str) -> Callable[[Exchange], bool]:
    return lambda exchange: exchange.path.endswith(suffix) and exchange.status == httpx.codes.BAD_REQUEST


def new_query_id(exchange: Exchange) -> Exchange:
    """Change the queryId of each response."""
    return line("queryStatus", lambda query: {**query, "queryId": uuid.uuid4().hex})(exchange)


def rejected(exchange: Exchange) -> Exchange:
    return replace(
        exchange, status=400, content=b'{"errorCode":"X","message":"no"}', headers={"content-type": "application/json"}
    )


PARQUET, DELTA, BOTH = "responseformat=parquet", "responseformat=delta", "responseformat=parquet,delta"

DEFECTS: dict[str, Defect] = {
    "lists shares": when(at("/shares"), header("content-type", "text/plain")),
    "pages of shares are the listing": when(at("/shares", maxResults="1"), document(without("nextPageToken"))),
    "refuses parameters of listings that are wrong": when(at("/shares", maxResults="-1"), status(200)),
    "gets a share by its name": when(at("/shares/first"), document(lambda _: {"share": {"name": "other"}})),
    "lists schemas": when(at("/schemas"), item(without("share"))),
    "pages of schemas are the listing": when(at("/schemas", maxResults="1"), document(without("nextPageToken"))),
    "lists tables": when(at("/tables"), item(lambda entry: {**entry, "schema": "other"})),
    "pages of tables are the listing": when(
        at("/tables", maxResults="0"), document(lambda _: {"items": [{"name": "a"}], "nextPageToken": "x"})
    ),
    "all tables are those of the schemas": when(at("/all-tables"), document(lambda page: {"items": page["items"][1:]})),
    "pages of all tables are the listing": when(at("/all-tables", maxResults="1"), document(without("nextPageToken"))),
    "names known access modes": when(at("/all-tables"), item(lambda entry: {**entry, "accessModes": ["ftp"]})),
    "names are case insensitive": when(lambda exchange: "FIRST" in exchange.path, status(404)),
    "answers 404 for what does not exist": when(
        at("/metadata"), lambda exchange: status(403)(exchange) if ABSENT in exchange.path else exchange
    ),
    "answers 401 without a token": when(lambda exchange: exchange.status == 401, status(403)),
    "its 401 has an error body": when(lambda exchange: exchange.status == 401, header("content-type", "text/plain")),
    "unknown parameters are ignored": when(lambda exchange: ABSENT in exchange.query, rejected),
    "tells the version": when(at("/version"), header("delta-table-version", None)),
    "HEAD tells the same version": when(lambda exchange: exchange.method == "HEAD", next_version),
    "startingTimestamp finds the first version at or after it": when(
        lambda exchange: "startingTimestamp" in exchange.query and exchange.path.endswith("/version"), next_version
    ),
    "refuses timestamps that are none": when(lambda exchange: "yesterday" in exchange.query.values(), status(200)),
    "metadata is two lines in parquet format": when(
        with_capabilities("", "/metadata"), line("metaData", without("schemaString"))
    ),
    "metadata is two lines in delta format": when(
        with_capabilities(DELTA, "/metadata"), line("protocol", lambda _: {"deltaProtocol": {"minReaderVersion": 1}})
    ),
    "metadata and query have the same schema": when(
        with_capabilities(PARQUET),
        line("metaData", lambda entry: {**entry, "schemaString": entry.get("schemaString", "") + " "}),
    ),
    "metadata of a version": when(
        lambda exchange: "version" in exchange.query and exchange.path.endswith("/metadata"), next_version
    ),
    "history that is not shared is refused": when(bad_request("latest/changes"), status(200)),
    "without capabilities answers are parquet": when(
        lambda exchange: not exchange.capabilities, header("delta-sharing-capabilities", DELTA)
    ),
    "a single format is the answers format": when(with_capabilities(DELTA), header("delta-sharing-capabilities", None)),
    "of several formats one that can carry the table": when(
        with_capabilities(BOTH), header("delta-sharing-capabilities", "responseformat=orc")
    ),
    "a format that cannot carry the table is refused": when(bad_request("vectors/metadata"), status(200)),
    "tables with features want them in readerfeatures": when(
        lambda exchange: exchange.path.endswith("vectors/query") and exchange.capabilities == "responseformat=delta",
        status(200),
    ),
    "capabilities are case insensitive": when(lambda exchange: exchange.capabilities.isupper(), rejected),
    "endStreamAction comes when it was agreed": when(
        lambda exchange: "includeEndStreamAction" in exchange.capabilities, lines(lambda entries: entries[:-1])
    ),
    "endStreamAction tells when the first URL dies": line(
        "endStreamAction", lambda entry: {**entry, "minUrlExpirationTimestamp": 10**15}
    ),
    "fileidhash is echoed and kept": when(
        lambda exchange: "fileidhash" in exchange.headers, header("fileidhash", "DELTA")
    ),
    "every table can be queried or is refused": when(at("folder_only/query"), status(500)),
    "lines of parquet format": when(with_capabilities(PARQUET), line("file", without("size"))),
    "lines of delta format": when(with_capabilities(DELTA), line("file", action(without("path")))),
    "a query tells its version": when(with_capabilities("responseformat"), next_version),
    "ids are unique and stay": when(
        with_capabilities("responseformat"), line("file", lambda entry: {**entry, "id": "1"})
    ),
    "what a body holds besides is ignored": when(with_body("noSuchKey"), rejected),
    "bodies that are wrong are refused": when(lambda exchange: exchange.body == b"{", status(200)),
    "limitHint leaves enough rows": when(with_body("limitHint"), no_files),
    "a version is queried": when(with_body("version"), next_version),
    "a timestamp is queried": when(with_body("timestamp"), next_version),
    "pages are the whole": when(with_body("pageToken"), no_files),
    "page sizes and tokens that are wrong are refused": when(
        lambda exchange: exchange.fields.get("maxFiles") == 0, status(200)
    ),
    "refreshToken gives the same files": when(with_body("refreshToken"), first_file_missing),
    "predicateHints keep what matches": when(with_body("predicateHints"), first_file_missing),
    "jsonPredicateHints keep what matches": when(with_body("jsonPredicateHints"), first_file_missing),
    "jsonPredicateHints keep what matches on pages": when(
        with_body("jsonPredicateHints", "maxFiles"), first_file_missing
    ),
    "hints that cannot be used are ignored": when(
        lambda exchange: "noSuchOp" in str(exchange.fields.get("jsonPredicateHints")), first_file_missing
    ),
    "a range in parquet format": when(with_body("startingVersion"), line("add remove", without("version"))),
    "a range in delta format": when(with_body("startingVersion"), line("file", without("timestamp"))),
    "ranges that are wrong are refused": when(with_body("startingVersion", "endingVersion"), status(200)),
    "pages of a range are the whole": when(with_body("startingVersion", "pageToken"), no_files),
    "changes in parquet format": when(
        at("/changes"),
        lines(
            lambda entries: [
                {"cdc" if kind == "cdf" else kind: file for kind, file in entry.items()} for entry in entries
            ]
        ),
    ),
    "changes in delta format": when(at("/changes"), line("file", without("version"))),
    "changes between versions and times": when(lambda exchange: "endingVersion" in exchange.query, first_file_missing),
    "changes that are wrong are refused": when(
        lambda exchange: exchange.path.endswith("/changes") and not exchange.query, status(200)
    ),
    "includeHistoricalMetadata adds metadata alone": when(
        lambda exchange: "includeHistoricalMetadata" in exchange.query, first_file_missing
    ),
    "pages of changes are the whole": when(lambda exchange: "pageToken" in exchange.query, no_files),
    "a feed that is off is refused": when(bad_request("numbers/changes"), status(200)),
    "URLs give the file": when(is_signed_url, status(403)),
    "URLs live as long as they say": line("file", lambda entry: {**entry, "expirationTimestamp": 1}),
    "deletion vectors can be fetched": line(
        "file",
        action(
            lambda file: (
                file | {"deletionVector": file["deletionVector"] | {"storageType": "u"}}
                if "deletionVector" in file
                else file
            )
        ),
    ),
    "URLs of changes give the file": when(
        lambda exchange: "_change_data" in exchange.path, lambda exchange: replace(exchange, status=403, content=b"")
    ),
    "temporary credentials are given": when(
        at("-credentials"), document(lambda reply: {"credentials": without("awsTempCredentials")(reply["credentials"])})
    ),
    "credentials for elsewhere are refused": when(bad_request("-credentials"), status(200)),
    "tables without URLs cannot be queried": when(at("folder_only/query"), status(200)),
    "a query that is submitted says so": when(
        lambda exchange: "asyncquery" in exchange.capabilities, header("delta-sharing-capabilities", PARQUET)
    ),
    "a submission sent twice is one": new_query_id,
    "a submitted query ends as the query": when(lambda exchange: "/queries/" in exchange.path, first_file_missing),
    "a submitted query keeps its parameters": when(lambda exchange: "/queries/" in exchange.path, next_version),
    "a queryId that was never given is not found": when(lambda exchange: exchange.path.endswith(ABSENT), status(200)),
    **OPENSHARING_DEFECTS,
    "no answer was a server error": when(at("/shares"), status(500)),
}


def test_every_check_holds_for_the_gateway(defective: ClientWith) -> None:
    with defective(None) as client:
        results = list(run(client))
    assert [result for result in results if result.result != "holds"] == []
    assert [result.check for result in results] == [check.id for check in CHECKS]


def test_no_check_fails_for_a_table_that_parquet_format_does_not_support(gateway: Gateway) -> None:
    with httpx.Client() as http:
        results = list(run(gateway.sharing_client(http, "mapped")))
    assert [result for result in results if result.result == "fails"] == []
    assert "holds" in {result.result for result in results if result.check == "changes in delta format"}


def test_no_check_fails_for_a_table_whose_changes_are_refused_by_name(defective: ClientWith) -> None:
    def refused(exchange: Exchange) -> Exchange:
        content = b'{"errorCode":"UNSUPPORTED_OPERATION","message":"version 3 rewrites rows"}'
        return replace(exchange, status=400, content=content, headers={"content-type": "application/json"})

    def is_of_changes(exchange: Exchange) -> bool:
        return exchange.status == httpx.codes.OK and bool({"startingVersion"} & {*exchange.query, *exchange.fields})

    with defective(when(is_of_changes, refused)) as client:
        results = {result.check: result.result for result in run(client)}
    assert "fails" not in results.values()
    assert results["changes in delta format"] == results["a range in delta format"] == "not tried"


def test_command_prints_json(gateway: Gateway) -> None:
    done = CliRunner().invoke(app, ["conformance", "--profile", str(gateway.profile), "--tables", "1", "--json"])
    assert done.exit_code == 0, done.output
    results = [CheckResult(**fields) for fields in json.loads(done.stdout)]
    assert [result.check for result in results] == [check.id for check in CHECKS]
    assert "fails" not in {result.result for result in results}
    assert gateway.token not in done.output


def test_check_has_a_unique_id_and_title_a_section_and_a_remedy() -> None:
    assert len({check.id for check in CHECKS}) == len({check.title for check in CHECKS}) == len(CHECKS)
    assert [check.id for check in CHECKS if not check.section or not check.remedy.endswith((".", ":"))] == []
    assert DEFECTS.keys() == {check.id for check in CHECKS}


@pytest.mark.parametrize("id_", DEFECTS)
def test_server_with_one_defect_fails_the_check_for_it(defective: ClientWith, id_: str) -> None:
    checks = [check for check in CHECKS if check.id in {id_, "lists shares"}]
    with defective(DEFECTS[id_]) as client:
        results = {result.check: result for result in run(client, checks)}
    assert results[id_].result == "fails"
    assert results[id_].remedy
    assert "X-Amz-Signature" not in str(results)


def test_checks_without_shared_items_are_not_tried(defective: ClientWith) -> None:
    with defective(when(at("/shares"), document(lambda _: {}))) as client:
        results = {result.check: result for result in run(client)}
    assert {result.result for result in results.values()} == {"holds", "not tried"}
    assert results["pages are the whole"].message == "no shared table can be queried"
    assert results["answers 401 without a token"].result == "holds"


@pytest.mark.parametrize("content", [b"hello", b"[]", b"null", b'{"items": 1}', b'{"items": [{"name": 1}]}', b"\xff"])
def test_malformed_responses_fail_the_first_check(content: bytes) -> None:
    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=content, headers={"content-type": "text/html"})

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        results = list(run(SharingClient(client, "http://server.test", "t")))
    assert len(results) == len(CHECKS)
    assert results[0].result == "fails"


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("gzip", gzip.compress(b" " * (MAX_BYTES + 1)), "a response of more than 64 MiB when decompressed"),
        ("br", b"", "the Content-Encoding is 'br' instead of gzip"),
    ],
)
def test_unsafe_response_fails_its_check(encoding: str, body: bytes, message: str) -> None:
    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": encoding}, stream=httpx.ByteStream(body))

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        [result] = run(SharingClient(client, "http://192.0.2.1", "t"), CHECKS[:1])
    assert (result.result, result.message) == ("fails", message)


def test_listing_without_an_end_fails_its_check() -> None:
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        headers = {"content-type": "application/json; charset=utf-8"}
        return httpx.Response(200, headers=headers, json={"items": [{"name": "s"}], "nextPageToken": "again"})

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        [result] = run(SharingClient(client, "http://192.0.2.1", "t"), CHECKS[:1])
    assert (result.result, result.message) == ("fails", "the pages never end: the server repeats a page token")
    assert len(requests) <= 3


def test_local_url_of_a_remote_server_is_not_requested() -> None:
    with (
        httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(206, content=b"PAR1"))) as client,
        pytest.raises(UnsafeResponse, match=r"loopback or link-local address 169\.254\.169\.254"),
    ):
        SharingClient(client, "http://192.0.2.1", "t").fetch("http://169.254.169.254/latest/meta-data", "bytes=0-3")


def test_exit_code_is_1_without_a_server(gateway: Gateway) -> None:
    arguments: list[Any] = ["conformance", "http://127.0.0.1:9/delta-sharing", "--profile", gateway.profile]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 1
    assert "no response: ConnectError" in done.output
    assert "must: Respond to GET {prefix}/shares" in done.output


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"endpoint": "x"}', "[]", "[" * 100_000, json.dumps({"endpoint": "x", "bearerToken": "t" * 1_048_576})],
    ids=["empty", "no fields", "no token", "a list", "nested deeply", "larger than 1 MiB"],
)
def test_invalid_profile_is_rejected(text: str, tmp_path: Any) -> None:
    (tmp_path / "no.share").write_text(text)
    done = CliRunner().invoke(app, ["conformance", "--profile", str(tmp_path / "no.share")])
    assert done.exit_code == 1
    assert "is not a valid profile file" in done.output
