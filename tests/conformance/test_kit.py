"""What the conformance kit says of our own gateway, and of servers that are wrong in one thing each."""

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
from conformance.opensharing_defects import OPENSHARING_DEFECTS
from conformance.wrong import (
    Defect,
    Exchange,
    action,
    first_file_missing,
    header,
    item,
    later,
    line,
    lines,
    no_files,
    said,
    status,
    when,
    without,
)
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.listings import ABSENT
from delta_sharing_conformance.run import CHECKS, CheckResult, run
from delta_sharing_conformance.untrusted_http import MAX_BYTES, UnsafeResponse
from deltaic_ops.cli import app
from typer.testing import CliRunner

pytestmark = pytest.mark.slow

Calling = Callable[[Defect | None], AbstractContextManager[SharingClient]]


def at(ending: str, **query: str) -> Callable[[Exchange], bool]:
    """Tell whether an exchange is one of this endpoint with these parameters."""
    return lambda seen: seen.path.endswith(ending) and query.items() <= seen.query.items()


def asking(*names: str, ending: str = "/query") -> Callable[[Exchange], bool]:
    """Tell whether a query's body has all these fields, with a value."""
    return lambda seen: (
        seen.path.endswith(ending) and all(seen.fields.get(name) not in (None, [], "") for name in names)
    )


def of(capabilities: str, ending: str = "/query") -> Callable[[Exchange], bool]:
    return lambda seen: seen.path.endswith(ending) and seen.capabilities.startswith(capabilities)


def file(seen: Exchange) -> bool:
    return seen.path.startswith("file:")


def refusal_of(ending: str) -> Callable[[Exchange], bool]:
    return lambda seen: seen.path.endswith(ending) and seen.status == httpx.codes.BAD_REQUEST


def renamed(seen: Exchange) -> Exchange:
    """Make each submission another query."""
    return line("queryStatus", lambda told: {**told, "queryId": uuid.uuid4().hex})(seen)


def denied(seen: Exchange) -> Exchange:
    return replace(
        seen, status=400, content=b'{"errorCode":"X","message":"no"}', headers={"content-type": "application/json"}
    )


PARQUET, DELTA, BOTH = "responseformat=parquet", "responseformat=delta", "responseformat=parquet,delta"

