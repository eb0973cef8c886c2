"""A page of another origin asks the endpoint with a recipient's token if the stack lets it, in a real browser."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from browser.conftest import opened
from client.provider import SCHEMA, SHARE, Provider, provide
from deltalake import write_deltalake
from playwright.sync_api import Browser, Error

pytestmark = pytest.mark.browser

QUERY = """async ({url, token}) => {
    const headers = {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "delta-sharing-capabilities": "responseformat=parquet",
    };
    const answer = await fetch(url, {method: "POST", headers, body: "{}"});
    return [answer.status, answer.headers.get("delta-table-version"), (await answer.text()).split("\\n")[0]];
}"""
"""What DuckDB in the browser does, for one."""


class Blank(BaseHTTPRequestHandler):
    """A page without anything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def origin() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def let_in() -> Iterator[str]:
    with origin() as address:
        yield address


@pytest.fixture(scope="module")
def asked(let_in: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return a query of a table whose server lets in one origin, and another one."""
    folder = tmp_path_factory.mktemp("cors")
    with provide(folder / "server", CorsOrigins=f"https://notebooks.example,{let_in}") as running:
        write_deltalake(str(folder / "t"), pa.table({"n": [1]}))
        running.put("t", folder / "t", "t")
        profile = json.loads(Path(running.profile).read_text())
        table = f"shares/{SHARE}/schemas/{SCHEMA}/tables/t"
        yield {"url": f"{running.endpoint}/{table}/query", "token": profile["bearerToken"]}


def test_a_page_that_is_let_in_reads_answers_and_refusals(browser: Browser, let_in: str, asked: dict[str, Any]) -> None:
    with opened(browser, let_in) as page:
        status, version, first = page.evaluate(QUERY, asked)
        assert (status, version) == (200, "0")
        assert json.loads(first) == {"protocol": {"minReaderVersion": 1}}
        status, version, first = page.evaluate(QUERY, {**asked, "token": "dlt_nobody"})
        assert (status, version, json.loads(first)["errorCode"]) == (401, None, "UNAUTHENTICATED")
        status, version, first = page.evaluate(QUERY, {**asked, "url": asked["url"].replace("/t/", "/other/")})
        assert (status, version, json.loads(first)["errorCode"]) == (404, None, "RESOURCE_DOES_NOT_EXIST")


def test_a_page_of_another_origin_is_not_let_in(browser: Browser, asked: dict[str, Any]) -> None:
    with origin() as other, opened(browser, other) as page, pytest.raises(Error, match="Failed to fetch"):
        page.evaluate(QUERY, asked)


def test_no_page_is_let_in_unless_the_stack_says_so(browser: Browser, let_in: str, provider: Provider) -> None:
    token = json.loads(Path(provider.profile).read_text())["bearerToken"]
    with opened(browser, let_in) as page, pytest.raises(Error, match="Failed to fetch"):
        page.evaluate(QUERY, {"url": f"{provider.endpoint}/shares/s/schemas/x/tables/t/query", "token": token})
