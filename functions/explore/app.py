"""GET /explore and /explore/{file}: a page that reads shared tables in the browser, its scripts, styles and samples."""

import json
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from http import HTTPStatus
from pathlib import Path

from deltaic.errors import NotFound
from deltaic.http.edge import public
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response
from deltaic.pages.snippets import Example, snippets
from deltaic.settings import settings

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
}
FILES = {path.name: path.read_bytes() for path in Path(__file__).with_name("files").iterdir() if path.suffix in TYPES}
PAGE = "index.html"
SAMPLES = "code.json"
"""Code that reads the table in the query, with each client."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    # The hosts of shared tables are unknown here. Only local ones may have no TLS.
    "connect-src 'self' https: http://127.0.0.1:* http://localhost:*; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # Even faulty modules cannot turn text into markup or code.
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # cached, but revalidated by ETag, so that updates appear at once
}


def explore(request: PublicRequest) -> Response:
    """Return a file of the explore page, or code samples; raises NotFound for other file names."""
    name = request.names.get("file", PAGE)
    content = samples(request.query) if name == SAMPLES else FILES.get(name)
    if content is None:
        raise NotFound("The explore page has no file with this name. Open the page at /explore.")
    if name == PAGE and settings().contact:
        content = content.replace(b"<!--sender-->", f"Shared by {escape(settings().contact)} · ".encode())
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "etag": tag, "content-type": TYPES[Path(name).suffix]}
    if tag in request.headers.get("if-none-match", ""):
        return Response(HTTPStatus.NOT_MODIFIED, headers)
    return Response(headers=headers, body=content)


def samples(query: Mapping[str, str]) -> bytes:
    """Return code samples as JSON; the names in the query are not trusted, and need not exist."""
    names = {name: query.get(name, "") for name in ("endpoint", "profile", "share", "schema", "table", "timestamp")}
    number = query.get("version", "")[:18]
    version = int(number) if number.isdecimal() else None
    example = Example(**names, version=version)
    return json.dumps([snippet._asdict() for snippet in snippets(example)]).encode()


handler = public("explore", explore)
