"""The page has of every table the rows that Spark read, at each version, and of every feed the changes."""

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow.compute as pc
import pytest
from browser.conftest import opened
from browser.plain_values import READ, rows_of
from client.golden_shares import CHANGE_FEEDS, Shared
from client.provider import Provider
from golden.library import names
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

UNSHOWN = {"variant": ["v"], "variant_shredded": ["v"]}
"""Columns that the page names and does not show, by table."""


@pytest.fixture(scope="module")
def reader(browser: Browser, provider: Provider) -> Iterator[Page]:
    """Return one page whose modules read all tables."""
    with opened(browser, f"{provider.endpoint}/explore") as page:
        yield page


@pytest.mark.parametrize("name", names())
def test_every_version_has_the_rows_that_spark_read(
    reader: Page, provider: Provider, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    latest = table.golden.versions[-1]
    for version in table.golden.versions:
        asked = version if version < latest else None
        token = provider.readers["reader"].token
        found = reader.evaluate(READ, {"token": token, "name": table.name, "version": asked, "changes": False})
        assert "error" not in found, (version, found)
        expected = table.rows(version).drop_columns(UNSHOWN.get(name, []))
        assert found["columns"] == expected.column_names
        wanted, seen = Counter(rows_of(expected)), Counter(found["rows"])
        assert wanted == seen, f"version {version}: not Spark's {seen - wanted}, only Spark's {wanted - seen}"


@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_the_changes_of_every_version_are_what_spark_read(
    reader: Page, provider: Provider, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    changes = table.golden.changes()
    for version in range(table.golden.change_range[0], table.golden.change_range[1] + 1):
        token = provider.readers["reader"].token
        found = reader.evaluate(READ, {"token": token, "name": table.name, "version": version, "changes": True})
        assert "error" not in found, (version, found)
        expected = changes.filter(pc.equal(changes["_commit_version"], version))
        # The feed of a range has the columns of its end; the page asks for one version.
        kinds = expected["_change_type"]
        expected = expected.select([*found["columns"]]).append_column("_change_type", kinds)
        wanted, seen = Counter(rows_of(expected)), Counter(found["rows"])
        assert wanted == seen, f"version {version}: not Spark's {seen - wanted}, only Spark's {wanted - seen}"
