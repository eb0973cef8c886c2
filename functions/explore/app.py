"""GET /explore and /explore/{file}: a page that reads shared tables in the browser, and its scripts and styles."""

from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from deltaic.errors import NotFound
from deltaic.http.edge import public
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
FILES = {path.name: path.read_bytes() for path in Path(__file__).with_name("files").iterdir() if path.suffix in TYPES}
PAGE = "index.html"

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
    """Return a file of the explore page; raises NotFound for other file names."""
    name = request.names.get("file", PAGE)
    content = FILES.get(name)
    if content is None:
        raise NotFound("The explore page has no file with this name. Open the page at /explore.")
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "etag": tag, "content-type": TYPES[Path(name).suffix]}
    if tag in request.headers.get("if-none-match", ""):
        return Response(HTTPStatus.NOT_MODIFIED, headers)
    return Response(headers=headers, body=content)


handler = public("explore", explore)
