"""Create, update and delete volumes, skills, models and versions, and check overlapping folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltaic.errors import AlreadyExists, Conflict, InvalidParameter, NotFound

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

LAKE = "s3://bucket/lake"
SKILL = {"description": "Reads forms."}


@pytest.fixture
def admin(catalog: Catalog) -> CatalogAdmin:
    catalog.admin.shares.create("Sales")
    catalog.admin.schemas.create("sales", "Europe")
    return catalog.admin


def test_volume_keeps_its_settings_and_is_found_in_any_case(admin: CatalogAdmin) -> None:
    volume = admin.volumes.create("sales", "europe", "Scans", f"{LAKE}/scans/", comment="paper")
    assert (volume.share, volume.schema_name, volume.name, volume.title) == (
        "Sales",
        "Europe",
        "Scans",
        "Sales.Europe.Scans",
    )
    assert (volume.location, volume.access_modes, volume.comment) == (f"{LAKE}/scans", ("url", "dir"), "paper")
    assert admin.volumes.get("SALES", "EUROPE", "sCANS") == volume
    assert list(admin.volumes.list("sales")) == list(admin.volumes.list("sales", "europe")) == [volume]
    changed = admin.volumes.update("sales", "europe", "scans", access_modes=["url"])
    assert (changed.id, changed.comment, changed.access_modes) == (volume.id, "paper", ("url",))
    with pytest.raises(AlreadyExists, match=r"volume 'Sales\.Europe\.SCANS' exists already"):
        admin.volumes.create("sales", "europe", "SCANS", LAKE)
    assert admin.volumes.delete("sales", "europe", "scans") == changed
    with pytest.raises(NotFound, match=r"^volume 'sales\.europe\.scans' not found$"):
        admin.volumes.get("sales", "europe", "scans")


def test_each_kind_has_its_own_names(admin: CatalogAdmin) -> None:
    admin.tables.create("sales", "europe", "a", f"{LAKE}/t")
    admin.volumes.create("sales", "europe", "a", f"{LAKE}/v")
    admin.skills.create("sales", "europe", "a", f"{LAKE}/a", facts=SKILL)
    admin.models.create("sales", "europe", "a")
    assert [len(list(kind.list("sales"))) for kind in (admin.tables, admin.volumes, admin.skills, admin.models)] == [
        1, 1, 1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\nb", "x" * 256])
def test_invalid_volume_name_is_refused(admin: CatalogAdmin, name: str) -> None:
    with pytest.raises(InvalidParameter, match="the volume name"):
        admin.volumes.create("sales", "europe", name, LAKE)
    assert list(admin.volumes.list("sales")) == []


@pytest.mark.parametrize("name", ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "é", "x" * 65])
def test_invalid_skill_name_is_refused(admin: CatalogAdmin, name: str) -> None:
    with pytest.raises(InvalidParameter, match="skill name"):
        admin.skills.create("sales", "europe", name, f"{LAKE}/{name or 'a'}", facts=SKILL)


def test_skill_must_have_the_name_of_its_folder(admin: CatalogAdmin) -> None:
    with pytest.raises(InvalidParameter, match="'read-forms' is in folder 'forms'"):
        admin.skills.create("sales", "europe", "read-forms", f"{LAKE}/forms", facts=SKILL)
    skill = admin.skills.create("sales", "europe", "read-forms", f"{LAKE}/read-forms", facts=SKILL)
    assert skill.description == "Reads forms."
    with pytest.raises(InvalidParameter, match="is in folder 'forms'"):
        admin.skills.update("sales", "europe", "read-forms", location=f"{LAKE}/forms")
    assert admin.skills.update("sales", "europe", "read-forms", facts={"license": "MIT"}).license == "MIT"


def test_model_with_versions_is_deleted_only_by_force(admin: CatalogAdmin) -> None:
    model = admin.models.create("sales", "europe", "churn", comment="who leaves")
    for version in (10, 2):
        admin.models.add_version("sales", "europe", "CHURN", version, f"{LAKE}/churn/{version}", facts={"run_id": "r"})
    assert [entry.version for entry in admin.models.versions("sales", "europe", "churn")] == [2, 10]
    assert admin.models.version("sales", "europe", "churn", 10).run_id == "r"
    with pytest.raises(AlreadyExists, match="churn 2"):
        admin.models.add_version("sales", "europe", "churn", 2, LAKE)
    with pytest.raises(Conflict, match=r"has 2 version\(s\)"):
        admin.models.delete("sales", "europe", "churn")
    assert admin.models.remove_version("sales", "europe", "churn", 2).location == f"{LAKE}/churn/2"
    with pytest.raises(NotFound, match="version 2 of model"):
        admin.models.version("sales", "europe", "churn", 2)
    assert admin.models.delete("sales", "europe", "churn", force=True).id == model.id
    assert admin.models.create("sales", "europe", "churn").id != model.id
    assert list(admin.models.versions("sales", "europe", "churn")) == []


@pytest.mark.parametrize("version", [0, -1, 2**63])
def test_version_out_of_range_is_refused(admin: CatalogAdmin, version: int) -> None:
    admin.models.create("sales", "europe", "churn")
    with pytest.raises(InvalidParameter, match="a number from 1 to"):
        admin.models.add_version("sales", "europe", "churn", version, LAKE)


def fill(admin: CatalogAdmin) -> None:
    admin.volumes.create("sales", "europe", "v", f"{LAKE}/v", storage="minio")
    admin.skills.create("sales", "europe", "s", f"{LAKE}/s", storage="minio", facts=SKILL)
    admin.models.create("sales", "europe", "m")
    admin.models.add_version("sales", "europe", "m", 1, f"{LAKE}/m/1", storage="minio")


def test_schema_and_storage_with_entries_cannot_be_deleted(catalog: Catalog, admin: CatalogAdmin) -> None:
    admin.storages.create("minio", endpoint="http://localhost:9000")
    before = catalog.items()
    fill(admin)
    with pytest.raises(Conflict, match=r"has 3 table\(s\) or other entries"):
        admin.schemas.delete("sales", "europe")
    with pytest.raises(Conflict, match="3 table"):
        admin.storages.delete("minio")
    admin.volumes.update("sales", "europe", "v", storage="")
    with pytest.raises(Conflict, match="2 table"):
        admin.storages.delete("minio")
    admin.volumes.delete("sales", "europe", "v")
    admin.skills.delete("sales", "europe", "s")
    admin.models.delete("sales", "europe", "m", force=True)
    assert catalog.items() == before
    admin.storages.delete("minio")
    admin.schemas.delete("sales", "europe")


def test_forced_deletion_of_a_share_leaves_no_items(catalog: Catalog, admin: CatalogAdmin) -> None:
    admin.storages.create("minio", endpoint="http://localhost:9000")
    fill(admin)
    admin.shares.delete("sales", force=True)
    [storage] = catalog.items()
    assert storage["tables"] == {"N": "0"}


def test_create_in_a_missing_parent_is_refused(catalog: Catalog, admin: CatalogAdmin) -> None:
    before = catalog.items()
    with pytest.raises(NotFound, match="schema"):
        admin.volumes.create("sales", "asia", "v", LAKE)
    with pytest.raises(NotFound, match="storage 'nowhere' not found"):
        admin.volumes.create("sales", "europe", "v", LAKE, storage="nowhere")
    with pytest.raises(NotFound, match=r"model 'sales\.europe\.m' not found"):
        admin.models.add_version("sales", "europe", "m", 1, LAKE)
    assert catalog.items() == before


OVERLAPPING = [
    pytest.param(LAKE, f"{LAKE}/t", id="a table within"),
    pytest.param(f"{LAKE}/t/part", f"{LAKE}/t", id="a part of a table"),
    pytest.param(f"{LAKE}/t", f"{LAKE}/t", id="the table itself"),
    pytest.param("s3a://bucket", f"{LAKE}/t", id="the bucket"),
]


@pytest.mark.parametrize(("folder", "table"), OVERLAPPING)
@pytest.mark.parametrize("kind", ["volume", "version"])
def test_folder_over_a_filtered_table_is_refused_in_either_order(
    catalog: Catalog, admin: CatalogAdmin, folder: str, table: str, kind: str
) -> None:
    admin.models.create("sales", "europe", "m")

    def share_folder() -> Any:
        if kind == "version":
            return admin.models.add_version("sales", "europe", "m", 1, folder)
        # Access mode `url` matters too, because it shares every file below.
        return admin.volumes.create("sales", "europe", "v", folder, access_modes=["url"])

    settings: dict[str, Any] = {"partition_filter": "region = 'eu'"}
    for first, second in (
        (share_folder, lambda: admin.tables.create("sales", "europe", "t", table, **settings)),
        (lambda: admin.tables.create("sales", "europe", "t", table, **settings), share_folder),
    ):
        first()
        before = catalog.items()
        with pytest.raises(InvalidParameter, match=r"shares all files in .* but 'Sales\.Europe\.t' .* is filtered"):
            second()
        assert catalog.items() == before
        admin.schemas.delete("sales", "europe", force=True)
        admin.schemas.create("sales", "Europe")
        admin.models.create("sales", "europe", "m")


def test_moved_folder_and_filtered_grant_are_checked(admin: CatalogAdmin) -> None:
    admin.tables.create("sales", "europe", "t", f"{LAKE}/t")
    admin.shares.create("raw")
    admin.schemas.create("raw", "d")
    admin.volumes.create("raw", "d", "v", LAKE)
    admin.recipients.create("ann")
    with pytest.raises(InvalidParameter, match=r"'raw\.d\.v' shares all"):
        admin.grants.create("ann", "sales", partition_filter="region = 'eu'")
    admin.volumes.update("raw", "d", "v", location="s3://bucket/elsewhere")
    admin.grants.create("ann", "sales", partition_filter="region = 'eu'")
    with pytest.raises(InvalidParameter, match=r"'raw\.d\.v' shares all"):
        admin.volumes.update("raw", "d", "v", location=f"{LAKE}/t")
    assert list(admin.tables.overlaps.conflicts()) == []


def test_entries_with_the_same_files_are_reported(admin: CatalogAdmin) -> None:
    admin.tables.create("sales", "europe", "t", f"{LAKE}/t", auxiliary_locations=("s3://other/clone",))
    inner = admin.volumes.create("sales", "europe", "inner", f"{LAKE}/t/_delta_log/x")
    admin.volumes.create("sales", "europe", "sibling", f"{LAKE}/t1")
    outer = admin.volumes.create("sales", "europe", "outer", f"{LAKE}/t")
    clone = admin.volumes.create("sales", "europe", "clone", "s3://other")
    assert [entry.name for entry in admin.tables.overlaps.overlapping(outer)] == ["t", "inner"]
    assert [entry.name for entry in admin.tables.overlaps.overlapping(inner)] == ["t", "outer"]
    assert [entry.name for entry in admin.tables.overlaps.overlapping(clone)] == ["t"]


def test_folders_lists_all_folders_of_a_share(admin: CatalogAdmin) -> None:
    admin.storages.create("minio", endpoint="http://localhost:9000")
    fill(admin)
    assert [entry.name_in_schema for entry in admin.folders("sales")] == ["v", "s", "m 1"]
