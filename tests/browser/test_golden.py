"""Test that the page reads the same rows and changes as Spark, for each version of each golden table."""

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow.compute as pc
import pytest
from browser.conftest import open_page
from browser.plain_values import READ, rows_of
from client.golden_shares import CHANGE_FEEDS, Shared
from client.provider import Provider
from golden.library import names
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

LOGS = ("checkpoint_", "in_commit_timestamps", "log_compaction", "truncated_log", "row_tracking", "vacuum")
"""Prefixes of tables that differ in their logs, which the page does not read; client/test_golden_lines.py reads all."""

UNSHOWN = {"variant": ["v"], "variant_shredded": ["v"]}
"""Columns that the page names but does not show, by table."""


@pytest.fixture(scope="module")
def reader(browser: Browser, provider: Provider) -> Iterator[Page]:
    """Return a page whose modules read all tables."""
    with open_page(browser, f"{provider.endpoint}/explore") as page:
        yield page


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name.startswith(LOGS) else ()) for name in names()]
)
def test_every_version_has_the_same_rows_as_in_spark(
    reader: Page, provider: Provider, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    latest = table.golden.versions[-1]
    for version in table.golden.versions:
        requested = version if version < latest else None
        token = provider.readers["reader"].token
        result = reader.evaluate(READ, {"token": token, "name": table.name, "version": requested, "changes": False})
        assert "error" not in result, (version, result)
        expected = table.rows(version).drop_columns(UNSHOWN.get(name, []))
        assert result["columns"] == expected.column_names
        expected_rows, rows = Counter(rows_of(expected)), Counter(result["rows"])
        assert expected_rows == rows, (
            f"version {version}: not Spark's {rows - expected_rows}, only Spark's {expected_rows - rows}"
        )


@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_changes_of_every_version_are_the_same_as_in_spark(
    reader: Page, provider: Provider, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    changes = table.golden.changes()
    for version in range(table.golden.change_range[0], table.golden.change_range[1] + 1):
        token = provider.readers["reader"].token
        result = reader.evaluate(READ, {"token": token, "name": table.name, "version": version, "changes": True})
        assert "error" not in result, (version, result)
        expected = changes.filter(pc.equal(changes["_commit_version"], version))
        # The feed of a range has the columns of its last version; the page requests one version.
        kinds = expected["_change_type"]
        expected = expected.select([*result["columns"]]).append_column("_change_type", kinds)
        expected_rows, rows = Counter(rows_of(expected)), Counter(result["rows"])
        assert expected_rows == rows, (
            f"version {version}: not Spark's {rows - expected_rows}, only Spark's {expected_rows - rows}"
        )
