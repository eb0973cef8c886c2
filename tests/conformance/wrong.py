"""Decides how a server is wrong in one thing: the gateway's own answer, changed on its way."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import httpx

Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    method: str
    path: str
    """Below the endpoint; where it begins with `/`, but the URL of a file."""
    query: Mapping[str, str]
    sent: Mapping[str, str]
    """The request's headers."""
    body: bytes
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The body's fields."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    @property
    def capabilities(self) -> str:
        return self.sent.get("delta-sharing-capabilities", "")


Defect: TypeAlias = Callable[[Exchange], Exchange]
When: TypeAlias = Callable[[Exchange], object]


class Cached(httpx.BaseTransport):
    """Asks a transport everything once, but for submissions, which are new each time."""

    def __init__(self, transport: httpx.BaseTransport, prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix
        self._known: dict[object, Exchange] = {}
        self.exchanges: list[Exchange] = []
        """All that was asked and answered, once each."""

    def exchange(self, request: httpx.Request) -> Exchange:
        sent = {name: value for name, value in request.headers.items() if name not in {"user-agent", "host"}}
        key = (request.method, str(request.url), tuple(sorted(sent.items())), request.content)
        fresh = "asyncquery" in sent.get("delta-sharing-capabilities", "") or "/queries/" in request.url.path
        if fresh or key not in self._known:
            self._known[key] = self._ask(request, sent)
            self.exchanges.append(self._known[key])
        return self._known[key]

    def _ask(self, request: httpx.Request, sent: Mapping[str, str]) -> Exchange:
        answer = self._transport.handle_request(request)
        answer.read()
        answer.close()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        below = request.url.path.startswith(self._prefix)
        path = request.url.path.removeprefix(self._prefix) if below else f"file:{request.url.path}"
        query = dict(request.url.params)
        return Exchange(request.method, path, query, sent, request.content, answer.status_code, headers, answer.content)


class Wrong(httpx.BaseTransport):
    """Gives those answers with one defect."""

    def __init__(self, answers: Cached, defect: Defect | None) -> None:
        self._answers = answers
        self._defect = defect

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        found = self._answers.exchange(request)
        changed = self._defect(found) if self._defect else found
        return httpx.Response(changed.status, headers=changed.headers, content=changed.content)


def when(condition: When, defect: Defect) -> Defect:
    """Do something to the exchanges that a condition holds of."""
    return lambda seen: defect(seen) if condition(seen) else seen


def status(number: int) -> Defect:
    """Answer with another status."""
    return lambda seen: replace(seen, status=number)


def header(name: str, value: str | None) -> Defect:
    """Answer with another header, or without it."""

    def change(seen: Exchange) -> Exchange:
        headers = {key: text for key, text in seen.headers.items() if key != name}
        return replace(seen, headers=headers if value is None else {**headers, name: value})

    return change


def later(seen: Exchange) -> Exchange:
    """Answer with the version after the one that is right."""
    right = seen.headers.get("delta-table-version")
    return header("delta-table-version", str(int(right) + 1))(seen) if right else seen


def said(change: Callable[[Any], Any]) -> Defect:
    """Change the JSON document of a 200."""

    def changed(seen: Exchange) -> Exchange:
        if seen.status != httpx.codes.OK:
            return seen
        return replace(seen, content=json.dumps(change(json.loads(seen.content))).encode())

    return changed


def item(change: Callable[[Line], Line]) -> Defect:
    """Change each item of a listing."""
    return said(lambda told: {**told, "items": [change(one) for one in told.get("items", [])]})


def without(*names: str) -> Callable[[Line], Line]:
    """Return a function that leaves keys out."""
    return lambda told: {name: value for name, value in told.items() if name not in names}


def lines(change: Callable[[list[Line]], list[Line]]) -> Defect:
    """Change the lines of a 200."""

    def changed(seen: Exchange) -> Exchange:
        if seen.status != httpx.codes.OK:
            return seen
        told = change([json.loads(line) for line in seen.content.splitlines()])
        return replace(seen, content=b"".join(json.dumps(line).encode() + b"\n" for line in told))

    return changed


def line(kinds: str, change: Callable[[Line], Line]) -> Defect:
    """Change the contents of lines of these kinds."""
    names = kinds.split()
    return lines(
        lambda told: [{kind: change(inner) if kind in names else inner for kind, inner in one.items()} for one in told]
    )


def _is_file(told: Line) -> bool:
    return bool({"file", "add", "cdf", "remove"} & told.keys())


no_files: Defect = lines(lambda told: [one for one in told if not _is_file(one)])


@lines
def first_file_missing(told: list[Line]) -> list[Line]:
    """Leave one file out."""
    place = next((number for number, one in enumerate(told) if _is_file(one)), None)
    return told if place is None else told[:place] + told[place + 1 :]


def action(change: Callable[[Line], Line]) -> Callable[[Line], Line]:
    """Change the Delta action of a file line."""

    def changed(told: Line) -> Line:
        single = told.get("deltaSingleAction")
        if single is None:
            return told
        return {**told, "deltaSingleAction": {kind: change(inner) for kind, inner in single.items()}}

    return changed