DEFECTS: dict[str, Defect] = {
    "lists shares": when(at("/shares"), header("content-type", "text/plain")),
    "pages of shares are the listing": when(at("/shares", maxResults="1"), said(without("nextPageToken"))),
    "refuses parameters of listings that are wrong": when(at("/shares", maxResults="-1"), status(200)),
    "gets a share by its name": when(at("/shares/first"), said(lambda _: {"share": {"name": "other"}})),
    "lists schemas": when(at("/schemas"), item(without("share"))),
    "pages of schemas are the listing": when(at("/schemas", maxResults="1"), said(without("nextPageToken"))),
    "lists tables": when(at("/tables"), item(lambda told: {**told, "schema": "other"})),
    "pages of tables are the listing": when(
        at("/tables", maxResults="0"), said(lambda _: {"items": [{"name": "a"}], "nextPageToken": "x"})
    ),
    "all tables are those of the schemas": when(at("/all-tables"), said(lambda told: {"items": told["items"][1:]})),
    "pages of all tables are the listing": when(at("/all-tables", maxResults="1"), said(without("nextPageToken"))),
    "names known access modes": when(at("/all-tables"), item(lambda told: {**told, "accessModes": ["ftp"]})),
    "names are case insensitive": when(lambda seen: "FIRST" in seen.path, status(404)),
    "answers 404 for what does not exist": when(
        at("/metadata"), lambda seen: status(403)(seen) if ABSENT in seen.path else seen
    ),
    "answers 401 without a token": when(lambda seen: seen.status == 401, status(403)),
    "its 401 has an error body": when(lambda seen: seen.status == 401, header("content-type", "text/plain")),
    "unknown parameters are ignored": when(lambda seen: ABSENT in seen.query, denied),
    "tells the version": when(at("/version"), header("delta-table-version", None)),
    "HEAD tells the same version": when(lambda seen: seen.method == "HEAD", later),
    "startingTimestamp finds the first version at or after it": when(
        lambda seen: "startingTimestamp" in seen.query and seen.path.endswith("/version"), later
    ),
    "refuses timestamps that are none": when(lambda seen: "yesterday" in seen.query.values(), status(200)),
    "metadata is two lines in parquet format": when(of("", "/metadata"), line("metaData", without("schemaString"))),
    "metadata is two lines in delta format": when(
        of(DELTA, "/metadata"), line("protocol", lambda _: {"deltaProtocol": {"minReaderVersion": 1}})
    ),
    "metadata and query have the same schema": when(
        of(PARQUET), line("metaData", lambda told: {**told, "schemaString": told.get("schemaString", "") + " "})
    ),
    "metadata of a version": when(lambda seen: "version" in seen.query and seen.path.endswith("/metadata"), later),
    "history that is not shared is refused": when(refusal_of("latest/changes"), status(200)),
    "without capabilities answers are parquet": when(
        lambda seen: not seen.capabilities, header("delta-sharing-capabilities", DELTA)
    ),
    "a single format is the answers format": when(of(DELTA), header("delta-sharing-capabilities", None)),
    "of several formats one that can carry the table": when(
        of(BOTH), header("delta-sharing-capabilities", "responseformat=orc")
    ),
    "a format that cannot carry the table is refused": when(refusal_of("vectors/metadata"), status(200)),
    "tables with features want them in readerfeatures": when(
        lambda seen: seen.path.endswith("vectors/query") and seen.capabilities == "responseformat=delta", status(200)
    ),
    "capabilities are case insensitive": when(lambda seen: seen.capabilities.isupper(), denied),
    "endStreamAction comes when it was agreed": when(
        lambda seen: "includeEndStreamAction" in seen.capabilities, lines(lambda told: told[:-1])
    ),
    "endStreamAction tells when the first URL dies": line(
        "endStreamAction", lambda told: {**told, "minUrlExpirationTimestamp": 10**15}
    ),
    "fileidhash is echoed and kept": when(lambda seen: "fileidhash" in seen.headers, header("fileidhash", "DELTA")),
    "every table can be queried or is refused": when(at("folder_only/query"), status(500)),
    "lines of parquet format": when(of(PARQUET), line("file", without("size"))),
    "lines of delta format": when(of(DELTA), line("file", action(without("path")))),
    "a query tells its version": when(of("responseformat"), later),
    "ids are unique and stay": when(of("responseformat"), line("file", lambda told: {**told, "id": "1"})),
    "what a body holds besides is ignored": when(asking("noSuchKey"), denied),
    "bodies that are wrong are refused": when(lambda seen: seen.body == b"{", status(200)),
    "limitHint leaves enough rows": when(asking("limitHint"), no_files),
    "a version is queried": when(asking("version"), later),
    "a timestamp is queried": when(asking("timestamp"), later),
    "pages are the whole": when(asking("pageToken"), no_files),
    "page sizes and tokens that are wrong are refused": when(
        lambda seen: seen.fields.get("maxFiles") == 0, status(200)
    ),
    "refreshToken gives the same files": when(asking("refreshToken"), first_file_missing),
    "predicateHints keep what matches": when(asking("predicateHints"), first_file_missing),
    "jsonPredicateHints keep what matches": when(asking("jsonPredicateHints"), first_file_missing),
    "jsonPredicateHints keep what matches on pages": when(asking("jsonPredicateHints", "maxFiles"), first_file_missing),
    "hints that cannot be used are ignored": when(
        lambda seen: "noSuchOp" in str(seen.fields.get("jsonPredicateHints")), first_file_missing
    ),
    "a range in parquet format": when(asking("startingVersion"), line("add remove", without("version"))),
    "a range in delta format": when(asking("startingVersion"), line("file", without("timestamp"))),
    "ranges that are wrong are refused": when(asking("startingVersion", "endingVersion"), status(200)),
    "pages of a range are the whole": when(asking("startingVersion", "pageToken"), no_files),
    "changes in parquet format": when(
        at("/changes"),
        lines(lambda told: [{"cdc" if kind == "cdf" else kind: of for kind, of in one.items()} for one in told]),
    ),
    "changes in delta format": when(at("/changes"), line("file", without("version"))),
    "changes between versions and times": when(lambda seen: "endingVersion" in seen.query, first_file_missing),
    "changes that are wrong are refused": when(
        lambda seen: seen.path.endswith("/changes") and not seen.query, status(200)
    ),
    "includeHistoricalMetadata adds metadata alone": when(
        lambda seen: "includeHistoricalMetadata" in seen.query, first_file_missing
    ),
    "pages of changes are the whole": when(lambda seen: "pageToken" in seen.query, no_files),
    "a feed that is off is refused": when(refusal_of("numbers/changes"), status(200)),
    "URLs give the file": when(file, status(403)),
    "URLs live as long as they say": line("file", lambda told: {**told, "expirationTimestamp": 1}),
    "deletion vectors can be fetched": line(
        "file",
        action(
            lambda told: (
                told | {"deletionVector": told["deletionVector"] | {"storageType": "u"}}
                if "deletionVector" in told
                else told
            )
        ),
    ),
    "URLs of changes give the file": when(
        lambda seen: "_change_data" in seen.path, lambda seen: replace(seen, status=403, content=b"")
    ),
    "temporary credentials are given": when(
        at("-credentials"), said(lambda told: {"credentials": without("awsTempCredentials")(told["credentials"])})
    ),
    "credentials for elsewhere are refused": when(refusal_of("-credentials"), status(200)),
    "tables without URLs cannot be queried": when(at("folder_only/query"), status(200)),
    "a query that is submitted says so": when(
        lambda seen: "asyncquery" in seen.capabilities, header("delta-sharing-capabilities", PARQUET)
    ),
    "a submission sent twice is one": renamed,
    "a submitted query ends as the query": when(lambda seen: "/queries/" in seen.path, first_file_missing),
    "a submitted query keeps its parameters": when(lambda seen: "/queries/" in seen.path, later),
    "a queryId that was never given is not found": when(lambda seen: seen.path.endswith(ABSENT), status(200)),
    **OPENSHARING_DEFECTS,
    "no answer was a server error": when(at("/shares"), status(500)),
}


