"""Checks of overlapping folders with buckets of the stack, access points and addresses of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic.catalog.buckets import Buckets
from deltaic.errors import InvalidParameter
from deltaic_ops.checks.doctor.filters import check_folder_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog
    from deltaic.storage.locations import AccessPoint

POINT = "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/partner"
UNKNOWN = "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/elsewhere"
ALIAS = "s3://partner-abcdefghijklmnopqrstuvwxyz0123456-s3alias"
ROWS: dict[str, Any] = {"partition_filter": "region = 'EU'"}
OWN = "deltaic-icebergbucket"


def bucket_of(point: AccessPoint) -> str:
    return "lake" if point.name == "partner" else ""


@pytest.fixture
def admin(catalog: Catalog) -> CatalogAdmin:
    """Return a catalog with a share, one known bucket of the stack and one known access point."""
    buckets = Buckets(stack_buckets=lambda: {OWN}, bucket_of=bucket_of)
    admin = CatalogAdmin(catalog.catalog_table, catalog.tokens_table, catalog.dynamo, buckets=buckets)
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    return admin


SHARED: list[Any] = [
    pytest.param(lambda admin, location: admin.tables.create("s", "d", "t", location), id="table"),
    pytest.param(
        lambda admin, location: admin.tables.create("s", "d", "t", "s3://lake", auxiliary_locations=[location]),
        id="auxiliary location",
    ),
    pytest.param(lambda admin, location: admin.tables.update("s", "d", "there", location=location), id="moved table"),
    pytest.param(lambda admin, location: admin.volumes.create("s", "d", "v", location), id="volume"),
    pytest.param(lambda admin, location: admin.volumes.update("s", "d", "there", location=location), id="moved volume"),
    pytest.param(
        lambda admin, location: admin.skills.create("s", "d", "a", f"{location}/a", facts={"description": "a"}),
        id="skill",
    ),
    pytest.param(lambda admin, location: admin.models.add_version("s", "d", "m", 1, location), id="model version"),
]


@pytest.mark.parametrize("share", SHARED)
def test_bucket_of_the_stack_cannot_be_shared(
    catalog: Catalog, admin: CatalogAdmin, share: Callable[[CatalogAdmin, str], Any]
) -> None:
    admin.tables.create("s", "d", "there", "s3://lake/t")
    admin.volumes.create("s", "d", "there", "s3://lake/v")
    admin.models.create("s", "d", "m")
    before = catalog.items()
    with pytest.raises(
        InvalidParameter, match=rf"the bucket '{OWN}', which contains files of the stack itself: name a folder"
    ):
        share(admin, f"s3a://{OWN}/metadata")
    assert catalog.items() == before
    share(admin, f"s3://{OWN}-of-others/metadata")


def test_access_point_is_compared_by_its_bucket(admin: CatalogAdmin) -> None:
    admin.tables.create("s", "d", "t", "s3://lake/t", **ROWS)
    with pytest.raises(InvalidParameter, match=r"'s\.d\.v' shares all files in"):
        admin.volumes.create("s", "d", "v", POINT)
    admin.tables.delete("s", "d", "t")
    # An access point belongs to AWS, even if the entry names another storage.
    admin.storages.create("minio", endpoint="http://minio:9000")
    admin.volumes.create("s", "d", "v", f"{POINT}/t/x", storage="minio")
    with pytest.raises(InvalidParameter, match=r"'s\.d\.v' shares all files in"):
        admin.tables.create("s", "d", "t", "s3://lake/t", **ROWS)
    admin.tables.create("s", "d", "t", "s3://lake/u", **ROWS)
    assert list(admin.tables.overlaps.incomparable()) == []


def test_unknown_access_point_is_reported(admin: CatalogAdmin) -> None:
    admin.tables.create("s", "d", "part", "s3://lake/t", **ROWS)
    admin.tables.create("s", "d", "plain", f"{UNKNOWN}/plain")
    for name, location in (("known", f"{POINT}/v"), ("point", UNKNOWN), ("alias", ALIAS)):
        admin.volumes.create("s", "d", name, location)
    findings = list(check_folder_access(admin.tables.overlaps.conflicts(), admin.tables.overlaps.incomparable()))
    assert [finding.verdict for finding in findings] == ["warning", "warning"]
    assert [finding.message.partition(":")[0] for finding in findings] == [
        "cannot check s.d.alias",
        "cannot check s.d.point",
    ]


def test_storage_cannot_move_to_a_store_with_a_filtered_table(catalog: Catalog, secrets_manager: Any) -> None:
    admin = CatalogAdmin(catalog.catalog_table, catalog.tokens_table, catalog.dynamo, lambda: secrets_manager)
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    admin.storages.create("minio", endpoint="http://127.0.0.1:9000")
    storage = admin.storages.create("other", endpoint="http://other:9000", access_keys=AccessKeys("id", "first"))
    admin.volumes.create("s", "d", "v", "s3://lake", storage="other")
    admin.tables.create("s", "d", "t", "s3://lake/t", storage="minio", **ROWS)
    changes: list[dict[str, Any]] = [
        {"endpoint": "http://localhost:9000"},
        {"public_endpoint": "http://LOCALHOST.:9000/"},
    ]
    for change in changes:
        with pytest.raises(InvalidParameter, match=r"'s\.d\.v' shares all files in s3://lake"):
            admin.storages.update("other", access_keys=AccessKeys("id", "second"), **change)
        assert admin.storages.get("other") == storage
    assert "first" in secrets_manager.get_secret_value(SecretId=storage.secret)["SecretString"]
    assert admin.storages.update("other", endpoint="http://localhost:9001").endpoint == "http://localhost:9001"
    admin.volumes.delete("s", "d", "v")
    admin.storages.delete("other")
