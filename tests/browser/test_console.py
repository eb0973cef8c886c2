"""Test the operator's console in Chromium: sign-in, keyboard, accessibility, hostile text, without JavaScript."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.conftest import broken_rules, open_page
from client.provider import SCHEMA, SHARE, Provider
from console.conftest import HOSTILE, PATIENCE_SECONDS, Visitor, open_visitor, run_console, write_orders
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

ORDERS = f"{SHARE}.{SCHEMA}.console_orders"
ABOUT = f"table={ORDERS}"
IN_SCHEMA = f"share={SHARE}&schema={SCHEMA}"
PAGES = (
    "/start",
    "/search?q=o",
    "/search?q=nothing+has+this",
    "/shares",
    f"/share?share={SHARE}",
    f"/schema?share={SHARE}&schema={SCHEMA}",
    f"/holders?share={SHARE}",
    f"/table?{ABOUT}",
    f"/versions?{ABOUT}",
    f"/partitions?{ABOUT}",
    f"/preview?{ABOUT}",
    f"/preview?{ABOUT}&recipient=reader",
    "/recipients",
    "/recipient?recipient=reader",
    "/seen?recipient=reader",
    "/usage",
    "/views",
    "/findings",
    "/action?action=create-share",
    f"/action?action=create-schema&share={SHARE}",
    f"/action?action=create-table&{IN_SCHEMA}",
    f"/action?action=create-table&{IN_SCHEMA}&planned=yes&name=new&location=s3://deltaic-lake/none",
    f"/action?action=load-table&{IN_SCHEMA}",
    f"/action?action=create-view&{IN_SCHEMA}",
    f"/action?action=create-volume&{IN_SCHEMA}",
    "/action?action=create-recipient",
    "/action?action=create-recipient&planned=yes&name=new",
    "/action?action=invite&recipient=reader",
    "/action?action=cut-off&recipient=reader",
    "/nowhere",
)


@pytest.fixture(scope="module")
def visitor(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Return a visitor of a console before sign-in, over a server with a table of hostile text."""
    folder = tmp_path_factory.mktemp("console")
    write_orders(folder / "orders")
    provider.put("console_orders", folder / "orders", history=True)
    provider.admin.shares.create("hostile", comment=HOSTILE)
    provider.admin.recipients.create("hostile", comment=HOSTILE)
    for name in ("holder_1", "holder_2"):  # two links in a list
        provider.admin.recipients.create(name)
        provider.admin.grants.create(name, SHARE)
    with run_console(provider.environment) as link:
        visitor = open_visitor(link)
        with visitor.http:
            yield visitor


@pytest.fixture(scope="module")
def signed_in(visitor: Visitor, browser: Browser) -> Iterator[Page]:
    """Return a page after sign-in with the link."""
    with open_page(browser, visitor.link) as page:
        expect(page.get_by_role("heading", name="Next")).to_be_visible(timeout=60_000)
        yield page


