"""Test the grid at /explore: more rows, the order by a column, counts, and how smoothly it scrolls."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from browser.conftest import broken_rules, open_page
from browser.test_page import choose, column
from client.golden_shares import Shared
from client.provider import Provider
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("tables")]

ROWS = 100_500
COLUMNS = 300
SHIFTS = """
    window.shifts = [];
    const add = (entry) => shifts.push({value: entry.value, recent: entry.hadRecentInput});
    new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({type: "layout-shift", buffered: true});
"""
SCROLL = """async () => {
    const grid = document.getElementById("grid");
    for (let step = 0; step <= 60; step++) {
        grid.scrollTop = grid.scrollHeight * step / 60;
        await new Promise(requestAnimationFrame);
    }
}"""


@pytest.fixture(scope="module")
def tables(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Share a long table, a wide one, one of many files, and one with values that are hard to sort."""
    folder = tmp_path_factory.mktemp("rows")
    words = ["b", None, "\N{GRINNING FACE}", "a", "\N{FULLWIDTH LATIN SMALL LETTER A}", "two\nlines", "a"]
    content = {
        "long": pa.table({"id": range(ROWS), "name": [f"customer {number % 5000}" for number in range(ROWS)]}),
        "wide": pa.table({f"c{at}": [f"{row}.{at}" for row in range(100)] for at in range(COLUMNS)}),
        "words": pa.table({
            "at": range(len(words)),
            "word": pa.array(words),
            "number": [None, 2**62, -5, 9, 10, 2**62 + 1, 0],
            "list": [[3], [20], None, [1], [1, 2], [], [4]],
        }),
    }  # fmt: skip
    for name, table in content.items():
        deltalake.write_deltalake(str(folder / name), table)
    for number in range(60):
        deltalake.write_deltalake(str(folder / "files"), pa.table({"n": [number, number]}), mode="append")
    for name in [*content, "files"]:
        provider.put(name, folder / name)


@pytest.fixture
def signed_in(page: Page, provider: Provider) -> Page:
    page.set_input_files("#file", str(provider.profile))
    return page


def press_header(page: Page, name: str) -> None:
    page.locator("#grid th").filter(has_text=name).get_by_role("button").click()


def test_more_rows_are_read_page_by_page_up_to_the_limit(signed_in: Page) -> None:
    page = signed_in
    choose(page, "long")
    expect(page.locator("#count")).to_have_text("The first 200 rows at version 0.")
    expect(page.locator("#facts")).to_contain_text(f"{ROWS:,}")
    page.get_by_role("button", name="More rows").click()
    expect(page.locator("#count")).to_contain_text("The first 400 rows")
    press_header(page, "id")
    press_header(page, "id")
    expect(page.locator("#count")).to_contain_text("Sorted by id, descending (only these rows).")
    assert column(page, 1)[0] == "399"
    page.get_by_role("button", name="Up to 100,000 rows").click()
    expect(page.locator("#count")).to_contain_text("The first 100,000 rows", timeout=30_000)
    expect(page.get_by_role("button", name="More rows")).to_be_disabled()
    assert column(page, 1)[0] == "99999"
    press_header(page, "id")
    page.locator("#grid").press("End")
    expect(page.locator("#grid tbody tr").last).to_have_attribute("aria-rowindex", "100001")
    assert column(page, 1)[-1] == "99999"
    assert page.locator("#grid tbody tr").count() < 60
    assert broken_rules(page) == []


def test_table_of_many_files_is_counted_and_read_to_its_end(signed_in: Page) -> None:
    page = signed_in
    choose(page, "files")
    expect(page.locator("#facts")).to_contain_text("Rows 120", use_inner_text=True)
    expect(page.locator("#count")).to_have_text("All 120 rows at version 59.")
    assert page.locator("#grid table").get_attribute("aria-rowcount") == "121"


def test_deleted_rows_are_not_counted(page: Page, provider: Provider, shared: Callable[[str], Shared]) -> None:
    table = shared("deletion_vectors")
    page.set_input_files("#file", str(provider.profile))
    choose(page, table.name)
    rows = table.rows(table.golden.versions[-1]).num_rows
    expect(page.locator("#facts div").first.locator("dd")).to_have_text(str(rows))


