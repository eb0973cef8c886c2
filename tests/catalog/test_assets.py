"""Volumes, skills, models and their versions: what may be made, how it changes, what it opens, and when it may go."""

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


def test_a_volume_keeps_what_it_was_made_with_and_is_found_in_any_spelling(admin: CatalogAdmin) -> None:
    made = admin.volumes.create("sales", "europe", "Scans", f"{LAKE}/scans/", comment="paper")
    assert (made.share, made.schema_name, made.name, made.title) == ("Sales", "Europe", "Scans", "Sales.Europe.Scans")
    assert (made.location, made.access_modes, made.comment) == (f"{LAKE}/scans", ("url", "dir"), "paper")
    assert admin.volumes.get("SALES", "EUROPE", "sCANS") == made
    assert list(admin.volumes.list("sales")) == list(admin.volumes.list("sales", "europe")) == [made]
    changed = admin.volumes.update("sales", "europe", "scans", access_modes=["url"])
    assert (changed.id, changed.comment, changed.access_modes) == (made.id, "paper", ("url",))
    with pytest.raises(AlreadyExists, match=r"a volume 'Sales\.Europe\.SCANS'"):
        admin.volumes.create("sales", "europe", "SCANS", LAKE)
    assert admin.volumes.delete("sales", "europe", "scans") == changed
    with pytest.raises(NotFound, match=r"^volume 'sales\.europe\.scans' not found$"):
        admin.volumes.get("sales", "europe", "scans")


def test_kinds_do_not_share_their_names(admin: CatalogAdmin) -> None:
    admin.tables.create("sales", "europe", "a", f"{LAKE}/t")
    admin.volumes.create("sales", "europe", "a", f"{LAKE}/v")
    admin.skills.create("sales", "europe", "a", f"{LAKE}/a", facts=SKILL)
    admin.models.create("sales", "europe", "a")
    assert [len(list(kind.list("sales"))) for kind in (admin.tables, admin.volumes, admin.skills, admin.models)] == [
        1, 1, 1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\nb", "x" * 256])
def test_a_name_that_no_volume_may_have_is_refused(admin: CatalogAdmin, name: str) -> None:
    with pytest.raises(InvalidParameter, match="the volume name"):
        admin.volumes.create("sales", "europe", name, LAKE)
    assert list(admin.volumes.list("sales")) == []


@pytest.mark.parametrize("name", ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "é", "x" * 65])
def test_a_name_that_no_skill_may_have_is_refused(admin: CatalogAdmin, name: str) -> None:
    with pytest.raises(InvalidParameter, match="skill name"):
        admin.skills.create("sales", "europe", name, f"{LAKE}/{name or 'a'}", facts=SKILL)


def test_a_skill_has_the_name_of_its_folder(admin: CatalogAdmin) -> None:
    with pytest.raises(InvalidParameter, match="'read-forms' lies in 'forms'"):
        admin.skills.create("sales", "europe", "read-forms", f"{LAKE}/forms", facts=SKILL)
    made = admin.skills.create("sales", "europe", "read-forms", f"{LAKE}/read-forms", facts=SKILL)
    assert made.description == "Reads forms."
    with pytest.raises(InvalidParameter, match="lies in 'forms'"):
        admin.skills.update("sales", "europe", "read-forms", location=f"{LAKE}/forms")
    assert admin.skills.update("sales", "europe", "read-forms", facts={"license": "MIT"}).license == "MIT"


def test_a_model_counts_its_versions_and_goes_with_them_by_force(admin: CatalogAdmin) -> None:
    model = admin.models.create("sales", "europe", "churn", comment="who leaves")
    for version in (10, 2):
        admin.models.add_version("sales", "europe", "CHURN", version, f"{LAKE}/churn/{version}", facts={"run_id": "r"})
    assert [one.version for one in admin.models.versions("sales", "europe", "churn")] == [2, 10]
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
def test_a_version_is_a_number_of_the_protocols(admin: CatalogAdmin, version: int) -> None:
    admin.models.create("sales", "europe", "churn")
    with pytest.raises(InvalidParameter, match="a number from 1 on"):
        admin.models.add_version("sales", "europe", "churn", version, LAKE)


