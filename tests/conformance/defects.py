"""Change the responses of the gateway, to simulate servers with one defect."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import httpx

Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A request and its response."""

    method: str
    path: str
    """Path below the endpoint, or `file:` and the path of a signed URL."""
    query: Mapping[str, str]
    request_headers: Mapping[str, str]
    body: bytes
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the request body; empty if it is not a JSON object."""
        try:
            fields = json.loads(self.body)
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}

    @property
    def capabilities(self) -> str:
        return self.request_headers.get("delta-sharing-capabilities", "")


Defect: TypeAlias = Callable[[Exchange], Exchange]
Condition: TypeAlias = Callable[[Exchange], object]


class CachingTransport(httpx.BaseTransport):
    """Caches responses, except those of asynchronous queries."""

    def __init__(self, transport: httpx.BaseTransport, prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix
        self._cache: dict[object, Exchange] = {}
        self.exchanges: list[Exchange] = []
        """All exchanges, without repetitions."""

    def exchange(self, request: httpx.Request) -> Exchange:
        headers = {name: value for name, value in request.headers.items() if name not in {"user-agent", "host"}}
        key = (request.method, str(request.url), tuple(sorted(headers.items())), request.content)
        is_async = "asyncquery" in headers.get("delta-sharing-capabilities", "") or "/queries/" in request.url.path
        if is_async or key not in self._cache:
            self._cache[key] = self._send(request, headers)
            self.exchanges.append(self._cache[key])
        return self._cache[key]

    def _send(self, request: httpx.Request, request_headers: Mapping[str, str]) -> Exchange:
        response = self._transport.handle_request(request)
        response.read()
        response.close()
        headers = {name.lower(): value for name, value in response.headers.items()}
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        is_api = request.url.path.startswith(self._prefix)
        path = request.url.path.removeprefix(self._prefix) if is_api else f"file:{request.url.path}"
        query = dict(request.url.params)
        status = response.status_code
        content = response.content
        return Exchange(request.method, path, query, request_headers, request.content, status, headers, content)


class DefectiveTransport(httpx.BaseTransport):
    """Returns cached responses with one defect."""

    def __init__(self, cache: CachingTransport, defect: Defect | None) -> None:
        self._cache = cache
        self._defect = defect

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        exchange = self._cache.exchange(request)
        changed = self._defect(exchange) if self._defect else exchange
        return httpx.Response(changed.status, headers=changed.headers, content=changed.content)


def when(condition: Condition, defect: Defect) -> Defect:
    """Apply a defect to exchanges that match a condition."""
    return lambda exchange: defect(exchange) if condition(exchange) else exchange


def status(number: int) -> Defect:
    """Change the status."""
    return lambda exchange: replace(exchange, status=number)


def header(name: str, value: str | None) -> Defect:
    """Change or remove a header."""

    def change(exchange: Exchange) -> Exchange:
        headers = {key: text for key, text in exchange.headers.items() if key != name}
        return replace(exchange, headers=headers if value is None else {**headers, name: value})

    return change


def next_version(exchange: Exchange) -> Exchange:
    """Increment the version in the header."""
    version = exchange.headers.get("delta-table-version")
    return header("delta-table-version", str(int(version) + 1))(exchange) if version else exchange


def document(change: Callable[[Any], Any]) -> Defect:
    """Change the JSON document of a response with status 200."""

    def apply(exchange: Exchange) -> Exchange:
        if exchange.status != httpx.codes.OK:
            return exchange
        return replace(exchange, content=json.dumps(change(json.loads(exchange.content))).encode())

    return apply


def item(change: Callable[[Line], Line]) -> Defect:
    """Change each item of a listing."""
    return document(lambda page: {**page, "items": [change(entry) for entry in page.get("items", [])]})


def without(*names: str) -> Callable[[Line], Line]:
    """Return a function that removes keys."""
    return lambda fields: {name: value for name, value in fields.items() if name not in names}


def lines(change: Callable[[list[Line]], list[Line]]) -> Defect:
    """Change the lines of a response with status 200."""

    def apply(exchange: Exchange) -> Exchange:
        if exchange.status != httpx.codes.OK:
            return exchange
        changed = change([json.loads(line) for line in exchange.content.splitlines()])
        return replace(exchange, content=b"".join(json.dumps(line).encode() + b"\n" for line in changed))

    return apply


def line(kinds: str, change: Callable[[Line], Line]) -> Defect:
    """Change the content of lines of these kinds."""
    names = kinds.split()

    def change_line(entry: Line) -> Line:
        return {kind: change(content) if kind in names else content for kind, content in entry.items()}

    return lines(lambda entries: [change_line(entry) for entry in entries])


def _is_file(entry: Line) -> bool:
    return bool({"file", "add", "cdf", "remove"} & entry.keys())


no_files: Defect = lines(lambda entries: [entry for entry in entries if not _is_file(entry)])


@lines
def first_file_missing(entries: list[Line]) -> list[Line]:
    """Remove the first file."""
    index = next((number for number, entry in enumerate(entries) if _is_file(entry)), None)
    return entries if index is None else entries[:index] + entries[index + 1 :]


def action(change: Callable[[Line], Line]) -> Callable[[Line], Line]:
    """Change the Delta action of a file line."""

    def apply(file: Line) -> Line:
        single = file.get("deltaSingleAction")
        if single is None:
            return file
        return {**file, "deltaSingleAction": {kind: change(content) for kind, content in single.items()}}

    return apply