@pytest.mark.parametrize(
    ("name", "ascending", "descending"),
    [
        ("word", [3, 6, 0, 5, 4, 2, 1], [2, 4, 5, 0, 3, 6, 1]),
        ("number", [2, 6, 3, 4, 1, 5, 0], [5, 1, 4, 3, 6, 2, 0]),
        ("list", [4, 3, 1, 0, 6, 5, 2], [5, 6, 0, 1, 3, 4, 2]),
    ],
)
def test_header_sorts_rows(signed_in: Page, name: str, ascending: list[int], descending: list[int]) -> None:
    page = signed_in
    choose(page, "words")
    for expected, state in ((ascending, "ascending"), (descending, "descending"), (list(range(7)), None)):
        press_header(page, name)
        head = page.locator("#grid th").filter(has_text=name)
        assert (list(map(int, column(page, 1))), head.get_attribute("aria-sort")) == (expected, state)
    assert "two↵lines" in column(page, 2)


def test_columns_of_a_wide_table_are_below_their_heads(signed_in: Page) -> None:
    page = signed_in
    choose(page, "wide")
    page.locator("#grid").evaluate("grid => grid.scrollLeft = grid.scrollWidth")
    cell = page.locator("#grid tbody tr").first.locator("td").last
    expect(cell).to_have_text(f"0.{COLUMNS - 1}")
    left = "element => element.getBoundingClientRect().left"
    assert page.locator("#grid th").last.evaluate(left) == page.locator("#grid tbody td").last.evaluate(left)


def test_nothing_moves_and_no_task_is_long_while_rows_scroll(browser: Browser, provider: Provider) -> None:
    size: Any = {"width": 1280, "height": 800}
    with open_page(browser, "about:blank", viewport=size) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"{provider.endpoint}/explore")
        page.set_input_files("#file", str(provider.profile))
        expect(page.locator("#look")).to_be_visible()
        started = time.monotonic()
        choose(page, "long")
        print(f"first rows after {time.monotonic() - started:.2f} s at a load of {os.getloadavg()[0]:.1f}")  # noqa: T201 -- a figure
        page.get_by_role("button", name="Up to 100,000 rows").click()
        expect(page.locator("#count")).to_contain_text("The first 100,000 rows", timeout=30_000)
        browser.start_tracing(page=page, categories=["toplevel"])
        page.evaluate(SCROLL)
        longest = longest_task(browser.stop_tracing())
        for tab in ("Columns", "In code", "Rows"):
            page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(600)  # later shifts do not count as the user's
        page.get_by_role("button", name="Show rows").click()
        expect(page.locator("#count")).to_contain_text("The first 200 rows")
        shifts = page.evaluate("() => shifts")
    assert sum(shift["value"] for shift in shifts if not shift["recent"]) < 0.05
    assert 0 < longest < 200


def test_no_task_is_long_while_a_wide_table_is_read_and_scrolls(browser: Browser, signed_in: Page) -> None:
    expect(signed_in.locator("#look")).to_be_visible()
    browser.start_tracing(page=signed_in, categories=["toplevel"])
    choose(signed_in, "wide")
    signed_in.evaluate(SCROLL)
    signed_in.evaluate(SCROLL.replace("scrollTop", "scrollLeft").replace("scrollHeight", "scrollWidth"))
    assert 0 < longest_task(browser.stop_tracing()) < 200
    assert signed_in.locator("#grid td").count() < 2000


def longest_task(trace: bytes) -> float:
    """Return the CPU milliseconds of the page's longest task, which a busy machine does not change."""
    events = json.loads(trace)["traceEvents"]
    names = [event for event in events if event["name"] == "thread_name"]
    main = {(event["pid"], event["tid"]) for event in names if event["args"]["name"] == "CrRendererMain"}
    tasks = (event for event in events if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in main)
    return float(max(task.get("tdur", 0) for task in tasks)) / 1000
