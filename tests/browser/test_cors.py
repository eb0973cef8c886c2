"""Test in a browser which other origins can send requests to the endpoint."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from browser.conftest import open_page
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
"""A query like the one of DuckDB in a browser."""


class Blank(BaseHTTPRequestHandler):
    """A server of an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serve_blank_page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    thread = Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def allowed_origin() -> Iterator[str]:
    with serve_blank_page() as address:
        yield address


@pytest.fixture(scope="module")
def query(allowed_origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return a query of a table on a server that allows two origins."""
    folder = tmp_path_factory.mktemp("cors")
    with provide(folder / "server", CorsOrigins=f"https://notebooks.example,{allowed_origin}") as provider_:
        write_deltalake(str(folder / "t"), pa.table({"n": [1]}))
        provider_.put("t", folder / "t", "t")
        profile = json.loads(Path(provider_.profile).read_text())
        table = f"shares/{SHARE}/schemas/{SCHEMA}/tables/t"
        yield {"url": f"{provider_.endpoint}/{table}/query", "token": profile["bearerToken"]}


def test_allowed_origin_reads_responses_and_errors(
    browser: Browser, allowed_origin: str, query: dict[str, Any]
) -> None:
    with open_page(browser, allowed_origin) as page:
        status, version, first = page.evaluate(QUERY, query)
        assert (status, version) == (200, "0")
        assert json.loads(first) == {"protocol": {"minReaderVersion": 1}}
        status, version, first = page.evaluate(QUERY, {**query, "token": "dlt_nobody"})
        assert (status, version, json.loads(first)["errorCode"]) == (401, None, "UNAUTHENTICATED")
        status, version, first = page.evaluate(QUERY, {**query, "url": query["url"].replace("/t/", "/other/")})
        assert (status, version, json.loads(first)["errorCode"]) == (404, None, "RESOURCE_DOES_NOT_EXIST")


def test_other_origin_is_refused(browser: Browser, query: dict[str, Any]) -> None:
    with (
        serve_blank_page() as other_origin,
        open_page(browser, other_origin) as page,
        pytest.raises(Error, match="Failed to fetch"),
    ):
        page.evaluate(QUERY, query)


def test_no_origin_is_allowed_by_default(browser: Browser, allowed_origin: str, provider: Provider) -> None:
    token = json.loads(Path(provider.profile).read_text())["bearerToken"]
    with open_page(browser, allowed_origin) as page, pytest.raises(Error, match="Failed to fetch"):
        page.evaluate(QUERY, {"url": f"{provider.endpoint}/shares/s/schemas/x/tables/t/query", "token": token})


def test_token_endpoint_is_for_its_own_pages_alone(
    browser: Browser, allowed_origin: str, query: dict[str, Any]
) -> None:
    request = "async url => (await fetch(url, {method: 'POST', body: new URLSearchParams({grant_type: 'x'})})).status"
    endpoint = query["url"].partition("/shares/")[0]
    with open_page(browser, allowed_origin) as page, pytest.raises(Error, match="Failed to fetch"):
        page.evaluate(request, f"{endpoint}/oauth/token")
    with open_page(browser, f"{endpoint}/explore") as page:
        assert page.evaluate(request, f"{endpoint}/oauth/token") == 400
