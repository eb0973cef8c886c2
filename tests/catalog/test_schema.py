"""Creation of the tables without a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog import schema

if TYPE_CHECKING:
    from catalog.conftest import Catalog

KEYS = [
    {"AttributeName": schema.PARTITION_KEY, "KeyType": "HASH"},
    {"AttributeName": schema.SORT_KEY, "KeyType": "RANGE"},
]


def test_creating_the_tables_again_changes_nothing(catalog: Catalog) -> None:
    catalog.admin.shares.create("kept")
    schema.create(catalog.dynamo.client, catalog.catalog_table, catalog.tokens_table)
    assert [share.name for share in catalog.admin.shares.list()] == ["kept"]
    description = catalog.dynamo.client.describe_table(TableName=catalog.catalog_table)["Table"]
    assert description["KeySchema"] == KEYS
