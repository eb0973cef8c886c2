"""Selection and order of the locations that need a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.errors import NotFound

if TYPE_CHECKING:
    from catalog.conftest import Catalog


@pytest.fixture
def filled(catalog: Catalog) -> Catalog:
    """Return a catalog with tables in two shares."""
    admin = catalog.admin
    admin.storages.create("minio", endpoint="https://minio.example", role_arn="arn:aws:iam::111111111111:role/lake")
    for share in ("one", "Two"):
        admin.shares.create(share)
        admin.schemas.create(share, "s")
    admin.tables.create("one", "s", "a", "s3a://bucket/a/", checkpoint=True)
    admin.tables.create("one", "s", "b", "s3://bucket/b")
    admin.tables.create("Two", "s", "a", "s3://bucket/a", checkpoint=True)
    admin.tables.create("Two", "s", "c", "s3://bucket/c", checkpoint=True, storage="minio")
    admin.tables.create("Two", "s", "d", "s3://bucket/c", checkpoint=True)
    return catalog


A, C_ELSEWHERE, C = (
    SharedLocation("s3://bucket/a", ""),
    SharedLocation("s3://bucket/c", "minio"),
    SharedLocation("s3://bucket/c", ""),
)


def test_each_location_is_listed_once(filled: Catalog) -> None:
    locations = SharedLocations(filled.catalog_table, filled.dynamo).due_for_checkpoint()
    assert len(locations) == 3
    assert set(locations) == {A, C, C_ELSEWHERE}


def test_location_without_a_check_for_longest_comes_first(filled: Catalog) -> None:
    now = 1_700_000_000.0
    checkpointing = SharedLocations(filled.catalog_table, filled.dynamo, lambda: now)
    for location in (C_ELSEWHERE, A, C):
        checkpointing.record_check(location)
        now += 1
    assert checkpointing.due_for_checkpoint() == [C_ELSEWHERE, A, C]
    checkpointing.record_check(A)
    assert checkpointing.due_for_checkpoint() == [C_ELSEWHERE, C, A]
    filled.admin.tables.create("one", "s", "new", "s3://bucket/new", checkpoint=True)
    assert checkpointing.due_for_checkpoint()[0] == SharedLocation("s3://bucket/new", "")


def test_deleted_share_is_skipped(filled: Catalog) -> None:
    filled.admin.shares.delete("Two", force=True)
    assert SharedLocations(filled.catalog_table, filled.dynamo).due_for_checkpoint() == [A]


def test_storage_is_found_by_its_name(filled: Catalog) -> None:
    checkpointing = SharedLocations(filled.catalog_table, filled.dynamo)
    assert checkpointing.storage("minio").endpoint == "https://minio.example"
    with pytest.raises(NotFound, match="'ceph'"):
        checkpointing.storage("ceph")
