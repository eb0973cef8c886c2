"""Test that the page at /explore shows an Iceberg table, whose columns it finds by field id after a rename."""

from typing import Any, Final

import pyarrow as pa
import pytest
from browser.test_page import choose, column
from client.provider import SCHEMA, SHARE, Provider
from deltaic_ops.local.resources import DATA_BUCKET
from iceberg_clients.tables import glue_writer
from playwright.sync_api import Page, expect
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

pytestmark = pytest.mark.browser

LOCATION: Final = f"s3://{DATA_BUCKET}/explored"
OPTIONS: Final[dict[str, Any]] = {"format": "iceberg", "metadata_location": "glue://explored/orders", "history": True}


def test_rows_of_a_renamed_column_are_shown(page: Page, provider: Provider) -> None:
    writer = glue_writer(provider)
    writer.create_namespace("explored")
    columns = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "country", StringType()), NestedField(3, "note", StringType())
    )
    by_country = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))
    table = writer.create_table("explored.orders", columns, LOCATION, by_country)
    table.append(pa.table({"id": [1, 2, 3], "country": ["FI", None, "PL"], "note": ["a", "b", "c"]}))
    with table.update_schema() as update:
        update.rename_column("note", "remark")
    table.append(pa.table({"id": [4], "country": ["FI"], "remark": ["d"]}))
    table.delete("id = 3")
    provider.admin.tables.create(SHARE, SCHEMA, "explored", LOCATION, access_modes=("url",), **OPTIONS)
    page.set_input_files("#file", str(provider.profile))
    choose(page, "explored")
    expect(page.locator("#count")).to_have_text("All 3 rows at version 3.")
    heads = page.locator("#grid th").all_inner_texts()
    assert [name in head for name, head in zip(("id", "country", "remark"), heads, strict=True)] == [True] * 3
    shown = sorted(zip(column(page, 1), column(page, 3), strict=True))
    assert shown == [("1", "a"), ("2", "b"), ("4", "d")]
