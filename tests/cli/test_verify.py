"""`deltaic verify` for a correct server, and for servers with one defect each."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pytest
from client.provider import SHARE, Provider, provide
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.untrusted_http import MAX_BYTES
from deltaic_ops.checks.doctor.table_reads import check_table_read
from deltaic_ops.checks.endpoint_checks import check_table, verify
from deltaic_ops.cli import app
from deltaic_ops.inspection.findings import Finding
from deltaic_ops.local.access_logs import FOLDER, REQUESTS
from deltaic_ops.local.resources import DATA_BUCKET
from served import served
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("verify")
    deltalake.write_deltalake(str(folder / "plain"), pa.table({"number": [1, 2, 3]}))
    with provide(folder, LogLevel="INFO") as running:
        running.put("plain", folder / "plain")
        running.admin.shares.create("Private")
        yield running


@pytest.fixture
def deltaic(provider: Provider) -> Callable[..., Result]:
    environment = {**provider.stack.environment, "DELTAIC_ENDPOINT": provider.stack.endpoint}
    return lambda *arguments: CliRunner().invoke(app, ["verify", *arguments], env=environment)


def test_a_correct_server_passes_every_check(deltaic: Callable[..., Result]) -> None:
    answer = deltaic("--as", "reader", "--json")
    assert answer.exit_code == 0, answer.output
    findings = {finding["check"]: finding for finding in json.loads(answer.stdout)}
    assert all(finding["holds"] and not finding["remedy"] for finding in findings.values())
    assert {
        "hides a share that is not granted",
        "hides a share that does not exist",
        f"lists the tables of {SHARE}",
    } <= set(findings)
    assert findings[f"signs a URL that reads {SHARE}.Tables.plain"]["message"] == "206, 1 bytes"
    assert findings[f"returns rows of {SHARE}.Tables.plain to the published client"]["message"] == "3 rows"


def test_verify_leaves_no_token_and_marks_its_requests_in_the_log(
    provider: Provider, deltaic: Callable[..., Result]
) -> None:
    recipient = provider.admin.recipients.get("reader")
    before, log = provider.admin.tokens.list(recipient.id), provider.profile.parent / "state" / FOLDER / REQUESTS
    line_count = len(log.read_text().splitlines()) if log.exists() else 0
    second = provider.admin.tokens.create(recipient)
    try:
        assert deltaic("--as", "reader").exit_code == 0, "two tokens leave room for a check"
        after = provider.admin.tokens.list(recipient.id)
        assert {token.id for token in after} == {token.id for token in [second.token, *before]}
    finally:
        provider.admin.tokens.revoke(recipient, second.token.id)
    events = [json.loads(line) for line in log.read_text().splitlines()[line_count:]]
    assert {(event["recipient"], event["tokenId"].rpartition("-")[0]) for event in events} == {("reader", "check")}
    assert {"list_shares", "query_table"} <= {event["endpoint"] for event in events}


def test_verify_accepts_a_profile(provider: Provider, deltaic: Callable[..., Result]) -> None:
    answer = deltaic(SHARE, "--profile", str(provider.profile))
    assert answer.exit_code == 0, answer.output
    assert re.search(r"^\d{2,} ok$", answer.output, re.MULTILINE)


def test_the_token_of_a_profile_is_sent_only_to_its_endpoint(provider: Provider) -> None:
    """DELTAIC_ENDPOINT names this caller's own server; the profile may be of somebody else's."""
    requests: list[str] = []

    class SecondServer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(str(self.headers["Authorization"]))
            self.send_response(401)
            self.end_headers()

        do_POST = do_GET  # noqa: N815 -- the base class's name

    with served(SecondServer) as second_server:
        arguments = ["verify", SHARE, "--profile", str(provider.profile)]
        answer = CliRunner().invoke(app, arguments, env={"DELTAIC_ENDPOINT": second_server})
        assert (answer.exit_code, requests) == (0, []), answer.output
        assert CliRunner().invoke(app, [*arguments, "--endpoint", second_server]).exit_code == 1
    assert requests


def test_verify_reads_volumes_skills_models_and_iceberg_tables(
    provider: Provider, deltaic: Callable[..., Result]
) -> None:
    s3, admin = provider.client("s3"), provider.admin
    for key in ("files/a.txt", "skills/read/SKILL.md", "model/1/model.pkl"):
        s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=b"text")
    path = (SHARE, "Tables")
    admin.volumes.create(*path, "files", f"s3://{DATA_BUCKET}/files")
    admin.volumes.create(*path, "folder", f"s3://{DATA_BUCKET}/files/", access_modes=["dir"])
    admin.skills.create(*path, "read", f"s3://{DATA_BUCKET}/skills/read", facts={"description": "d"})
    admin.models.create(*path, "churn")
    admin.models.add_version(*path, "churn", 1, f"s3://{DATA_BUCKET}/model/1")
    options: dict[str, Any] = {"format": "iceberg", "iceberg": "signed", "access_modes": ["dir"], "history": True}
    admin.tables.create(*path, "visits", f"s3://{DATA_BUCKET}/visits", **options)
    document = json.dumps({"format-version": 2, "location": f"s3://{DATA_BUCKET}/visits"})
    s3.put_object(Bucket=DATA_BUCKET, Key="visits/metadata/version-hint.text", Body=b"1")
    s3.put_object(Bucket=DATA_BUCKET, Key="visits/metadata/v1.metadata.json", Body=document.encode())

    def read_findings() -> dict[str, tuple[bool, str]]:
        message = json.loads(deltaic("--as", "reader", "--json").stdout)
        return {item["check"]: (item["holds"], item["message"]) for item in message}

    try:
        findings = read_findings()
        assert [check for check, (holds, _) in findings.items() if not holds] == []
        for name in ("the volume {}.files", "the skill {}.read", "the model {}.churn 1"):
            full = name.format(f"{SHARE}.Tables")
            assert findings[f"signs a URL that reads {full}"] == (True, "206, 1 bytes")
            assert findings[f"rejects that URL without its signature ({full})"] == (True, "403")
        assert findings[f"returns credentials for the volume {SHARE}.Tables.folder"] == (True, "200")
        assert findings[f"returns the metadata of {SHARE}.Tables.visits to Iceberg clients"] == (True, "200")
        s3.delete_object(Bucket=DATA_BUCKET, Key="visits/metadata/v1.metadata.json")
        admin.volumes.update(*path, "files", location="s3://no-such-bucket-anywhere/files")
        failed = {check: message for check, (holds, message) in read_findings().items() if not holds}
        assert failed.pop(f"returns the metadata of {SHARE}.Tables.visits to Iceberg clients") == "400"
        assert failed == {f"lists the files of the volume {SHARE}.Tables.files": "400, none"}
    finally:
        for name in ("files", "folder"):
            admin.volumes.delete(*path, name)
        admin.skills.delete(*path, "read")
        admin.models.delete(*path, "churn", force=True)
        admin.tables.delete(*path, "visits")


def test_verify_loads_a_delta_table_as_iceberg_clients_do(provider: Provider, deltaic: Callable[..., Result]) -> None:
    check = f"returns the metadata of {SHARE}.Tables.plain to Iceberg clients"

    def read_findings() -> dict[str, str]:
        return {load["check"]: load["message"] for load in json.loads(deltaic("--as", "reader", "--json").stdout)}

    assert check not in read_findings()
    provider.admin.tables.update(SHARE, "Tables", "plain", iceberg="signed")
    try:
        assert read_findings()[check] == "200"
    finally:
        provider.admin.tables.update(SHARE, "Tables", "plain", iceberg="")


def test_verify_names_an_unreadable_share(deltaic: Callable[..., Result]) -> None:
    answer = deltaic("Private", "--as", "reader")
    assert answer.exit_code == 1
    assert "FAILED lists granted shares 200, 1 shares, not Private" in answer.output
    assert "deltaic grant list" in answer.output


@pytest.mark.parametrize(
    "arguments", [[], ["--as", "reader", "--profile", "x"], ["--as", "nobody"], ["--profile", "no"]]
)
def test_without_a_recipient_verify_sends_no_request(deltaic: Callable[..., Result], arguments: list[str]) -> None:
    assert deltaic(*arguments).exit_code == 1


def test_an_unreachable_endpoint_is_a_finding(provider: Provider, deltaic: Callable[..., Result]) -> None:
    answer = deltaic("--profile", str(provider.profile), "--endpoint", "http://127.0.0.1:9")
    assert answer.exit_code == 1
    assert "FAILED responds no response from http://127.0.0.1:9" in answer.output
    assert "deltaic serve" in answer.output


FILE = {"file": {"url": "", "id": "1", "partitionValues": {}, "size": 1}}


@contextmanager
def wrong(defect: str) -> Iterator[str]:
    """Run a server with one defect and its own files."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, body, headers = respond(self.path, self.headers.get("Authorization") == "Bearer " + "t" * 20)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 -- the base class's names

    def respond(path: str, existing: bool) -> tuple[int, bytes, dict[str, str]]:
        location, _, query = path.partition("?")
        if location == "/file":
            right = (
                query == "signature=abcdefgh" or (defect == "public" and not query) or (defect == "unchecked" and query)
            )
            return (206, b"P", {}) if right else (403, b"", {})
        if not existing and defect != "open":
            return 401, b"{}", {}
        parts = location.strip("/").split("/")
        if len(parts) > 1 and parts[1] != "s":
            return (403 if defect == "tells" else 404), b"{}", {}
        if location == "/shares":
            return 200, json.dumps({"items": [] if defect == "hides" else [{"name": "s"}]}).encode(), {}
        if location.endswith("all-tables"):
            return 200, json.dumps({"items": [{"name": "t", "schema": "x", "share": "s"}]}).encode(), {}
        if location.endswith(("all-volumes", "all-skills", "all-models")):
            return 404, b"{}", {}
        if location.endswith("version"):
            return 200, b"", {} if defect == "versionless" else {"Delta-Table-Version": "3"}
        url = f"{address}/file?signature=abcdefgh"
        lines: list[dict[str, Any]] = [{"protocol": {}}, {"metaData": {}}, {"file": {**FILE["file"], "url": url}}]
        return 200, b"".join(json.dumps(line).encode() + b"\n" for line in lines[defect == "headless" :]), {}

    with served(Handler) as address:
        yield address


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        ("open", "rejects requests without a token"),
        ("tells", "hides a share that is not granted"),
        ("hides", "lists granted shares"),
        ("versionless", "returns the version of s.x.t"),
        ("headless", "responds to queries of s.x.t"),
        ("public", "rejects that URL without its signature (s.x.t)"),
        ("unchecked", "rejects that URL with a changed signature (s.x.t)"),
    ],
)
def test_each_defect_of_a_server_is_a_finding(defect: str, check: str) -> None:
    def findings(path: str) -> list[Finding]:
        with wrong(path) as endpoint, httpx.Client() as client:
            return list(verify(SharingClient(client, endpoint, "t" * 20), ["s"], ["other"], with_client=False))

    assert [finding.check for finding in findings("") if not finding.holds] == []
    failed = {finding.check: finding.remedy for finding in findings(defect) if not finding.holds}
    assert check in failed
    assert all(failed.values())


