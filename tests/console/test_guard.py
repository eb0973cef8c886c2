"""Who is let in, and what other programs and pages of the same machine get: nothing."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from console.conftest import Visitor, visitor
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic_ops.console.application import console
from deltaic_ops.console.guard import MOST_BYTES
from deltaic_ops.console.provider import Provider


@dataclass
class Running:
    """A console without a catalog, and the links that it has shown."""

    links: list[str] = field(default_factory=list)
    visitors: list[Visitor] = field(default_factory=list)

    def visitor(self) -> Visitor:
        self.visitors.append(visitor(self.links[-1]))
        return self.visitors[-1]


def nothing() -> Provider:
    def absent() -> Any:
        raise AssertionError("nobody asks the catalog here")

    dynamo = Dynamo(absent)
    return Provider(
        "nothing",
        CatalogAdmin("c", "t", dynamo),
        CatalogReader("c", dynamo),
        absent,
        "",
        "",
        "",
        [],
        {},
        list,
    )


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    with console(nothing(), 0, made.links.append):
        yield made
        for each in made.visitors:
            each.http.close()


def test_the_key_opens_once_and_another_is_shown(running: Running) -> None:
    first, again = running.visitor(), running.visitor()
    assert first.http.post("/enter", data={"key": first.key}).headers["location"] == "/shares"
    refused = again.http.post("/enter", data={"key": again.key})
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert len(running.links) == 2
    running.visitor().enter()


def test_the_cookie_is_for_no_script_and_no_other_site(running: Running) -> None:
    visit = running.visitor()
    cookie = visit.http.post("/enter", data={"key": visit.key}).headers["set-cookie"]
    assert cookie.startswith(f"deltaic-console-{visit.http.base_url.port}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert visit.key not in cookie


def test_without_a_session_pages_lead_to_the_key_and_forms_are_refused(running: Running) -> None:
    visit = running.visitor()
    assert visit.http.get("/nowhere").headers["location"] == "/"
    assert visit.http.post("/leave").status_code == 401
    assert 'name="key"' in visit.get("/")
    visit.http.cookies.set(f"deltaic-console-{visit.http.base_url.port}", "a" * 43)
    assert visit.http.get("/nowhere").status_code == 303


@pytest.mark.parametrize("other", ["a/b=1", 'j={"a":1}', "=", "x=\u00fc"])
def test_cookies_of_other_programs_of_this_machine_shut_nobody_out(running: Running, other: str) -> None:
    visit = running.visitor()
    own = visit.http.post("/enter", data={"key": visit.key}).headers["set-cookie"].partition(";")[0]
    for line in (f"{other}; {own}", f"{own}; {other}"):
        answer = httpx.get(f"{visit.address}/nowhere", headers={b"cookie": line.encode()})
        assert answer.status_code == 404, "let in, where there is no page"


def test_who_has_left_is_not_let_in_any_more(running: Running) -> None:
    visit = running.visitor()
    visit.enter()
    page = visit.get("/nowhere", 404)
    token = page.partition('name="token" value="')[2].partition('"')[0]
    assert visit.http.post("/leave", data={"token": token}).status_code == 303
    assert visit.http.get("/nowhere").status_code == 303


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
    visit = running.visitor()
    visit.enter()
    assert visit.http.get("/nowhere", headers=headers).status_code == status
    assert visit.http.post("/leave", headers=headers).status_code == status


def test_link_opens_from_anywhere_but_a_page_of_another_port(running: Running) -> None:
    statuses = {}
    for site in ("none", "same-origin", "cross-site", "same-site"):
        # A GET of a page that the browser navigates to has no Origin.
        statuses[site] = httpx.get(f"{running.visitor().address}/", headers={"Sec-Fetch-Site": site}).status_code
    assert statuses == {"none": 200, "same-origin": 200, "cross-site": 200, "same-site": 403}


def test_a_form_needs_the_origin_and_the_token_of_this_session(running: Running) -> None:
    visit = running.visitor()
    visit.enter()
    other = running.visitor()
    other.enter()
    token = other.get("/nowhere", 404).partition('name="token" value="')[2].partition('"')[0]
    assert visit.http.post("/leave").status_code == 403
    assert visit.http.post("/leave", data={"token": token}).status_code == 403
    del visit.http.headers["origin"]
    assert visit.http.post("/leave", data={"token": token}).status_code == 403
    assert visit.http.post("/leave", data={"token": "x" * MOST_BYTES}).status_code == 403
    visit.http.headers["origin"] = str(visit.http.base_url).rstrip("/")
    assert visit.http.post("/leave", data={"token": "x" * MOST_BYTES}).status_code == 413
    assert visit.http.put("/leave").status_code == 405


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/enter.js", "/static/console.css", "/static/../guard.py"])
def test_every_answer_says_what_a_browser_may_do_with_it(running: Running, path: str) -> None:
    visit = running.visitor()
    visit.enter()
    answer = visit.http.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


def test_a_form_that_breaks_off_is_none(running: Running) -> None:
    visit = running.visitor()
    visit.enter()
    token = visit.get("/nowhere", 404).partition('name="token" value="')[2].partition('"')[0]
    body = f"token={token}"
    (cookie,) = (f"{name}={value}" for name, value in visit.http.cookies.items())
    head = f"POST /leave HTTP/1.1\r\nHost: {visit.address[7:]}\r\nOrigin: {visit.address}\r\nCookie: {cookie}\r\n"
    for missing, left in ((1, False), (0, True)):
        host, port = visit.http.base_url.host, visit.http.base_url.port
        assert port is not None
        with socket.create_connection((host, port)) as connection:
            connection.sendall(f"{head}Content-Length: {len(body) + missing}\r\n\r\n{body}".encode())
            if missing:
                connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        assert (visit.http.get("/nowhere").status_code == 303) is left


def test_it_listens_on_this_machine_alone(running: Running) -> None:
    assert running.visitor().http.base_url.host == "127.0.0.1"
    with pytest.raises(httpx.ConnectError):
        httpx.get(str(running.visitor().http.base_url.copy_with(host="127.0.0.2")))