def show(page: Page, visitor: Visitor, path: str) -> None:
    """Go to a page, and wait until it no longer refreshes itself."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    response = page.goto(f"{visitor.address}{path}")
    while response is None or "refresh" in response.headers:
        assert time.monotonic() < deadline
        time.sleep(0.3)
        response = page.reload()


def tab_to(page: Page, role: str, name: str) -> None:
    """Press Tab until the element with this role and name has the focus."""
    element = page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]  # a role
    for _ in range(100):
        if element.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"cannot reach the {role} {name} with Tab")


def test_link_signs_in_and_its_key_is_not_kept(signed_in: Page, visitor: Visitor) -> None:
    assert signed_in.url == f"{visitor.address}/start"
    assert visitor.key not in signed_in.content()
    assert signed_in.evaluate("document.cookie") == ""
    signed_in.go_back()
    assert visitor.key not in signed_in.url
    signed_in.goto(visitor.link)  # the session continues without a new key
    expect(signed_in.get_by_role("heading", name="Next")).to_be_visible(timeout=60_000)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_meets_wcag_and_escapes_text(signed_in: Page, visitor: Visitor, path: str) -> None:
    show(signed_in, visitor, path)
    assert broken_rules(signed_in) == []
    assert signed_in.locator("img").count() == 0
    assert " · Deltaic · " in signed_in.title()
    assert signed_in.locator(".primary").count() <= 1


def test_pages_meet_wcag_in_dark_mode_and_on_narrow_screens(signed_in: Page, visitor: Visitor) -> None:
    signed_in.emulate_media(color_scheme="dark")
    signed_in.set_viewport_size({"width": 360, "height": 700})
    for path in PAGES:
        show(signed_in, visitor, path)
        assert broken_rules(signed_in) == []
        cells = signed_in.locator("td:visible")
        assert cells.evaluate_all("cells => cells.every(cell => cell.getBoundingClientRect().right <= innerWidth)"), (
            path
        )
        assert signed_in.evaluate("document.documentElement.scrollWidth <= innerWidth")
    show(signed_in, visitor, f"/versions?{ABOUT}")
    plot = signed_in.locator("figure svg").first
    assert plot.evaluate("svg => svg.getBoundingClientRect().width >= svg.viewBox.baseVal.width"), (
        "plots must scroll and not shrink"
    )
    signed_in.emulate_media(color_scheme="light")
    signed_in.set_viewport_size({"width": 1280, "height": 720})


def test_recipient_is_invited_by_keyboard(signed_in: Page, visitor: Visitor, provider: Provider) -> None:
    page = signed_in
    provider.admin.recipients.create("gina")
    show(page, visitor, "/shares")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    for role, name in (
        ("link", "Recipients"),
        ("link", "gina"),
        ("link", "Invite"),
        ("button", "Show the plan"),
    ):
        tab_to(page, role, name)
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Invite gina")
    assert "deltaic recipient invite" in page.locator("pre").inner_text()
    tab_to(page, "button", "Do it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Done.", timeout=60_000)
    assert f"{provider.endpoint}/activate/" in page.get_by_label("Output of the command").inner_text()
    assert broken_rules(page) == []
    assert "activate" not in page.url
    page.reload()
    expect(page.get_by_role("alert")).to_be_visible()
    assert len(provider.admin.invitations.list(provider.admin.recipients.get("gina").id)) == 1


def test_refused_form_keeps_its_values_and_focuses_the_field(signed_in: Page, visitor: Visitor) -> None:
    page = signed_in
    show(page, visitor, "/action?action=grant&recipient=gina")
    page.get_by_label("Ends").fill("2099-01-01")
    page.get_by_label("Share").fill(SHARE[:-1])
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"did you mean {SHARE}?")
    expect(page.get_by_label("Share")).to_be_focused()
    expect(page.get_by_label("Share")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Ends")).to_have_value("2099-01-01")
    page.get_by_label("Share").fill(SHARE)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Do it")).to_be_visible()
    assert [*page.locator("pre").all_inner_texts()] == [f"deltaic grant create --ends=2099-01-01 -- gina {SHARE}"]


def test_console_works_without_javascript(browser: Browser, provider: Provider) -> None:
    with run_console(provider.environment) as link, browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("Deltaic console")
        page.get_by_label("Key").fill(link.partition("#")[2])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Shares", exact=True).click()
        page.get_by_role("link", name=SHARE, exact=True).click()
        page.get_by_role("link", name=SCHEMA, exact=True).click()
        page.get_by_role("link", name="console_orders").click()
        expect(page.get_by_text("partitioned by")).to_be_visible(timeout=60_000)
        page.get_by_role("link", name="Versions").click()
        expect(page.get_by_role("img", name="Rows")).to_be_visible(timeout=60_000)
        page.get_by_role("link", name="Rows as a recipient sees them").click()
        page.get_by_role("link", name="reader", exact=True).click()
        page.get_by_role("button", name="Read the first rows").click()
        expect(page.get_by_text("5 rows of version 2")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Key")).to_be_visible()


def test_other_pages_cannot_frame_the_console(browser: Browser, visitor: Visitor, tmp_path: Path) -> None:
    framing = tmp_path / "page.html"
    framing.write_text(f'<title>x</title><iframe src="{visitor.address}/"></iframe>')
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(framing.as_uri())
        assert page.frames[-1].locator("form").count() == 0
