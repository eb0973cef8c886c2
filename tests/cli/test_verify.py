"""What `deltaic verify` says of a server that is right, and of servers that are wrong in one thing each."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pytest
from client.provider import SHARE, Provider, provide
from deltaic_ops.cli import app
from deltaic_ops.verify import Caller, Finding, verify
from served import served
from typer.testing import CliRunner, Result


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("verify")
    deltalake.write_deltalake(str(folder / "plain"), pa.table({"number": [1, 2, 3]}))
    with provide(folder) as running:
        running.put("plain", folder / "plain")
        running.admin.shares.create("Private")
        yield running


@pytest.fixture
def deltaic(provider: Provider) -> Callable[..., Result]:
    known = {**provider.stack.environment, "DELTAIC_ENDPOINT": provider.stack.endpoint}
    return lambda *arguments: CliRunner().invoke(app, ["verify", *arguments], env=known)


def test_a_server_that_is_right_passes_every_check(provider: Provider, deltaic: Callable[..., Result]) -> None:
    answer = deltaic("--as", "reader", "--json")
    assert answer.exit_code == 0, answer.output
    found = {said["check"]: said for said in json.loads(answer.stdout)}
    assert all(said["holds"] and not said["remedy"] for said in found.values())
    assert {"hides a share that is not granted", "hides what does not exist", f"lists the tables of {SHARE}"} <= set(
        found
    )
    assert found[f"gives a byte of {SHARE}.Tables.plain by its URL"]["said"] == "206, 1 bytes"
    assert found[f"gives rows of {SHARE}.Tables.plain to the published client"]["said"] == "3 rows"
    known = provider.admin.recipients.get("reader")
    assert [token.state() for token in provider.admin.tokens.list(known.id) if token.comment == "deltaic verify"] == [
        "revoked"
    ]


def test_a_profile_does_as_well(provider: Provider, deltaic: Callable[..., Result]) -> None:
    answer = deltaic(SHARE, "--profile", str(provider.profile))
    assert answer.exit_code == 0, answer.output
    assert "checks hold" in answer.output


def test_a_share_that_cannot_be_read_is_named(deltaic: Callable[..., Result]) -> None:
    answer = deltaic("Private", "--as", "reader")
    assert answer.exit_code == 1
    assert "FAILED lists the shares that are granted 200, 1 shares, not Private" in answer.output
    assert "deltaic grant list" in answer.output


@pytest.mark.parametrize(
    "arguments", [[], ["--as", "reader", "--profile", "x"], ["--as", "nobody"], ["--profile", "no"]]
)
def test_without_a_caller_nothing_is_asked(deltaic: Callable[..., Result], arguments: list[str]) -> None:
    assert deltaic(*arguments).exit_code == 1


def test_an_endpoint_that_is_not_there_is_a_finding(provider: Provider, deltaic: Callable[..., Result]) -> None:
    answer = deltaic("--profile", str(provider.profile), "--endpoint", "http://127.0.0.1:9")
    assert answer.exit_code == 1
    assert "FAILED answers" in answer.output


FILE = {"file": {"url": "", "id": "1", "partitionValues": {}, "size": 1}}


@contextmanager
def wrong(defect: str) -> Iterator[str]:
    """Run a server that is right but for one thing; its files are its own."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, body, headers = said(self.path, self.headers.get("Authorization") == "Bearer " + "t" * 20)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 -- the base class's names

    def said(path: str, known: bool) -> tuple[int, bytes, dict[str, str]]:
        place, _, query = path.partition("?")
        if place == "/file":
            right = (
                query == "signature=abcdefgh" or (defect == "public" and not query) or (defect == "unchecked" and query)
            )
            return (206, b"P", {}) if right else (403, b"", {})
        if not known and defect != "open":
            return 401, b"{}", {}
        parts = place.strip("/").split("/")
        if len(parts) > 1 and parts[1] != "s":
            return (403 if defect == "tells" else 404), b"{}", {}
        if place == "/shares":
            return 200, json.dumps({"items": [] if defect == "hides" else [{"name": "s"}]}).encode(), {}
        if place.endswith("all-tables"):
            return 200, json.dumps({"items": [{"name": "t", "schema": "x", "share": "s"}]}).encode(), {}
        if place.endswith("version"):
            return 200, b"", {} if defect == "versionless" else {"Delta-Table-Version": "3"}
        url = f"{where}/file?signature=abcdefgh"
        lines: list[dict[str, Any]] = [{"protocol": {}}, {"metaData": {}}, {"file": {**FILE["file"], "url": url}}]
        return 200, b"".join(json.dumps(line).encode() + b"\n" for line in lines[defect == "headless" :]), {}

    with served(Handler) as where:
        yield where


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        ("open", "refuses who comes without a token"),
        ("tells", "hides a share that is not granted"),
        ("hides", "lists the shares that are granted"),
        ("versionless", "tells the version of s.x.t"),
        ("headless", "queries s.x.t"),
        ("public", "keeps that file from who has no signature (s.x.t)"),
        ("unchecked", "keeps that file from who changes a signature (s.x.t)"),
    ],
)
def test_what_is_wrong_is_said(defect: str, check: str) -> None:
    def findings(of: str) -> list[Finding]:
        with wrong(of) as endpoint, httpx.Client() as client:
            return list(verify(Caller(client, endpoint, "t" * 20), ["s"], ["other"], with_client=False))

    assert [finding.check for finding in findings("") if not finding.holds] == []
    failed = {finding.check: finding.remedy for finding in findings(defect) if not finding.holds}
    assert check in failed
    assert all(failed.values())


def test_a_file_that_the_published_client_cannot_read_is_said() -> None:
    with wrong("") as endpoint, httpx.Client() as client:
        [*others, last] = verify(Caller(client, endpoint, "t" * 20), ["s"], [], with_client=True)
    assert all(finding.holds for finding in others)
    assert (last.check, last.holds) == ("gives rows of s.x.t to the published client", False)
    assert last.remedy
    assert "signature" not in last.said


def test_no_token_and_no_signature_is_told() -> None:
    with wrong("public") as endpoint, httpx.Client() as client:
        told = str(list(verify(Caller(client, endpoint, "t" * 20), ["s"], [])))
    assert "t" * 20 not in told
    assert "signature=" not in told