def fill(admin: CatalogAdmin) -> None:
    admin.volumes.create("sales", "europe", "v", f"{LAKE}/v", storage="minio")
    admin.skills.create("sales", "europe", "s", f"{LAKE}/s", storage="minio", facts=SKILL)
    admin.models.create("sales", "europe", "m")
    admin.models.add_version("sales", "europe", "m", 1, f"{LAKE}/m/1", storage="minio")


def test_a_schema_and_a_storage_know_when_they_may_go(catalog: Catalog, admin: CatalogAdmin) -> None:
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


def test_a_share_that_goes_by_force_leaves_nothing(catalog: Catalog, admin: CatalogAdmin) -> None:
    admin.storages.create("minio", endpoint="http://localhost:9000")
    fill(admin)
    admin.shares.delete("sales", force=True)
    [storage] = catalog.items()
    assert storage["tables"] == {"N": "0"}


def test_nothing_is_made_in_a_schema_or_a_storage_that_is_not_there(catalog: Catalog, admin: CatalogAdmin) -> None:
    before = catalog.items()
    with pytest.raises(NotFound, match="schema"):
        admin.volumes.create("sales", "asia", "v", LAKE)
    with pytest.raises(NotFound, match="storage 'nowhere' not found"):
        admin.volumes.create("sales", "europe", "v", LAKE, storage="nowhere")
    with pytest.raises(NotFound, match=r"model 'sales\.europe\.m' not found"):
        admin.models.add_version("sales", "europe", "m", 1, LAKE)
    assert catalog.items() == before


OPENED = [
    pytest.param(LAKE, f"{LAKE}/t", id="a table within"),
    pytest.param(f"{LAKE}/t/part", f"{LAKE}/t", id="a part of a table"),
    pytest.param(f"{LAKE}/t", f"{LAKE}/t", id="the table itself"),
    pytest.param("s3a://bucket", f"{LAKE}/t", id="the bucket"),
]


@pytest.mark.parametrize(("folder", "table"), OPENED)
@pytest.mark.parametrize("kind", ["volume", "version"])
def test_a_folder_opens_no_table_of_which_not_all_is_shared_whichever_was_first(
    catalog: Catalog, admin: CatalogAdmin, folder: str, table: str, kind: str
) -> None:
    admin.models.create("sales", "europe", "m")

    def share_folder() -> Any:
        if kind == "version":
            return admin.models.add_version("sales", "europe", "m", 1, folder)
        # By URLs alone too: they read every file below.
        return admin.volumes.create("sales", "europe", "v", folder, access_modes=["url"])

    narrow: dict[str, Any] = {"partition_filter": "region = 'eu'"}
    for first, second in (
        (share_folder, lambda: admin.tables.create("sales", "europe", "t", table, **narrow)),
        (lambda: admin.tables.create("sales", "europe", "t", table, **narrow), share_folder),
    ):
        first()
        before = catalog.items()
        with pytest.raises(InvalidParameter, match=r"shares all that lies in .* not all of 'Sales\.Europe\.t'"):
            second()
        assert catalog.items() == before
        admin.schemas.delete("sales", "europe", force=True)
        admin.schemas.create("sales", "Europe")
        admin.models.create("sales", "europe", "m")


def test_a_folder_that_is_moved_or_a_grant_that_narrows_opens_nothing_either(admin: CatalogAdmin) -> None:
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


def test_what_else_is_shared_of_the_same_files_is_told(admin: CatalogAdmin) -> None:
    admin.tables.create("sales", "europe", "t", f"{LAKE}/t", auxiliary_locations=("s3://other/clone",))
    inner = admin.volumes.create("sales", "europe", "inner", f"{LAKE}/t/_delta_log/x")
    admin.volumes.create("sales", "europe", "sibling", f"{LAKE}/t1")
    outer = admin.volumes.create("sales", "europe", "outer", f"{LAKE}/t")
    clone = admin.volumes.create("sales", "europe", "clone", "s3://other")
    assert [one.name for one in admin.tables.overlaps.overlapping(outer)] == ["t", "inner"]
    assert [one.name for one in admin.tables.overlaps.overlapping(inner)] == ["t", "outer"]
    assert [one.name for one in admin.tables.overlaps.overlapping(clone)] == ["t"]


def test_a_share_tells_all_its_folders(admin: CatalogAdmin) -> None:
    admin.storages.create("minio", endpoint="http://localhost:9000")
    fill(admin)
    assert [one.name_in_schema for one in admin.folders("sales")] == ["v", "s", "m 1"]
