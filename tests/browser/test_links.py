"""Test how recipients get to a table at /explore: links, search, profiles with a client's secret, and plain errors."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import deltalake
import pyarrow as pa
import pytest
from browser.conftest import broken_rules, open_page
from client.provider import SHARE, Provider, provide
from deltaic_ops.rights.profile_file import client_profile
from playwright.sync_api import Browser, Page, Request, Route, expect

pytestmark = pytest.mark.browser

CONTACT = "Acme's <b>data</b> team"
COMMENT = "What was sold, and where"
LINK = f"#share={SHARE}&schema=Tables&name=orders&version=1&column=region&is==&value=EU%7C1&tab=columns"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("links")
    with provide(folder, Contact=CONTACT) as running:
        running.admin.shares.update(SHARE, comment=COMMENT)
        for amount in (1, 2, 3):
            rows = pa.table({"region": ["EU|1", "US"], "net_amount": [amount, amount]})
            deltalake.write_deltalake(str(folder / "orders"), rows, mode="append")
        running.put("orders", folder / "orders", history=True)
        deltalake.write_deltalake(str(folder / "people"), pa.table({"iban_of_the_customer": ["x"]}))
        running.put("people", folder / "people")
        yield running


def open_link(page: Page, provider: Provider, fragment: str = LINK, profile: Path | None = None) -> None:
    page.goto("about:blank")
    page.goto(f"{provider.endpoint}/explore{fragment}")
    page.set_input_files("#file", str(profile or provider.profile))


def write_client_profile(provider: Provider, folder: Path, token_endpoint: str) -> tuple[Path, str]:
    issued = provider.admin.clients.create(provider.readers["reader"].account)
    file = folder / "program.share"
    file.write_text(client_profile(provider.endpoint, token_endpoint, issued.client.id, issued.secret))
    return file, issued.secret


def test_link_opens_version_filter_and_tab_after_the_profile_is_chosen(page: Page, provider: Provider) -> None:
    open_link(page, provider)
    for _ in range(2):
        expect(page.get_by_role("tab", name="Columns")).to_have_attribute("aria-selected", "true")
        page.get_by_role("tab", name="Rows").click()
        expect(page.locator("#count")).to_have_text("All 2 rows that match the filters at version 1.")
        assert sorted(page.locator("#grid tbody").inner_text().split()) == ["1", "2", "EU|1", "EU|1"]
        page.get_by_role("tab", name="Columns").click()
        written = parse_qs(urlsplit(page.url).fragment)
        assert written == parse_qs(LINK[1:])
        page.reload()
        expect(page.locator("#linked")).to_contain_text(f"{SHARE}.Tables.orders")
        page.set_input_files("#file", str(provider.profile))


def test_back_returns_to_the_table_before(page: Page, provider: Provider) -> None:
    open_link(page, provider, "")
    for name in ("orders", "people"):
        page.get_by_role("navigation").get_by_role("button", name=name, exact=True).click()
        expect(page.locator("#count")).to_contain_text("at version")
    expect(page.locator("#grid")).to_be_focused()
    page.go_back()
    expect(page.locator("#name")).to_have_text("orders")
    expect(page.locator("#count")).to_have_text("All 6 rows at version 2.")


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        (f"#share={SHARE}&schema=Tables&name=gone", f"The link names {SHARE}.Tables.gone, which is not shared"),
        (LINK.replace("column=region", "column=old"), "The link filters by old, which the table does not have"),
        (LINK.replace("version=1", "version=77"), "77"),
    ],
    ids=["table", "column", "version"],
)
def test_link_to_what_is_not_there_is_explained(page: Page, provider: Provider, fragment: str, message: str) -> None:
    open_link(page, provider, fragment)
    expect(page.get_by_role("alert")).to_contain_text(message)
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_search_finds_columns_and_reports_no_match(page: Page, provider: Provider) -> None:
    open_link(page, provider, "")
    search = page.get_by_label("Find a table or column")
    search.fill("iban")
    expect(page.get_by_role("navigation").get_by_role("button")).to_have_text("people column iban_of_the_customer")
    expect(page.locator("#found")).to_have_text("1 of 2")
    search.fill("weather")
    expect(page.locator("#found")).to_have_text("No table, folder or column matches “weather”.")
    search.fill("")
    expect(page.get_by_role("navigation").get_by_role("button")).to_have_text(["orders", "people"])


def test_sender_and_comment_of_the_share_are_shown(page: Page, provider: Provider) -> None:
    expect(page.get_by_role("banner")).to_contain_text(f"Shared by {CONTACT}")
    open_link(page, provider)
    expect(page.locator("#share-comment")).to_have_text(COMMENT)


def test_code_reads_the_shown_version_and_is_copied(page: Page, provider: Provider) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_link(page, provider, LINK.replace("tab=columns", "tab=code"))
    expect(page.locator("#snippets summary")).to_have_text(["Python with pandas", "Spark", "polars", "R"])
    page.get_by_role("button", name="Copy the code for Python with pandas").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.endswith(f'load_as_pandas("reader.share#{SHARE}.Tables.orders", version=1)')
    assert broken_rules(page) == []


def test_client_of_this_server_signs_in(page: Page, provider: Provider, tmp_path: Path) -> None:
    profile, secret = write_client_profile(provider, tmp_path, f"{provider.endpoint}/oauth/token")
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 -- Playwright marks its handlers
    open_link(page, provider, LINK.replace("tab=columns", "tab=code").replace("version=1&", ""), profile)
    expect(page.locator("#readers")).to_contain_text("need a profile with a bearer token")
    clients = ["Python with pandas", "Spark", "polars", "R", "Tableau"]
    assert page.locator("#snippets summary").all_inner_texts() == clients
    [sent] = [request for request in requests if secret in (request.post_data or "")]
    assert sent.url == f"{provider.endpoint}/oauth/token"
    stored = page.evaluate("() => JSON.stringify([localStorage, sessionStorage, document.cookie, history.state])")
    token = next(request.headers["authorization"] for request in requests if "authorization" in request.headers)
    kept = " ".join([stored, page.content(), page.url, *(request.url for request in requests)])
    assert secret not in kept
    assert token.removeprefix("Bearer ") not in kept


@pytest.mark.parametrize("kind", ["oauth_client_credentials", "oauth_jwt_bearer_private_key_jwt"])
def test_client_of_another_issuer_is_told_what_reads_the_profile(
    page: Page, provider: Provider, tmp_path: Path, kind: str
) -> None:
    fields: dict[str, Any] = {"shareCredentialsVersion": 2, "type": kind, "endpoint": provider.endpoint}
    issuer = {"tokenEndpoint": "https://login.example/token", "clientId": "c", "clientSecret": "s"}
    (tmp_path / "p.share").write_text(json.dumps({**fields, **(issuer if "client" in kind else {"auth": issuer})}))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    open_link(page, provider, "", tmp_path / "p.share")
    expect(page.get_by_role("alert")).to_contain_text("signs in at login.example, which this page cannot do. Read it")
    assert not [url for url in requests if "login.example" in url]


def test_revoked_client_is_refused(page: Page, provider: Provider, tmp_path: Path) -> None:
    profile, secret = write_client_profile(provider, tmp_path, f"{provider.endpoint}/oauth/token")
    profile.write_text(profile.read_text().replace(secret, "dls_" + "0" * 64))
    open_link(page, provider, "", profile)
    expect(page.get_by_role("alert")).to_contain_text("does not know this token or client")


def test_lost_connection_and_server_errors_are_explained(browser: Browser, provider: Provider) -> None:
    with open_page(browser, f"{provider.endpoint}/explore") as page:
        open_link(page, provider)
        expect(page.locator("#count")).to_contain_text("All 2 rows")
        page.get_by_role("tab", name="Rows").click()
        page.context.set_offline(True)
        page.get_by_role("button", name="Show rows").click()
        expect(page.get_by_role("alert")).to_contain_text("You are offline.")
        page.get_by_role("button", name="Close").click()
        page.get_by_role("tab", name="In code").click()
        expect(page.get_by_role("alert")).to_contain_text("You are offline.")
        page.get_by_role("tab", name="Rows").click()
        page.context.set_offline(False)
        for status, message in ((502, "The server has a problem (status 502)"), (429, "The server is busy")):
            page.route("**/query", partial(Route.fulfill, status=status, body="<html>"))
            page.get_by_role("button", name="Show rows").click()
            expect(page.get_by_role("alert")).to_contain_text(message, timeout=10_000)
