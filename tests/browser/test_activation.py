"""Test the page of an activation link: a recipient gets a profile once, and then sees rows."""

import base64
import json
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import pytest
from browser.conftest import broken_rules, open_page
from client.golden_shares import Shared
from client.provider import SCHEMA, SHARE, Provider
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("orders")]

DONE = "Your profile is ready"
EXPIRED = "This link no longer works"


@pytest.fixture(scope="module")
def orders(shared: Any) -> Shared:
    """Return a table that is shared before the invitations."""
    table: Shared = shared("plain")
    return table


def create_link(provider: Provider, name: str) -> str:
    """Create a recipient of the share, and return its link."""
    recipient = provider.admin.recipients.create(name)
    provider.admin.grants.create(name, SHARE)
    return provider.admin.invitations.create(recipient, provider.endpoint).link


def save(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("link", name="Save").click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def test_link_leads_to_rows_without_other_credentials(
    browser: Browser, provider: Provider, orders: Shared, tmp_path: Path
) -> None:
    with open_page(browser, create_link(provider, "alice")) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Data shared with alice")
        page.get_by_role("button", name="Create the profile").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(DONE)
        file = save(page, tmp_path)
        assert file.name == "alice.share"
        profile = json.loads(file.read_text())
        assert (profile["shareCredentialsVersion"], profile["endpoint"]) == (1, provider.endpoint)
        assert profile["bearerToken"] not in page.inner_text("body")
        assert profile["bearerToken"] not in page.url
        with page.expect_popup() as popup:
            page.get_by_role("link", name="open it in the browser").click()
        popup.value.wait_for_load_state()
        popup.value.set_input_files("#file", str(file))
        expect(popup.value.locator("#tree summary")).to_have_text(SHARE)
        assert page.context.cookies() == []
    assert len(delta_sharing.load_as_pandas(f"{file}#{SHARE}.{SCHEMA}.{orders.name}")) > 0


def use_profile(provider: Provider, page: Page) -> None:
    """Read once with the profile of a page."""
    data = page.get_by_role("link", name="Save").get_attribute("href")
    assert data is not None
    token = json.loads(base64.b64decode(data.partition(",")[2]))["bearerToken"]
    answer = httpx.get(f"{provider.endpoint}/shares", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200


def test_link_stops_working_after_the_first_read(browser: Browser, provider: Provider) -> None:
    link = create_link(provider, "bob")
    with open_page(browser, link) as page:
        page.reload()
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(DONE)
        use_profile(provider, page)
        answer = page.goto(link)
        assert answer is not None
        assert answer.status == 410
        expect(page.get_by_role("heading", level=1)).to_have_text(EXPIRED)
        page.go_back()
        expect(page.get_by_role("heading", level=1)).not_to_have_text(DONE)


def test_two_tabs_get_the_same_profile(browser: Browser, provider: Provider) -> None:
    link = create_link(provider, "carol")
    with open_page(browser, link) as first, open_page(browser, link) as second:
        for page in (first, second):
            page.get_by_role("button").click(no_wait_after=True)
        titles = set()
        for page in (first, second):
            page.wait_for_function("document.title != 'Data shared with carol'")
            titles.add(page.title())
    assert titles == {"Your profile"}
    assert len(provider.admin.tokens.list(provider.admin.recipients.get("carol").id)) == 1


def test_page_works_by_keyboard(browser: Browser, provider: Provider) -> None:
    with open_page(browser, create_link(provider, "dave")) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(DONE)
        page.keyboard.press("Tab")
        with page.expect_download() as download:
            page.keyboard.press("Enter")
        assert download.value.suggested_filename == "dave.share"


def test_names_are_escaped(browser: Browser, provider: Provider) -> None:
    name = "<img/src=x onerror=alert(1)>".replace(" ", "\N{NO-BREAK SPACE}").replace("/", "\N{FRACTION SLASH}")
    with open_page(browser, create_link(provider, name)) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Data shared with {name}")
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(DONE)
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script").count() == 1


def test_code_is_copied(browser: Browser, provider: Provider) -> None:
    with open_page(browser, create_link(provider, "copy"), permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_role("button", name="Create the profile").click()
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator("pre").first.text_content()
        assert "load_as_pandas" in copied


@pytest.mark.parametrize(("scheme", "size"), [("light", (1280, 900)), ("dark", (360, 740))], ids=["desktop", "phone"])
def test_every_page_meets_wcag(browser: Browser, provider: Provider, scheme: str, size: tuple[int, int]) -> None:
    link = create_link(provider, f"erin-{scheme}-{size[0]}")
    options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": size[0], "height": size[1]}}
    with open_page(browser, link, **options) as page:
        for heading in (f"Data shared with erin-{scheme}-{size[0]}", DONE, EXPIRED):
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            for summary in page.locator("summary").all():
                summary.click()
            assert broken_rules(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            if heading == DONE:
                use_profile(provider, page)
                page.goto(link)
            elif heading != EXPIRED:
                page.get_by_role("button").click()
