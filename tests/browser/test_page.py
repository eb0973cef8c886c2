"""Test the page at /explore as a recipient uses it, and with hostile names, comments and cells."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser.conftest import broken_rules, open_page
from client.golden_shares import Shared
from client.provider import Provider
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
WITHOUT_PICKER = "delete window.showSaveFilePicker"
"""Simulates browsers that cannot write to disk, because tests cannot use the file dialog of other browsers."""


@pytest.fixture(scope="module")
def hostile(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Share a table with markup and formulas in its name, comments, columns and cells; return its name."""
    folder = tmp_path_factory.mktemp("hostile") / "table"
    field = pa.field(HOSTILE, pa.string(), metadata={"comment": HOSTILE})
    schema = pa.schema([("__proto__", pa.int64()), field])
    table = pa.table({"__proto__": [1, 2], HOSTILE: [HOSTILE, "=1+1"]}, schema=schema)
    deltalake.write_deltalake(str(folder), table, description=HOSTILE)
    name = "<script>document.title='taken'</script>".replace("/", "|").replace(".", "-")
    provider.put(name, folder, "hostile")
    return name


def sign_in(page: Page, provider: Provider) -> None:
    page.set_input_files("#file", str(provider.profile))
    expect(page.locator("#look")).to_be_visible()


