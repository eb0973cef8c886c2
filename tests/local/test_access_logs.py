"""The access log of the embedded store: responses with their requesters, without signatures."""

import stat
from pathlib import Path
from typing import Any

import pytest
from asgi_app import run
from deltaic_ops.local.access_logs import FETCHES, FILES, LoggedStore, fetch_log

ARN = "arn:aws:sts::000000000000:assumed-role/signing/alice"


def lines_of(method: str = "GET", *, target: str = "/lake/t/a%20b", arn: str | None = ARN, **answer: Any) -> list[str]:
    """Return the log of one request that is answered so."""
    written: list[str] = []
    path, _, query = target.partition("?")

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 -- ASGI's
        await send({
            "type": "http.response.start",
            "status": answer.get("status", 200),
            "headers": [(b"x-amz-request-id", b"R1")],
        })  # fmt: skip
        for body in answer.get("bodies", [b"12345", b"678"]):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def ignore(_: Any) -> None:
        """Take what is sent."""

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"User-Agent", b'a "client"\n of sorts'), (b"host", b"127.0.0.1:1")],
        "client": ("127.0.0.1", 5),
    }

    async def nothing() -> Any:
        """Have nothing to give."""

    run(LoggedStore(app, lambda *_: arn, written.append)(scope, nothing, ignore))
    return written


def test_a_download_is_logged_with_its_bytes_and_session() -> None:
    [line] = lines_of()
    assert line.split(" ")[5:9] == [ARN, "R1", "REST.GET.OBJECT", "t/a%2520b"]
    assert '"GET /lake/t/a%20b HTTP/1.1" 200 - 8 - ' in line
    assert "\n" not in line


def test_signatures_and_session_tokens_are_not_logged() -> None:
    signed = "X-Amz-Date=20261122T075816Z&X-Amz-Security-Token=geheim&X-Amz-Signature=0abc"
    [line] = lines_of(target=f"/lake/t/a?{signed}")
    assert "20261122T075816Z" in line
    assert "geheim" not in line
    assert "0abc" not in line


@pytest.mark.parametrize(
    ("code", "requester"),
    [("AccessDenied", ARN), ("SignatureDoesNotMatch", "-"), ("InvalidAccessKeyId", "-")],
)
def test_an_invalid_signature_is_logged_without_a_requester(code: str, requester: str) -> None:
    [line] = lines_of(status=403, bodies=[f"<Error><Code>{code}</Code></Error>".encode()])
    assert line.split(" ")[5] == requester
    assert f'" 403 {code} ' in line


def test_a_head_has_no_bytes_and_a_listing_has_no_key() -> None:
    [head] = lines_of("HEAD")
    assert '" 200 - - - ' in head
    [listing] = lines_of(target="/lake?list-type=2")
    assert listing.split(" ")[7:9] == ["REST.GET.BUCKET", "-"]


def test_requests_to_other_services_are_not_logged() -> None:
    assert lines_of(arn=None) == []


def test_a_log_that_cannot_be_written_does_not_fail_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "logs").write_text("a file where the folder would be")
    with fetch_log(tmp_path / "logs") as write:
        write("one")
        write("two")
    assert len(caplog.records) == 1
    assert "some lines are lost" in caplog.text


def test_the_log_is_private_and_of_limited_size(tmp_path: Path) -> None:
    with fetch_log(tmp_path / "logs") as write:
        for _ in range(150):
            write("x" * (1 << 20))
    files = list((tmp_path / "logs").iterdir())
    assert len(files) == FILES
    assert (tmp_path / "logs" / FETCHES).exists()
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