def test_every_check_holds_of_our_own_gateway_and_none_is_left_out(caller: Calling) -> None:
    with caller(None) as right:
        found = list(run(right))
    assert [one for one in found if one.result != "holds"] == []
    assert [one.check for one in found] == [one.name for one in CHECKS]


def test_a_table_that_parquet_format_cannot_carry_fails_no_check(gateway: Gateway) -> None:
    with httpx.Client() as http:
        found = list(run(gateway.caller(http, "mapped")))
    assert [one for one in found if one.result == "fails"] == []
    assert "holds" in {one.result for one in found if one.check == "changes in delta format"}


def test_the_command_says_it_in_json(gateway: Gateway) -> None:
    done = CliRunner().invoke(app, ["conformance", "--profile", str(gateway.profile), "--tables", "1", "--json"])
    assert done.exit_code == 0, done.output
    found = [CheckResult(**told) for told in json.loads(done.stdout)]
    assert [one.check for one in found] == [one.name for one in CHECKS]
    assert "fails" not in {one.result for one in found}
    assert gateway.token not in done.output


def test_a_check_has_a_name_of_its_own_a_section_and_a_remedy() -> None:
    assert len({one.name for one in CHECKS}) == len(CHECKS)
    assert [one.name for one in CHECKS if not one.section or not one.remedy.endswith((".", ":"))] == []
    assert DEFECTS.keys() == {one.name for one in CHECKS}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_server_that_is_wrong_in_one_thing_fails_the_check_of_it(caller: Calling, name: str) -> None:
    checks = [one for one in CHECKS if one.name in {name, "lists shares"}]
    with caller(DEFECTS[name]) as wrong:
        found = {one.check: one for one in run(wrong, checks)}
    assert found[name].result == "fails"
    assert found[name].remedy
    assert "X-Amz-Signature" not in str(found)


