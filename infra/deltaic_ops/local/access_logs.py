"""Logs that a server on this machine keeps for `deltaic usage`: what was asked, and what was fetched.

Both are what AWS would have: the events of the functions, a JSON object a line, and lines of the embedded store in the
form of S3's server access log (Amazon S3 User Guide, "Amazon S3 server access log format"). They are the owner's alone,
and bounded: the oldest lines go when a log has had `FILES` files of `FILE_BYTES`.
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
"""Below the state folder."""
REQUESTS: Final = "requests.jsonl"
FETCHES: Final = "s3-access.log"
FILES: Final = 8
FILE_BYTES: Final = 16 << 20

Caller = Callable[[str, str, dict[str, str], dict[str, list[str]]], str | None]
"""From method, path, headers and query to the ARN of whose key signed; None where the request is not for S3."""

_ERROR: Final = 400
_SIGNED: Final = re.compile(r"(X-Amz-(?:Signature|Security-Token)=)[^&\s]*", re.IGNORECASE)
"""What makes a URL valid; nobody who reads a log shall fetch by it."""
_ERROR_CODE: Final = re.compile(rb"<Code>(\w{1,80})</Code>")
_NOT_PROVEN: Final = frozenset({
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
})  # fmt: skip
"""Codes with which a request is refused whose signature proves nobody."""


def request_log(folder: Path) -> logging.Handler:
    """Return what keeps the functions' events of requests, and nothing else that they log."""
    handler = _Log(folder / REQUESTS)
    handler.addFilter(lambda record: hasattr(record, "endpoint") and hasattr(record, "requestId"))
    return handler


@contextmanager
def fetch_log(folder: Path) -> Iterator[Callable[[str], None]]:
    """Give what writes a line of the store's access log."""
    with closing(_Log(folder / FETCHES)) as handler:

        def write(line: str) -> None:
            handler.handle(logging.LogRecord(FETCHES, logging.INFO, "", 0, line, None, None))

        yield write


class _Log(RotatingFileHandler):
    """A bounded file, without which requests are answered all the same."""

    def __init__(self, path: Path) -> None:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True)
        self._told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 -- logging's
        """Say once that lines are lost (a full disk, say)."""
        if not self._told:
            self._told = True
            logger.warning("%s cannot be written: lines of it are lost (%s)", self.baseFilename, sys.exc_info()[1])


class LoggedStore:
    """An app of ASGI that is S3 among other things, with a line for each request to S3 when it has been answered."""

    def __init__(self, app: App, caller: Caller, write: Callable[[str], None]) -> None:
        self._app = app
        self._caller = caller
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on and remember what was sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = time.time(), _Answer()

        async def sent(message: Any) -> None:
            await send(message)
            answer.take(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
            requester = self._caller(scope["method"], scope["path"], headers, query)
            if requester is not None:
                self._write(_line(scope, headers, answer, requester, began))


class _Answer:
    def __init__(self) -> None:
        self.status = 0
        self.request_id = ""
        self.sent = 0
        self.code = ""

    def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {name.lower(): value for name, value in message.get("headers", ())}
            self.request_id = headers.get(b"x-amz-request-id", b"").decode("latin-1")
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self.sent += len(body)
            if self.status >= _ERROR and not self.code and (found := _ERROR_CODE.search(body[:4096])):
                self.code = found[1].decode()


def _line(scope: Scope, headers: dict[str, str], answer: _Answer, requester: str, began: float) -> str:
    raw = scope.get("raw_path", b"").decode("latin-1") or quote(scope["path"])
    bucket, _, key = raw.partition("?")[0].removeprefix("/").partition("/")
    target = raw + (f"?{scope['query_string'].decode('latin-1')}" if scope.get("query_string") else "")
    by_query = "X-Amz-Signature=" in target
    target = _SIGNED.sub(r"\1-", target)
    kind = "OBJECT" if key else "BUCKET" if bucket else "SERVICE"
    proven = requester if answer.code not in _NOT_PROVEN else ""
    took = round((time.time() - began) * 1000)
    fields = (
        "-",
        bucket or "-",
        f"[{datetime.fromtimestamp(began, UTC):%d/%b/%Y:%H:%M:%S +0000}]",
        (scope.get("client") or ("-",))[0],
        proven or "-",
        answer.request_id or secrets.token_hex(8).upper(),
        f"REST.{scope['method']}.{kind}",
        # S3 encodes what it has decoded, and the log once more.
        quote(quote(unquote(key), safe="/"), safe="/") or "-",
        f'"{scope["method"]} {target} HTTP/{scope.get("http_version", "1.1")}"',
        answer.status or "-",
        answer.code or "-",
        "-" if scope["method"] == "HEAD" else answer.sent or "-",
        "-",
        took,
        "-",
        f'"{headers.get("referer", "-")}"',
        f'"{headers.get("user-agent", "-")}"',
        "-",
        "-",
        "SigV4" if proven else "-",
        "-",
        "-" if not proven else "QueryString" if by_query else "AuthHeader",
        headers.get("host", "-").partition(" ")[0],
        "-",
        "-",
        "-",
    )
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(map(str, fields)))
