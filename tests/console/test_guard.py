"""Test sign-in, and that requests of other programs and pages of the same machine are refused."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from console.conftest import Visitor, open_visitor
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic_ops.console.application import console
from deltaic_ops.console.provider import Provider


@dataclass
class Running:
    """A console without a catalog, and the links that it printed."""

    links: list[str] = field(default_factory=list)
    visitors: list[Visitor] = field(default_factory=list)

    def open(self) -> Visitor:
        self.visitors.append(open_visitor(self.links[-1]))
        return self.visitors[-1]


def empty_provider() -> Provider:
    def fail() -> Any:
        raise AssertionError("these tests must not read the catalog")

    dynamo = Dynamo(fail)
    return Provider(
        "nothing",
        CatalogAdmin("c", "t", dynamo),
        CatalogReader("c", dynamo),
        fail,
        "",
        "",
        "",
        [],
        {},
        list,
        lambda _: fail(),
    )


@pytest.fixture
def running() -> Iterator[Running]:
    state = Running()
    with console(empty_provider(), 0, state.links.append):
        yield state
        for visitor in state.visitors:
            visitor.http.close()


def test_key_works_once_and_a_new_link_is_shown(running: Running) -> None:
    first, second = running.open(), running.open()
    assert first.http.post("/enter", data={"key": first.key}).headers["location"] == "/start"
    refused = second.http.post("/enter", data={"key": second.key})
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert len(running.links) == 2
    running.open().sign_in()


def test_cookie_is_hidden_from_scripts_and_other_sites(running: Running) -> None:
    visitor = running.open()
    cookie = visitor.http.post("/enter", data={"key": visitor.key}).headers["set-cookie"]
    assert cookie.startswith(f"deltaic-console-{visitor.http.base_url.port}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert visitor.key not in cookie


def test_requests_without_session_are_redirected_or_refused(running: Running) -> None:
    visitor = running.open()
    assert visitor.http.get("/nowhere").headers["location"] == "/"
    assert visitor.http.post("/leave").status_code == 401
    assert 'name="key"' in visitor.get("/")
    visitor.http.cookies.set(f"deltaic-console-{visitor.http.base_url.port}", "a" * 43)
    assert visitor.http.get("/nowhere").status_code == 303


@pytest.mark.parametrize("other_cookie", ["a/b=1", 'j={"a":1}', "=", "x=\u00fc"])
def test_malformed_cookies_of_other_programs_are_ignored(running: Running, other_cookie: str) -> None:
    visitor = running.open()
    own_cookie = visitor.http.post("/enter", data={"key": visitor.key}).headers["set-cookie"].partition(";")[0]
    for line in (f"{other_cookie}; {own_cookie}", f"{own_cookie}; {other_cookie}"):
        response = httpx.get(f"{visitor.address}/nowhere", headers={b"cookie": line.encode()})
        assert response.status_code == 404, "signed in, but the page does not exist"


def test_session_ends_with_sign_out(running: Running) -> None:
    visitor = running.open()
    visitor.sign_in()
    assert visitor.http.post("/leave").status_code == 303
    assert visitor.http.get("/nowhere").status_code == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "evil.example:80"}, 421, id="a-name-that-leads-here"),
        pytest.param({"Host": "127.0.0.1"}, 421, id="another-port"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another-site"),
        pytest.param({"Origin": "http://127.0.0.1:1"}, 403, id="another-program-of-this-machine"),
        pytest.param({"Origin": "null"}, 403, id="a-page-without-an-origin"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="another-port-without-an-origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="another-site-without-an-origin"),
    ],
)
def test_other_names_and_origins_are_refused(running: Running, headers: dict[str, str], status: int) -> None:
    visitor = running.open()
    visitor.sign_in()
    assert visitor.http.get("/nowhere", headers=headers).status_code == status
    assert visitor.http.post("/leave", headers=headers).status_code == status


def test_link_opens_from_other_sites_but_not_from_other_ports(running: Running) -> None:
    statuses = {}
    for site in ("none", "same-origin", "cross-site", "same-site"):
        # Browsers send no Origin when they navigate to a page.
        statuses[site] = httpx.get(f"{running.open().address}/", headers={"Sec-Fetch-Site": site}).status_code
    assert statuses == {"none": 200, "same-origin": 200, "cross-site": 200, "same-site": 403}


def test_form_needs_the_consoles_origin(running: Running) -> None:
    visitor = running.open()
    visitor.sign_in()
    origin = visitor.http.headers.pop("origin")
    assert visitor.http.post("/leave").status_code == 403
    for other in ("null", origin.replace("127.0.0.1", "localhost"), f"{origin}0", origin.upper()):
        assert visitor.http.post("/leave", headers={"Origin": other}).status_code == 403
    assert visitor.http.put("/leave").status_code == 405
    assert visitor.http.post("/leave", headers={"Origin": origin}).status_code == 303


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/enter.js", "/static/console.css", "/static/../guard.py"])
def test_every_response_has_security_headers(running: Running, path: str) -> None:
    visitor = running.open()
    visitor.sign_in()
    response = visitor.http.get(path)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "server" not in response.headers


def test_incomplete_form_is_ignored(running: Running) -> None:
    visitor = running.open()
    visitor.sign_in()
    body = "a=b"
    (cookie,) = (f"{name}={value}" for name, value in visitor.http.cookies.items())
    head = f"POST /leave HTTP/1.1\r\nHost: {visitor.address[7:]}\r\nOrigin: {visitor.address}\r\nCookie: {cookie}\r\n"
    head += "Content-Type: application/x-www-form-urlencoded\r\n"
    for missing, has_ended in ((1, False), (0, True)):
        host, port = visitor.http.base_url.host, visitor.http.base_url.port
        assert port is not None
        with socket.create_connection((host, port)) as connection:
            connection.sendall(f"{head}Content-Length: {len(body) + missing}\r\n\r\n{body}".encode())
            if missing:
                connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        assert (visitor.http.get("/nowhere").status_code == 303) is has_ended


def test_console_listens_on_loopback_only(running: Running) -> None:
    assert running.open().http.base_url.host == "127.0.0.1"
    with pytest.raises(httpx.ConnectError):
        httpx.get(str(running.open().http.base_url.copy_with(host="127.0.0.2")))


def test_file_of_a_form_is_saved_unchanged_and_in_its_own_folder(running: Running) -> None:
    content = b"--x\r\n\r\n--x--\r\n" + bytes(range(256)) * 3000
    visitor = running.open()
    visitor.sign_in()
    fields = {"share": "s", "schema": "d"}
    for name in ("Umsätze 2026.csv", "../../escape.csv", "C:\\temp\\escape.csv"):
        response = visitor.http.post("/load", data=fields, files={"file": (name, content)})
        assert response.status_code == 303, response.text
        saved = Path(httpx.URL(response.headers["location"]).params["file"])
        assert saved.name in {"Umsätze 2026.csv", "escape.csv"}
        assert saved.parent.parent.name.startswith("deltaic-console-")
        assert saved.read_bytes() == content
    assert httpx.URL(response.headers["location"]).params["name"] == "escape"


# Starlette leaves the temporary file of an incomplete form to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_incomplete_file_and_file_without_session_are_refused(running: Running) -> None:
    visitor = running.open()
    visitor.sign_in()
    content = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x.csv"\r\n\r\nhalf a fi'
    headers = {"content-type": "multipart/form-data; boundary=B"}
    assert visitor.http.post("/load", content=content, headers=headers).status_code == 400
    stranger = running.open().http
    assert stranger.post("/load", content=content, headers=headers).status_code == 401
    assert stranger.post("/enter", files={"file": ("x.csv", b"a,b")}).status_code == 400