def test_a_file_that_the_published_client_cannot_read_is_a_finding() -> None:
    with wrong("") as endpoint, httpx.Client() as client:
        [*rest, last] = verify(SharingClient(client, endpoint, "t" * 20), ["s"], [], with_client=True)
    assert all(finding.holds for finding in rest)
    assert (last.check, last.holds) == ("returns rows of s.x.t to the published client", False)
    assert last.remedy
    assert "signature" not in last.message


def test_findings_contain_no_token_and_no_signature() -> None:
    with wrong("public") as endpoint, httpx.Client() as client:
        text = str(list(verify(SharingClient(client, endpoint, "t" * 20), ["s"], [])))
    assert "t" * 20 not in text
    assert "signature=" not in text


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("gzip", gzip.compress(b" " * (MAX_BYTES + 1)), "more than 64 MiB"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}")), "the Content-Encoding is 'gzip, gzip' instead of gzip"),
        ("identity", b"[" * 100_000, "200, 0 shares"),
    ],
    ids=["of gzip", "of gzip within gzip", "of brackets"],
)
def test_a_decompression_bomb_is_a_failed_check(encoding: str, body: bytes, message: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_known = request.headers.get("Authorization") == "Bearer " + "t" * 20
        headers = {"Content-Encoding": encoding}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(body)) if is_known else httpx.Response(401)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        findings = list(verify(SharingClient(client, REMOTE, "t" * 20), ["s"], [], with_client=False))
    assert any(message in finding.message for finding in findings if not finding.holds), findings