def choose(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#name")).to_have_text(name)
    expect(page.locator("#count")).to_contain_text("at version")


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#grid tbody td:nth-child({number})").all_inner_texts()


def save_file(page: Page, button: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(download.value.path()).read_bytes()


def test_table_is_described_and_first_rows_are_shown(
    page: Page, provider: Provider, shared: Callable[[str], Shared]
) -> None:
    table = shared("all_types")
    sign_in(page, provider)
    choose(page, table.name)
    expect(page.locator("#count")).to_have_text("All 5 rows at version 3.")
    text = page.locator("#grid").inner_text()
    for exact in ("-9223372036854775808", "2026-", "null", "NaN", "-0"):
        assert exact in text
    page.get_by_role("tab", name="Columns").click()
    expect(page.locator("#fields")).to_contain_text("decimal(38,18)")
    page.get_by_role("tab", name="In code").click()
    expect(page.locator("#snippets pre").first).to_contain_text(
        f'delta_sharing.load_as_pandas("reader.share#Client_Share.Tables.{table.name}"'
    )
    clients = ["Python with pandas", "Spark", "DuckDB", "curl", "R", "Power BI", "Excel", "Tableau", "Snowflake"]
    assert set(clients) <= set(page.locator("#snippets summary").all_inner_texts())


def test_inexact_values_are_reported(page: Page, provider: Provider, shared: Callable[[str], Shared]) -> None:
    table = shared("variant")
    sign_in(page, provider)
    choose(page, table.name)
    expect(page.locator("#told")).to_contain_text("v (variant)")
    assert "v" not in page.locator("#grid thead th").all_inner_texts()


def test_filter_is_sent_as_a_hint_and_applied_to_rows(
    page: Page, provider: Provider, shared: Callable[[str], Shared]
) -> None:
    table = shared("twelve_thousand_rows")
    sign_in(page, provider)
    choose(page, table.name)
    expect(page.locator("#count")).to_contain_text("The first 200 rows")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Comparison").select_option("≥")
    page.get_by_label("Value").fill("11990")
    with page.expect_request(re.compile("/query$")) as request:
        page.get_by_role("button", name="Show rows").click()
    hint = json.loads(json.loads(request.value.post_data or "")["jsonPredicateHints"])
    assert hint["op"] == "greaterThanOrEqual"
    expect(page.locator("#count")).to_contain_text("All 10 rows that match the filters")
    assert sorted(map(int, column(page, 1))) == list(range(11990, 12000))
    page.get_by_label("Value").fill("many")
    page.get_by_role("button", name="Show rows").click()
    expect(page.get_by_role("alert")).to_contain_text("“many” is not a value of type")


def test_version_and_its_changes_are_shown(page: Page, provider: Provider, shared: Callable[[str], Shared]) -> None:
    table = shared("change_feed")
    sign_in(page, provider)
    choose(page, table.name)
    page.get_by_label("As of").select_option("version")
    page.get_by_label("Version", exact=True).fill("1")
    page.get_by_role("button", name="Show rows").click()
    expect(page.locator("#count")).to_have_text(re.compile("^All .* at version 1"))
    assert page.locator("#grid tbody tr").count() == table.rows(1).num_rows
    page.get_by_role("tab", name="Changes").click()
    changes = table.golden.changes().to_pylist()
    version = next(row["_commit_version"] for row in changes if row["_change_type"] == "update_postimage")
    page.get_by_label("Rows changed by version").fill(str(version))
    page.get_by_role("button", name="Show changes").click()
    expect(page.locator("#changed-grid")).to_contain_text("before update")
    expected = [row for row in changes if row["_commit_version"] == version]
    assert page.locator("#changed-grid tbody tr").count() == len(expected)


def test_invalid_version_that_is_hidden_does_not_block_rows(
    page: Page, provider: Provider, shared: Callable[[str], Shared]
) -> None:
    sign_in(page, provider)
    choose(page, shared("change_feed").name)
    page.get_by_label("As of").select_option("version")
    page.get_by_label("Version", exact=True).fill("-1")
    page.get_by_label("As of").select_option("latest")
    with page.expect_response(re.compile("/query$")) as answer:
        page.get_by_role("button", name="Show rows").click()
    assert answer.value.ok


def test_token_is_not_in_addresses_or_storage(page: Page, provider: Provider, shared: Callable[[str], Shared]) -> None:
    table = shared("plain")
    token = provider.readers["reader"].token
    addresses: list[str] = []
    bearers: set[str] = set()

    def check_request(request: Any) -> None:
        addresses.append(request.url)
        if "authorization" in request.headers:
            bearers.add(request.url.partition("/delta-sharing")[0])

    page.on("request", check_request)
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    choose(page, table.name)
    assert bearers == {provider.endpoint.removesuffix("/delta-sharing")}
    assert any("X-Amz-Signature" in address for address in addresses)
    stored = page.evaluate("() => JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert token not in " ".join([stored, page.content(), *addresses])
    assert page.evaluate("async () => (await indexedDB.databases()).length + (await caches.keys()).length") == 0
    page.reload()
    expect(page.locator("#look")).to_be_hidden()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not a token", "neither a profile file nor a token"),
        ("{", "it is not JSON"),
        (
            '{"endpoint": "https://x.example/delta-sharing", "bearerToken": "t"}',
            "open https://x.example/delta-sharing/explore",
        ),
        ("dlt_" + "0" * 60, "does not know this token"),
    ],
)
def test_invalid_profile_is_reported_and_sends_no_request(page: Page, text: str, message: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_label("Token").fill(text)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(message)
    assert not [address for address in requests if "x.example" in address]


def test_markup_in_names_comments_and_cells_is_escaped(page: Page, provider: Provider, hostile: str) -> None:
    sign_in(page, provider)
    choose(page, hostile)
    expect(page.locator("#comment")).to_have_text(HOSTILE)
    assert column(page, 2) == [HOSTILE, "=1+1"]
    assert column(page, 1) == ["1", "2"]
    page.get_by_role("tab", name="Columns").click()
    expect(page.locator("#fields")).to_contain_text(HOSTILE)
    assert page.title() == "Shared tables"
    assert page.locator("#look img, #look script").count() == 0


def test_policy_forbids_inline_code_and_frames(page: Page, provider: Provider) -> None:
    policy = httpx.get(f"{provider.endpoint}/explore").headers["content-security-policy"]
    directives = [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
    assert set(directives) <= set(policy.split("; "))
    assert "unsafe" not in policy
    refused = page.evaluate("""() => {
        const tried = [];
        try { document.body.innerHTML = "<b>x</b>"; } catch (error) { tried.push(error.name); }
        const script = document.createElement("script");
        try { script.text = "document.title = 'taken'"; document.body.append(script); }
        catch (error) { tried.push(error.name); }
        return tried;
    }""")
    assert (refused, page.title()) == (["TypeError", "TypeError"], "Shared tables")


def test_files_are_cached_and_revalidated_with_etags(provider: Provider) -> None:
    first = httpx.get(f"{provider.endpoint}/explore/page.js")
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    again = httpx.get(f"{provider.endpoint}/explore/page.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for name in ("..%2Fapp.py", "app.py", "nothing.js"):
        answer = httpx.get(f"{provider.endpoint}/explore/{name}")
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_page_works_by_keyboard(page: Page, provider: Provider, shared: Callable[[str], Shared]) -> None:
    table = shared("plain")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type(provider.readers["reader"].token)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Find a table")).to_be_focused()
    page.keyboard.type(table.name)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#grid")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("() => document.activeElement.getAttribute('role')") == "tab":
            break
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Columns")).to_be_focused()
    expect(page.locator("#fields")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_page_meets_wcag(
    browser: Browser, provider: Provider, shared: Callable[[str], Shared], scheme: Any, width: int
) -> None:
    table = shared("change_feed")
    size: Any = {"width": width, "height": 800}
    with open_page(browser, f"{provider.endpoint}/explore", color_scheme=scheme, viewport=size) as page:
        assert broken_rules(page) == []
        sign_in(page, provider)
        choose(page, table.name)
        page.get_by_role("button", name="Add a filter").click()
        for tab in ("Rows", "Columns", "Changes", "In code"):
            page.get_by_role("tab", name=tab).click()
            if tab == "Changes":
                page.get_by_role("button", name="Show changes").click()
                expect(page.locator("#changed-count")).not_to_be_empty()
            assert broken_rules(page) == [], tab
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"


@pytest.fixture
def download_page(browser: Browser, provider: Provider) -> Iterator[Page]:
    with open_page(browser, "about:blank") as page:
        page.add_init_script(WITHOUT_PICKER)
        page.goto(f"{provider.endpoint}/explore")
        sign_in(page, provider)
        yield page


def test_csv_has_every_digit_and_formulas_are_escaped_on_request(download_page: Page, hostile: str) -> None:
    page = download_page
    choose(page, hostile)
    rows = list(csv.reader(io.StringIO(save_file(page, "CSV").decode(), newline="")))
    assert rows == [["__proto__", HOSTILE], ["1", HOSTILE], ["2", "=1+1"]]
    expect(page.locator("#done")).to_contain_text("2 rows written. 1 texts begin with")
    page.get_by_label("escape formulas").check()
    assert save_file(page, "CSV").decode().endswith("2,'=1+1\r\n")


@pytest.mark.parametrize("name", ["all_types", "everything", "partitioned_types", "timestamp_ntz", "type_widening"])
def test_parquet_download_has_the_same_rows_as_in_spark(
    download_page: Page, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    download_page.reload()
    download_page.set_input_files("#file", str(table.profile))
    choose(download_page, table.name)
    received = pq.read_table(io.BytesIO(save_file(download_page, "Parquet")))
    expected = table.rows(table.golden.versions[-1])
    same = received.cast(expected.schema)
    assert sorted(map(repr, same.to_pylist())) == sorted(map(repr, expected.to_pylist()))
