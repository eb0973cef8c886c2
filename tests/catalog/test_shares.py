"""Shares, schemas, tables and storages: what may be made, how it changes, and when it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from deltaic.catalog import keys
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.records import DELETING, Excerpt
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic.catalog.writes import update
from deltaic.errors import AlreadyExists, Conflict, InvalidParameter, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from catalog.conftest import Catalog
    from deltaic.catalog.items import Named, Recipient

LOCATION = "s3://bucket/some/table"


def test_a_share_keeps_what_it_was_made_with(catalog: Catalog) -> None:
    made = catalog.admin.shares.create("Vaccine", display_name="Vaccines", comment="c", properties={"owner": "me"})
    found = catalog.admin.shares.get("vACCINE")
    assert found == made
    assert (found.name, found.display_name, found.comment, found.properties) == (
        "Vaccine",
        "Vaccines",
        "c",
        {"owner": "me"},
    )
    assert str(UUID(found.id)) == found.id


def test_a_share_may_bring_its_id_along(catalog: Catalog) -> None:
    brought = "EDACC4A7-6600-4FBB-85F3-A62A5CE6761F"
    assert catalog.admin.shares.create("a", share_id=brought).id == brought.lower()
    with pytest.raises(InvalidParameter, match="not a UUID"):
        catalog.admin.shares.create("b", share_id="seven")


def test_an_update_keeps_the_rest_and_the_id(catalog: Catalog) -> None:
    made = catalog.admin.shares.create("s", comment="before", properties={"a": "1", "b": "2"})
    changed = catalog.admin.shares.update(
        "S", display_name="D", add_properties={"b": "3", "c": ""}, remove_properties=("a",)
    )
    assert (changed.id, changed.comment, changed.display_name) == (made.id, "before", "D")
    assert changed.properties == {"b": "3", "c": ""}
    assert catalog.admin.shares.update("s", comment="").comment == ""
    assert catalog.admin.shares.get("s").display_name == "D"
    with pytest.raises(InvalidParameter, match=r"no property 'd' \(there are: b, c\)"):
        catalog.admin.shares.update("s", add_properties={"a": "4"}, remove_properties=("d",))
    assert catalog.admin.shares.get("s").properties == {"b": "3", "c": ""}


@pytest.mark.parametrize(
    "create",
    [
        pytest.param(lambda admin: admin.shares.create("a b"), id="share-space"),
        pytest.param(lambda admin: admin.shares.create("x" * 256), id="share-long"),
        pytest.param(lambda admin: admin.shares.create("x", comment="x" * 65_537), id="comment"),
        pytest.param(lambda admin: admin.shares.create("x", display_name="x" * 256), id="display-name"),
        pytest.param(lambda admin: admin.shares.create("x", properties={str(n): "" for n in range(51)}), id="pairs"),
        pytest.param(lambda admin: admin.schemas.create("s", "a.b"), id="schema-period"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "a.b", LOCATION), id="table-period"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", "https://bucket/x"), id="scheme"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", "s3:///x"), id="no-bucket"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", "s3://bucket/a/../b"), id="dots"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", f"{LOCATION}/_delta_log/"), id="log"),
        pytest.param(
            lambda admin: admin.tables.create("s", "d", "t", LOCATION, auxiliary_locations=["file:/x"]), id="auxiliary"
        ),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", LOCATION, access_modes=["ftp"]), id="mode"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", LOCATION, access_modes=[]), id="no-mode"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "t", LOCATION, start_version=-1), id="version"),
        pytest.param(lambda admin: admin.storages.create("a/b"), id="storage-name"),
        pytest.param(lambda admin: admin.storages.create("m", endpoint="minio:9000"), id="endpoint"),
        pytest.param(lambda admin: admin.storages.create("m", endpoint="http://key:secret@minio"), id="endpoint-keys"),
        pytest.param(lambda admin: admin.storages.create("m", role_arn="role"), id="role"),
        pytest.param(lambda admin: admin.storages.create("m", region=""), id="region"),
        pytest.param(lambda admin: admin.recipients.create("a/b"), id="recipient"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_leaves_nothing(
    catalog: Catalog, create: Callable[[CatalogAdmin], object]
) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    before = catalog.items()
    with pytest.raises(InvalidParameter):
        create(catalog.admin)
    assert catalog.items() == before


def test_a_share_of_more_than_400_kb_is_refused(catalog: Catalog) -> None:
    wide = {f"{n:02}": "\U0001f600" * 1000 for n in range(50)}
    with pytest.raises(InvalidParameter, match="400 KB"):
        catalog.admin.shares.create("x", comment="\U0001f600" * 65_536, properties=wide)


@pytest.mark.parametrize(
    "create",
    [
        pytest.param(lambda admin: admin.shares.create("S"), id="share"),
        pytest.param(lambda admin: admin.schemas.create("S", "D"), id="schema"),
        pytest.param(lambda admin: admin.tables.create("S", "D", "T", LOCATION), id="table"),
        pytest.param(lambda admin: admin.storages.create("M"), id="storage"),
        pytest.param(lambda admin: admin.recipients.create("Alice"), id="recipient"),
        pytest.param(lambda admin: admin.grants.create("Alice", "S"), id="grant"),
    ],
)
def test_a_name_in_another_case_is_the_same_name(catalog: Catalog, create: Callable[[CatalogAdmin], object]) -> None:
    fill(catalog.admin)
    with pytest.raises(AlreadyExists):
        create(catalog.admin)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda admin: admin.shares.get("x"), id="share"),
        pytest.param(lambda admin: admin.shares.update("x", comment=""), id="share-update"),
        pytest.param(lambda admin: admin.shares.delete("x"), id="share-delete"),
        pytest.param(lambda admin: admin.schemas.create("x", "d"), id="schema-in-no-share"),
        pytest.param(lambda admin: admin.schemas.get("s", "x"), id="schema"),
        pytest.param(lambda admin: admin.schemas.update("s", "x"), id="schema-update"),
        pytest.param(lambda admin: admin.schemas.delete("s", "x", force=True), id="schema-delete"),
        pytest.param(lambda admin: list(admin.schemas.list("x")), id="schemas"),
        pytest.param(lambda admin: admin.tables.create("s", "x", "t", LOCATION), id="table-in-no-schema"),
        pytest.param(lambda admin: admin.tables.create("s", "d", "u", LOCATION, storage="x"), id="table-in-no-storage"),
        pytest.param(lambda admin: admin.tables.get("s", "d", "x"), id="table"),
        pytest.param(lambda admin: admin.tables.update("s", "d", "x", history=True), id="table-update"),
        pytest.param(lambda admin: admin.tables.update("s", "d", "t", storage="x"), id="table-update-storage"),
        pytest.param(lambda admin: admin.tables.delete("s", "d", "x"), id="table-delete"),
        pytest.param(lambda admin: list(admin.tables.list("s", "x")), id="tables"),
        pytest.param(lambda admin: list(admin.tables.list("x")), id="all-tables"),
        pytest.param(lambda admin: admin.storages.get("x"), id="storage"),
        pytest.param(lambda admin: admin.storages.update("x", region="r"), id="storage-update"),
        pytest.param(lambda admin: admin.storages.delete("x"), id="storage-delete"),
        pytest.param(lambda admin: admin.recipients.get("x"), id="recipient"),
        pytest.param(lambda admin: admin.recipients.update("x", comment=""), id="recipient-update"),
        pytest.param(lambda admin: admin.recipients.delete("x"), id="recipient-delete"),
        pytest.param(lambda admin: admin.grants.create("alice", "x"), id="grant-of-no-share"),
        pytest.param(lambda admin: admin.grants.create("x", "s"), id="grant-to-nobody"),
        pytest.param(lambda admin: admin.grants.revoke("bob", "s"), id="no-grant"),
        pytest.param(lambda admin: admin.grants.get("bob", "s"), id="show-no-grant"),
    ],
)
def test_what_is_absent_is_not_found_and_nothing_changes(
    catalog: Catalog, ask: Callable[[CatalogAdmin], object]
) -> None:
    fill(catalog.admin)
    catalog.admin.recipients.create("bob")
    before = catalog.items()
    with pytest.raises(NotFound):
        ask(catalog.admin)
    assert catalog.items() == before


def test_a_table_keeps_what_it_was_made_with(catalog: Catalog) -> None:
    fill(catalog.admin)
    made = catalog.admin.tables.create(
        "S",
        "D",
        "Patients",
        "s3a://Bucket.x/a%20b/ü c/",
        auxiliary_locations=["s3n://other/", "s3://third/x"],
        access_modes=["dir", "url", "dir"],
        history=True,
        start_version=2**62,
        storage="M",
    )
    found = catalog.admin.tables.get("s", "d", "patients")
    assert found == made
    assert (found.share, found.schema_name, found.name) == ("s", "d", "Patients")
    assert found.location == "s3a://Bucket.x/a%20b/ü c"
    assert found.auxiliary_locations == ("s3n://other", "s3://third/x")
    assert found.access_modes == ("url", "dir")
    assert (found.history, found.start_version, found.storage) == (True, 2**62, "m")
    assert found.share_id == catalog.admin.shares.get("s").id


def test_a_table_may_move_and_change_storage(catalog: Catalog) -> None:
    fill(catalog.admin)
    made = catalog.admin.tables.get("s", "d", "t")
    moved = catalog.admin.tables.update("s", "d", "t", location="s3://new/place", storage="m", access_modes=["dir"])
    assert (moved.id, moved.location, moved.storage, moved.access_modes) == (made.id, "s3://new/place", "m", ("dir",))
    with pytest.raises(Conflict, match=r"1 table\(s\) or other folders lie in storage 'm'"):
        catalog.admin.storages.delete("m")
    catalog.admin.tables.update("s", "d", "t", storage="", history=True)
    assert catalog.admin.tables.get("s", "d", "t").history is True
    catalog.admin.storages.delete("M")


def test_deleting_a_table_frees_its_storage(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.tables.create("s", "d", "u", LOCATION, storage="m")
    catalog.admin.tables.delete("S", "D", "U")
    catalog.admin.storages.delete("m")


def test_a_parent_with_children_stays(catalog: Catalog) -> None:
    fill(catalog.admin)
    before = catalog.items()
    with pytest.raises(Conflict, match=r"schema 's.d' has 1 table\(s\)"):
        catalog.admin.schemas.delete("S", "D")
    with pytest.raises(Conflict, match=r"share 's' has 1 schema\(s\)"):
        catalog.admin.shares.delete("S")
    assert catalog.items() == before


def test_what_is_empty_goes_step_by_step_and_leaves_nothing(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.tables.delete("s", "d", "t")
    catalog.admin.schemas.delete("s", "d")
    catalog.admin.shares.delete("s")
    catalog.admin.recipients.delete("alice")
    catalog.admin.storages.delete("m")
    assert catalog.items() == []


def test_force_takes_the_children_and_the_grants_along(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.schemas.create("s", "other")
    catalog.admin.tables.create("s", "other", "u", LOCATION, storage="m")
    catalog.admin.shares.delete("S", force=True)
    assert [*catalog.admin.grants.of_recipient("alice")] == []
    catalog.admin.recipients.delete("alice")
    catalog.admin.storages.delete("m")
    assert catalog.items() == []


def test_a_share_made_anew_is_another_share(catalog: Catalog) -> None:
    fill(catalog.admin)
    first = catalog.admin.shares.delete("s", force=True)
    again = catalog.admin.shares.create("s")
    assert again.id != first.id
    assert list(catalog.admin.schemas.list("s")) == []
    assert [*catalog.admin.grants.of_share("s")] == []


def test_a_deletion_that_was_interrupted_is_hidden_and_finished_by_repeating_it(catalog: Catalog) -> None:
    fill(catalog.admin)
    mark(catalog, "shares", "share/s")
    assert list(catalog.admin.shares.list()) == []
    with pytest.raises(NotFound, match="delete it again"):
        catalog.admin.shares.get("s")
    with pytest.raises(AlreadyExists):
        catalog.admin.shares.create("s")
    with pytest.raises(NotFound):
        catalog.admin.schemas.create("s", "e")
    catalog.admin.shares.delete("s", force=True)
    assert [*catalog.admin.grants.of_recipient("alice")] == []
    catalog.admin.shares.create("s")


def test_access_keys_are_kept_by_secrets_manager_only(catalog: Catalog, secrets_manager: Any) -> None:
    admin = CatalogAdmin(catalog.catalog_table, catalog.tokens_table, catalog.dynamo, lambda: secrets_manager)
    keys = AccessKeys("AKIDEXAMPLE", "very-secret-key")
    assert "very-secret-key" not in repr(keys)
    made = admin.storages.create("MinIO", endpoint="http://minio:9000/", path_style=True, access_keys=keys)
    assert (made.secret, made.endpoint) == (f"deltaic/storage/{catalog.catalog_table}/minio", "http://minio:9000")
    assert "very-secret-key" not in str(catalog.items())
    kept = secrets_manager.get_secret_value(SecretId=made.secret)["SecretString"]
    assert kept == '{"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "very-secret-key"}'
    admin.storages.update("minio", access_keys=AccessKeys("AKIDEXAMPLE", "another-key"), region="eu-west-1")
    assert "another-key" in secrets_manager.get_secret_value(SecretId=made.secret)["SecretString"]
    assert admin.storages.get("minio").region == "eu-west-1"
    admin.storages.delete("minio")
    with pytest.raises(secrets_manager.exceptions.ResourceNotFoundException):
        secrets_manager.get_secret_value(SecretId=made.secret)
    # The name is free again.
    admin.storages.create("minio", access_keys=keys)
    admin.storages.delete("minio")


def test_half_a_pair_of_access_keys_leaves_no_storage(catalog: Catalog) -> None:
    with pytest.raises(InvalidParameter, match="pairs"):
        catalog.admin.storages.create("m", access_keys=AccessKeys("AKIDEXAMPLE", ""))
    assert catalog.items() == []


def fill(admin: CatalogAdmin) -> None:
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    admin.tables.create("s", "d", "t", LOCATION)
    admin.storages.create("m", endpoint="http://minio:9000")
    admin.recipients.create("alice")
    admin.grants.create("alice", "s")


def mark(catalog: Catalog, pk: str, sk: str) -> None:
    """Leave an entry as a deletion leaves it that is cut off after its first step."""
    catalog.dynamo.client.update_item(
        TableName=catalog.catalog_table,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        UpdateExpression="SET #state = :deleting",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":deleting": {"S": "deleting"}},
    )


def test_an_excerpt_of_a_listing_begins_behind_a_name_has_its_letters_and_ends(catalog: Catalog) -> None:
    names = ["Alpha", "alpine", "beta", "ALPS", "gamma", "al", "\U0001f600"]
    for name in names:
        catalog.admin.shares.create(name)
        catalog.admin.recipients.create(name)
        catalog.admin.grants.create(name, "alpha")
    catalog.admin.schemas.create("beta", "one")
    catalog.admin.schemas.create("beta", "two")
    catalog.admin.tables.create("beta", "one", "first", LOCATION)
    catalog.admin.tables.create("beta", "one", "second", LOCATION)

    for listed in (catalog.admin.shares.list, catalog.admin.recipients.list):

        def shown(excerpt: Excerpt, listed: Callable[[Excerpt], Iterable[Named | Recipient]] = listed) -> list[str]:
            return [each.name for each in listed(excerpt)]

        assert shown(Excerpt(limit=3)) == ["al", "Alpha", "alpine"]
        assert shown(Excerpt(after="ALPINE", limit=2)) == ["ALPS", "beta"]
        assert shown(Excerpt(prefix="aLp")) == ["Alpha", "alpine", "ALPS"]
        assert shown(Excerpt(after="alpha", prefix="alp", limit=1)) == ["alpine"]
        assert shown(Excerpt(after="gamma")) == ["\U0001f600"]
        assert shown(Excerpt(prefix="x" * 2000)) == []
    assert [one.name for one in catalog.admin.schemas.list("beta", Excerpt(after="one"))] == ["two"]
    assert [one.name for one in catalog.admin.tables.list("beta", "one", Excerpt(limit=1))] == ["first"]
    assert [one.share for one in catalog.admin.grants.of_recipient("beta", Excerpt(prefix="al"))] == ["Alpha"]
    held = [*catalog.admin.grants.of_share("alpha")]
    assert [*catalog.admin.grants.of_share("alpha", Excerpt(after=held[2].recipient_id, limit=2))] == held[3:5]


def test_an_excerpt_passes_over_what_is_being_deleted_and_is_full_all_the_same(catalog: Catalog) -> None:
    for name in ("a", "b", "c", "d"):
        catalog.admin.shares.create(name)
    catalog.dynamo.transact(
        [update(catalog.catalog_table, keys.catalog_entry("share", "b"), assign={"state": DELETING})]
    )
    assert [share.name for share in catalog.admin.shares.list(Excerpt(limit=2))] == ["a", "c"]