@pytest.mark.parametrize("content", [{"items": 1}, {"items": [{"name": "t"}]}])
def test_a_response_with_another_structure_is_a_failed_check(content: object) -> None:
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=content))) as client:
        findings = list(verify(SharingClient(client, REMOTE, "t" * 20), ["t"], [], with_client=False))
    assert "follows the protocol" in {finding.check for finding in findings if not finding.holds and finding.remedy}


REMOTE = "http://192.0.2.1"
"""An endpoint on another machine: an address for documentation, which nobody has."""


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:9000/file?signature=abcdefgh",
        "http://127.1/file",
        "http://2130706433/file",
        "http://localhost/file",
        "http://0.0.0.0/file",
        "http://[::1]/file",
        "http://[::ffff:169.254.169.254]/file",
        "http://[fe80::1]/file",
        f"http://{'a' * 70}.test/file",
        "http://[::/file",
    ],
)
def test_a_loopback_url_of_a_remote_server_is_not_requested(url: str) -> None:
    requests, findings = _table_with(url, REMOTE)
    assert [to for to in requests if not to.startswith(REMOTE)] == []
    [failed] = [finding for finding in findings if not finding.holds]
    assert (failed.check, bool(failed.remedy)) == ("returns a valid URL of s.x.t", True)
    assert url not in failed.message


