"""The operator's console in Chromium: by its link, without JavaScript, by keyboard alone, by axe, with hostile text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.conftest import broken_rules, opened
from client.provider import SCHEMA, SHARE, Provider
from console.conftest import HOSTILE, Visitor, command, visitor, write_orders
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

ORDERS = f"{SHARE}.{SCHEMA}.console_orders"
ABOUT = f"table={ORDERS}"
PAGES = (
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
    "/ends",
    "/findings",
    "/action?action=invite&recipient=reader",
    "/action?action=cut-off&recipient=reader",
    "/nowhere",
)


@pytest.fixture(scope="module")
def links(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Return a console that nobody has entered, over a server with a table of hostile text."""
    folder = tmp_path_factory.mktemp("console")
    write_orders(folder / "orders")
    provider.put("console_orders", folder / "orders", history=True)
    provider.admin.shares.create("hostile", comment=HOSTILE)
    provider.admin.recipients.create("hostile", comment=HOSTILE)
    for name in ("holder_1", "holder_2"):  # links below each other
        provider.admin.recipients.create(name)
        provider.admin.grants.create(name, SHARE)
    with command(provider.environment) as link:
        found = visitor(link)
        with found.http:
            yield found


@pytest.fixture(scope="module")
def let_in(links: Visitor, browser: Browser) -> Iterator[Page]:
    """Return a page that its link has let in."""
    with opened(browser, links.link) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Shares")
        yield page


def show(page: Page, links: Visitor, path: str) -> None:
    """Go to a page, and wait until it does not ask again by itself."""
    page.goto(f"{links.address}{path}")
    expect(page.locator("progress")).to_have_count(0, timeout=60_000)


def tab_to(page: Page, role: str, name: str) -> None:
    """Press Tab until the focus is there."""
    wanted = page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]  # a role
    for _ in range(100):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"no Tab leads to the {role} {name}")


def test_the_link_lets_in_and_its_key_is_left_nowhere(let_in: Page, links: Visitor) -> None:
    assert let_in.url == f"{links.address}/shares"
    assert links.key not in let_in.content()
    assert let_in.evaluate("document.cookie") == ""
    let_in.go_back()
    assert links.key not in let_in.url
    let_in.goto(links.link)  # the session goes on, and no key is asked for
    expect(let_in.get_by_role("heading", level=1)).to_have_text("Shares")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_as_wcag_wants_it_and_takes_text_as_text(let_in: Page, links: Visitor, path: str) -> None:
    show(let_in, links, path)
    assert broken_rules(let_in) == []
    assert let_in.locator("img").count() == 0
    assert let_in.title().endswith("Deltaic console")


def test_dark_and_narrow_it_is_as_wcag_wants_it_too(let_in: Page, links: Visitor) -> None:
    let_in.emulate_media(color_scheme="dark")
    let_in.set_viewport_size({"width": 360, "height": 700})
    for path in (f"/table?{ABOUT}", f"/versions?{ABOUT}", "/recipient?recipient=reader", PAGES[-2]):
        show(let_in, links, path)
        assert broken_rules(let_in) == []
        assert let_in.evaluate("document.documentElement.scrollWidth <= innerWidth")
    show(let_in, links, f"/versions?{ABOUT}")
    plot = let_in.locator("figure svg").first
    assert plot.evaluate("one => one.getBoundingClientRect().width >= one.viewBox.baseVal.width"), (
        "a plot is moved aside, not made small"
    )
    let_in.emulate_media(color_scheme="light")
    let_in.set_viewport_size({"width": 1280, "height": 720})


def test_somebody_is_invited_by_keyboard_alone(let_in: Page, links: Visitor, provider: Provider) -> None:
    page = let_in
    provider.admin.recipients.create("gina")
    show(page, links, "/shares")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
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
    assert f"{provider.endpoint}/activate/" in page.get_by_label("What the command answers").inner_text()
    assert broken_rules(page) == []
    assert "activate" not in page.url
    page.reload()
    expect(page.get_by_role("alert")).to_be_visible()
    assert len(provider.admin.invitations.list(provider.admin.recipients.get("gina").id)) == 1


def test_without_javascript_the_key_is_typed_and_everything_is_read(browser: Browser, provider: Provider) -> None:
    with command(provider.environment) as link, browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("Deltaic console")
        page.get_by_label("Key").fill(link.partition("#")[2])
        page.get_by_role("button", name="Enter").click()
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
        page.get_by_role("button", name="Leave").click()
        expect(page.get_by_label("Key")).to_be_visible()


def test_no_other_page_frames_it(browser: Browser, links: Visitor, tmp_path: Path) -> None:
    framing = tmp_path / "page.html"
    framing.write_text(f'<title>x</title><iframe src="{links.address}/"></iframe>')
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(framing.as_uri())
        assert page.frames[-1].locator("form").count() == 0
