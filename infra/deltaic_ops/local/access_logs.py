"""Write the logs of a local server that `deltaic usage` reads: requests to functions, and downloads.

Both logs have AWS's formats. The request log has one JSON object per line. The download log has the format of
S3's server access log (Amazon S3 User Guide, "Amazon S3 server access log format"). Only the owner can read the files.
Each log has at most 8 files of 16 MiB; then the oldest file is deleted.
"""

import logging
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote

from deltaic.http.asgi import App, Receive, Scope, Send

logger = logging.getLogger(__name__)

FOLDER: Final = "logs"
"""Subfolder of the state folder for the logs."""
REQUESTS: Final = "requests.jsonl"
FETCHES: Final = "s3-access.log"
FILES: Final = 8
FILE_BYTES: Final = 16 << 20

Caller = Callable[[str, str, dict[str, str], dict[str, list[str]]], str | None]
"""Function that returns the signer's ARN for a request to S3, and None for a request to another service."""

_ERROR: Final = 400
_SIGNED: Final = re.compile(r"(X-Amz-(?:Signature|Security-Token)=)[^&\s]*", re.IGNORECASE)
"""Secret parts of a signed URL, with which readers of a log could download the file."""
_ERROR_CODE: Final = re.compile(rb"<Code>(\w{1,80})</Code>")
_NOT_PROVEN: Final = frozenset({
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
})  # fmt: skip
"""S3 error codes for requests whose signature is not valid."""


def request_log(folder: Path) -> logging.Handler:
    """Return a logging handler that writes only the functions' log lines about requests."""
    handler = _Log(folder / REQUESTS)
    handler.addFilter(lambda record: hasattr(record, "endpoint") and hasattr(record, "requestId"))
    return handler


@contextmanager
def fetch_log(folder: Path) -> Iterator[Callable[[str], None]]:
    """Open the download log, and yield a function that writes one line to it."""
    with closing(_Log(folder / FETCHES)) as handler:

        def write(line: str) -> None:
            handler.handle(logging.LogRecord(FETCHES, logging.INFO, "", 0, line, None, None))

        yield write


class _Log(RotatingFileHandler):
    """A log of limited size; if writing to it fails, requests still succeed."""

    def __init__(self, path: Path) -> None:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True)
        self._has_warned = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 -- logging's
        """Log one warning if lines cannot be written, for example because the disk is full."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning("cannot write %s, some lines are lost: %s", self.baseFilename, sys.exc_info()[1])


class LoggedStore:
    """ASGI middleware that writes one line to the download log for each completed S3 request."""

    def __init__(self, app: App, caller: Caller, write: Callable[[str], None]) -> None:
        self._app = app
        self._caller = caller
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request to the wrapped app, and log the response if the request is for S3."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at, record = time.time(), _ResponseRecord()

        async def send_and_record(message: Any) -> None:
            await send(message)
            record.add(message)

        try:
            await self._app(scope, receive, send_and_record)
        finally:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
            requester = self._caller(scope["method"], scope["path"], headers, query)
            if requester is not None:
                self._write(_line(scope, headers, record, requester, started_at))


class _ResponseRecord:
    def __init__(self) -> None:
        self.status = 0
        self.request_id = ""
        self.sent = 0
        self.code = ""

    def add(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {name.lower(): value for name, value in message.get("headers", ())}
            self.request_id = headers.get(b"x-amz-request-id", b"").decode("latin-1")
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self.sent += len(body)
            if self.status >= _ERROR and not self.code and (match := _ERROR_CODE.search(body[:4096])):
                self.code = match[1].decode()


def _line(scope: Scope, headers: dict[str, str], response: _ResponseRecord, requester: str, started_at: float) -> str:
    raw_target = scope.get("raw_path", b"").decode("latin-1") or quote(scope["path"])
    bucket, _, key = raw_target.partition("?")[0].removeprefix("/").partition("/")
    target = raw_target + (f"?{scope['query_string'].decode('latin-1')}" if scope.get("query_string") else "")
    is_presigned = "X-Amz-Signature=" in target
    target = _SIGNED.sub(r"\1-", target)
    kind = "OBJECT" if key else "BUCKET" if bucket else "SERVICE"
    verified = requester if response.code not in _NOT_PROVEN else ""
    milliseconds = round((time.time() - started_at) * 1000)
    fields = (
        "-",
        bucket or "-",
        f"[{datetime.fromtimestamp(started_at, UTC):%d/%b/%Y:%H:%M:%S +0000}]",
        (scope.get("client") or ("-",))[0],
        verified or "-",
        response.request_id or secrets.token_hex(8).upper(),
        f"REST.{scope['method']}.{kind}",
        # S3 encodes what it has decoded, and the log once more.
        quote(quote(unquote(key), safe="/"), safe="/") or "-",
        f'"{scope["method"]} {target} HTTP/{scope.get("http_version", "1.1")}"',
        response.status or "-",
        response.code or "-",
        "-" if scope["method"] == "HEAD" else response.sent or "-",
        "-",
        milliseconds,
        "-",
        f'"{headers.get("referer", "-")}"',
        f'"{headers.get("user-agent", "-")}"',
        "-",
        "-",
        "SigV4" if verified else "-",
        "-",
        "-" if not verified else "QueryString" if is_presigned else "AuthHeader",
        headers.get("host", "-").partition(" ")[0],
        "-",
        "-",
        "-",
    )
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(map(str, fields)))