def test_a_loopback_url_of_a_local_server_is_requested() -> None:
    requests, _ = _table_with("http://[::1]/file?signature=abcdefgh", "http://127.0.0.1:1")
    assert "http://[::1]/file?signature=abcdefgh" in requests


def test_a_redirect_is_not_followed() -> None:
    requests, findings = _table_with("http://192.0.2.2/file?signature=abcdefgh", REMOTE)
    assert "http://192.0.2.2/file?signature=abcdefgh" in requests
    assert [to for to in requests if "169.254" in to] == []
    assert "signs a URL that reads s.x.t" in {finding.check for finding in findings if not finding.holds}


def _table_with(url: str, endpoint: str) -> tuple[list[str], list[Finding]]:
    """Check a table whose only file has this URL; return the requests and the findings."""
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(str(request.url))
        if not requests[-1].startswith(endpoint):
            return httpx.Response(302, headers={"Location": "http://169.254.169.254/"})
        lines: list[dict[str, Any]] = [{"protocol": {}}, {"metaData": {}}, {"file": {**FILE["file"], "url": url}}]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return httpx.Response(200, headers={"Delta-Table-Version": "3"}, content=content)

    with httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
        return requests, list(
            check_table(SharingClient(client, endpoint, "t" * 20), "/shares/s/schemas/x/tables/t", "s.x.t")
        )


def test_findings_before_an_unreachable_object_store_are_reported() -> None:
    endpoint, path = "http://127.0.0.1:1", "/shares/s/schemas/x/tables/t"
    url = "http://[::1]/file?signature=abcdefgh"
    table = [{"protocol": {}}, {"metaData": {}}, {"file": {**FILE["file"], "url": url}}]
    listed: dict[str, Any] = {"items": [{"name": "t", "schema": "x", "share": "s"}]}

    def answer(request: httpx.Request) -> httpx.Response:
        if not str(request.url).startswith(endpoint):
            raise httpx.ConnectError("refused", request=request)
        lines = table if request.url.path.endswith(("/query", "/version")) else [listed]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return httpx.Response(200, headers={"Delta-Table-Version": "3"}, content=content)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = SharingClient(http, endpoint, "t" * 20)
        checks = [finding.check for finding in verify(client, ["s"], [], with_client=False)]
        read = check_table_read(client, path, "s.x.t", {})
        first = [next(read).check, next(read).check]
        with pytest.raises(httpx.ConnectError):
            next(read)
    assert first == ["returns the version of s.x.t", "responds to queries of s.x.t"]
    assert checks[-3:] == [*first, "responds"]