def test_what_the_profile_cannot_see_is_not_tried(caller: Calling) -> None:
    with caller(when(at("/shares"), said(lambda _: {}))) as seeing_nothing:
        found = {one.check: one for one in run(seeing_nothing)}
    assert {one.result for one in found.values()} == {"holds", "not tried"}
    assert found["pages are the whole"].said == "no table that the profile sees can be queried"
    assert found["answers 401 without a token"].result == "holds"


@pytest.mark.parametrize("content", [b"hello", b"[]", b"null", b'{"items": 1}', b'{"items": [{"name": 1}]}', b"\xff"])
def test_a_server_that_speaks_otherwise_is_told_so(content: bytes) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=content, headers={"content-type": "text/html"})

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        found = list(run(SharingClient(client, "http://server.test", "t")))
    assert len(found) == len(CHECKS)
    assert found[0].result == "fails"


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("gzip", gzip.compress(b" " * (MAX_BYTES + 1)), "a response of more than 64 MiB when decompressed"),
        ("br", b"", "the Content-Encoding is 'br' instead of gzip"),
    ],
)
def test_an_answer_that_is_not_read_fails_its_check(encoding: str, body: bytes, said: str) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": encoding}, stream=httpx.ByteStream(body))

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        [found] = run(SharingClient(client, "http://192.0.2.1", "t"), CHECKS[:1])
    assert (found.result, found.said) == ("fails", said)


def test_a_listing_without_an_end_fails_its_check() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        headers = {"content-type": "application/json; charset=utf-8"}
        return httpx.Response(200, headers=headers, json={"items": [{"name": "s"}], "nextPageToken": "again"})

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        [found] = run(SharingClient(client, "http://192.0.2.1", "t"), CHECKS[:1])
    assert (found.result, found.said) == ("fails", "a listing without an end: the same nextPageToken again")
    assert len(asked) <= 3


def test_a_url_of_this_machine_is_not_fetched_for_a_server_elsewhere() -> None:
    with (
        httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(206, content=b"PAR1"))) as client,
        pytest.raises(UnsafeResponse, match=r"loopback or link-local address 169\.254\.169\.254"),
    ):
        SharingClient(client, "http://192.0.2.1", "t").fetch("http://169.254.169.254/latest/meta-data", "bytes=0-3")


def test_the_exit_code_is_1_where_nobody_answers(gateway: Gateway) -> None:
    arguments: list[Any] = ["conformance", "http://127.0.0.1:9/delta-sharing", "--profile", gateway.profile]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 1
    assert "no answer: ConnectError" in done.output
    assert "must: Answer GET {prefix}/shares" in done.output


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"endpoint": "x"}', "[]", "[" * 100_000, json.dumps({"endpoint": "x", "bearerToken": "t" * 1_048_576})],
    ids=["empty", "no fields", "no token", "a list", "nested deeply", "larger than 1 MiB"],
)
def test_what_is_no_profile_is_refused(text: str, tmp_path: Any) -> None:
    (tmp_path / "no.share").write_text(text)
    done = CliRunner().invoke(app, ["conformance", "--profile", str(tmp_path / "no.share")])
    assert done.exit_code == 1
    assert "is no profile file" in done.output
