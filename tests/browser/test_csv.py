"""The page's CSV download and `deltaic pull` write the same bytes, by the rules in docs/recipients.md."""

from collections.abc import Iterator

import pytest
from browser.conftest import open_page
from browser.test_page import WITHOUT_PICKER, choose, save_file, sign_in
from client.provider import Provider
from playwright.sync_api import Browser, Page
from pull.csv_table import EXPECTED, guarded, write_table

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def csv_page(browser: Browser, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return the page with the table of which tests/pull/test_csv.py downloads the same bytes."""
    folder = tmp_path_factory.mktemp("csv") / "table"
    write_table(folder)
    provider.put("csv", folder)
    with open_page(browser, "about:blank") as page:
        page.add_init_script(WITHOUT_PICKER)
        page.goto(f"{provider.endpoint}/explore")
        sign_in(page, provider)
        choose(page, "csv")
        yield page


def test_download_has_the_documented_bytes(csv_page: Page) -> None:
    assert save_file(csv_page, "CSV") == EXPECTED


def test_download_with_escaped_formulas_has_the_documented_bytes(csv_page: Page) -> None:
    csv_page.get_by_label("escape formulas").check()
    assert save_file(csv_page, "CSV") == guarded()
