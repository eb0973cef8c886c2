"""Create, update and delete shares, schemas, tables and storages."""

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
    from deltaic.catalog.items import NamedItem, Recipient

LOCATION = "s3://bucket/some/table"


def test_share_keeps_its_settings(catalog: Catalog) -> None:
    share = catalog.admin.shares.create("Vaccine", display_name="Vaccines", comment="c", properties={"owner": "me"})
    stored = catalog.admin.shares.get("vACCINE")
    assert stored == share
    assert (stored.name, stored.display_name, stored.comment, stored.properties) == (
        "Vaccine",
        "Vaccines",
        "c",
        {"owner": "me"},
    )
    assert str(UUID(stored.id)) == stored.id


def test_share_can_have_a_given_id(catalog: Catalog) -> None:
    share_id = "EDACC4A7-6600-4FBB-85F3-A62A5CE6761F"
    assert catalog.admin.shares.create("a", share_id=share_id).id == share_id.lower()
    with pytest.raises(InvalidParameter, match="not a UUID"):
        catalog.admin.shares.create("b", share_id="seven")


def test_update_keeps_other_settings_and_the_id(catalog: Catalog) -> None:
    share = catalog.admin.shares.create("s", comment="before", properties={"a": "1", "b": "2"})
    changed = catalog.admin.shares.update(
        "S", display_name="D", add_properties={"b": "3", "c": ""}, remove_properties=("a",)
    )
    assert (changed.id, changed.comment, changed.display_name) == (share.id, "before", "D")
    assert changed.properties == {"b": "3", "c": ""}
    assert catalog.admin.shares.update("s", comment="").comment == ""
    assert catalog.admin.shares.get("s").display_name == "D"
    with pytest.raises(InvalidParameter, match=r"property 'd' does not exist: .* \(b, c\)"):
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
def test_invalid_settings_are_refused_and_leave_no_items(
    catalog: Catalog, create: Callable[[CatalogAdmin], object]
) -> None:
    catalog.admin.shares.create("s")
    catalog.admin.schemas.create("s", "d")
    before = catalog.items()
    with pytest.raises(InvalidParameter):
        create(catalog.admin)
    assert catalog.items() == before


def test_share_above_400_kb_is_refused(catalog: Catalog) -> None:
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
def test_name_in_another_case_exists_already(catalog: Catalog, create: Callable[[CatalogAdmin], object]) -> None:
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
def test_absent_entry_is_not_found(catalog: Catalog, ask: Callable[[CatalogAdmin], object]) -> None:
    fill(catalog.admin)
    catalog.admin.recipients.create("bob")
    before = catalog.items()
    with pytest.raises(NotFound):
        ask(catalog.admin)
    assert catalog.items() == before


def test_table_keeps_its_settings(catalog: Catalog) -> None:
    fill(catalog.admin)
    table = catalog.admin.tables.create(
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
    stored = catalog.admin.tables.get("s", "d", "patients")
    assert stored == table
    assert (stored.share, stored.schema_name, stored.name) == ("s", "d", "Patients")
    assert stored.location == "s3a://Bucket.x/a%20b/ü c"
    assert stored.auxiliary_locations == ("s3n://other", "s3://third/x")
    assert stored.access_modes == ("url", "dir")
    assert (stored.history, stored.start_version, stored.storage) == (True, 2**62, "m")
    assert stored.share_id == catalog.admin.shares.get("s").id


def test_table_can_move_to_another_storage(catalog: Catalog) -> None:
    fill(catalog.admin)
    table = catalog.admin.tables.get("s", "d", "t")
    moved = catalog.admin.tables.update("s", "d", "t", location="s3://new/place", storage="m", access_modes=["dir"])
    assert (moved.id, moved.location, moved.storage, moved.access_modes) == (table.id, "s3://new/place", "m", ("dir",))
    with pytest.raises(Conflict, match=r"storage 'm' has 1 table\(s\) or other folders"):
        catalog.admin.storages.delete("m")
    catalog.admin.tables.update("s", "d", "t", storage="", history=True)
    assert catalog.admin.tables.get("s", "d", "t").history is True
    catalog.admin.storages.delete("M")


def test_storage_can_be_deleted_after_its_tables(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.tables.create("s", "d", "u", LOCATION, storage="m")
    catalog.admin.tables.delete("S", "D", "U")
    catalog.admin.storages.delete("m")


def test_parent_with_children_cannot_be_deleted(catalog: Catalog) -> None:
    fill(catalog.admin)
    before = catalog.items()
    with pytest.raises(Conflict, match=r"schema 's.d' has 1 table\(s\)"):
        catalog.admin.schemas.delete("S", "D")
    with pytest.raises(Conflict, match=r"share 's' has 1 schema\(s\)"):
        catalog.admin.shares.delete("S")
    assert catalog.items() == before


def test_empty_parents_are_deleted_without_a_trace(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.tables.delete("s", "d", "t")
    catalog.admin.schemas.delete("s", "d")
    catalog.admin.shares.delete("s")
    catalog.admin.recipients.delete("alice")
    catalog.admin.storages.delete("m")
    assert catalog.items() == []


def test_forced_deletion_removes_children_and_grants(catalog: Catalog) -> None:
    fill(catalog.admin)
    catalog.admin.schemas.create("s", "other")
    catalog.admin.tables.create("s", "other", "u", LOCATION, storage="m")
    catalog.admin.shares.delete("S", force=True)
    assert [*catalog.admin.grants.of_recipient("alice")] == []
    catalog.admin.recipients.delete("alice")
    catalog.admin.storages.delete("m")
    assert catalog.items() == []


def test_share_created_again_has_a_new_id(catalog: Catalog) -> None:
    fill(catalog.admin)
    first = catalog.admin.shares.delete("s", force=True)
    again = catalog.admin.shares.create("s")
    assert again.id != first.id
    assert list(catalog.admin.schemas.list("s")) == []
    assert [*catalog.admin.grants.of_share("s")] == []


def test_interrupted_deletion_is_hidden_and_can_be_repeated(catalog: Catalog) -> None:
    fill(catalog.admin)
    mark_deleting(catalog, "shares", "share/s")
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


def test_access_keys_are_stored_only_in_secrets_manager(catalog: Catalog, secrets_manager: Any) -> None:
    admin = CatalogAdmin(catalog.catalog_table, catalog.tokens_table, catalog.dynamo, lambda: secrets_manager)
    keys = AccessKeys("AKIDEXAMPLE", "very-secret-key")
    assert "very-secret-key" not in repr(keys)
    storage = admin.storages.create("MinIO", endpoint="http://minio:9000/", path_style=True, access_keys=keys)
    assert (storage.secret, storage.endpoint) == (f"deltaic/storage/{catalog.catalog_table}/minio", "http://minio:9000")
    assert "very-secret-key" not in str(catalog.items())
    secret = secrets_manager.get_secret_value(SecretId=storage.secret)["SecretString"]
    assert secret == '{"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "very-secret-key"}'
    admin.storages.update("minio", access_keys=AccessKeys("AKIDEXAMPLE", "another-key"), region="eu-west-1")
    assert "another-key" in secrets_manager.get_secret_value(SecretId=storage.secret)["SecretString"]
    assert admin.storages.get("minio").region == "eu-west-1"
    admin.storages.delete("minio")
    with pytest.raises(secrets_manager.exceptions.ResourceNotFoundException):
        secrets_manager.get_secret_value(SecretId=storage.secret)
    # After the deletion, the name is free.
    admin.storages.create("minio", access_keys=keys)
    admin.storages.delete("minio")


def test_incomplete_access_keys_leave_no_storage(catalog: Catalog) -> None:
    with pytest.raises(InvalidParameter, match="needs both an id and a secret"):
        catalog.admin.storages.create("m", access_keys=AccessKeys("AKIDEXAMPLE", ""))
    assert catalog.items() == []


def fill(admin: CatalogAdmin) -> None:
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    admin.tables.create("s", "d", "t", LOCATION)
    admin.storages.create("m", endpoint="http://minio:9000")
    admin.recipients.create("alice")
    admin.grants.create("alice", "s")


def mark_deleting(catalog: Catalog, pk: str, sk: str) -> None:
    """Mark an entry as a deletion does that stops after its first step."""
    catalog.dynamo.client.update_item(
        TableName=catalog.catalog_table,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        UpdateExpression="SET #state = :deleting",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":deleting": {"S": "deleting"}},
    )


def test_excerpt_respects_position_and_limit(catalog: Catalog) -> None:
    names = ["Alpha", "alpine", "beta", "ALPS", "gamma", "al", "\U0001f600"]
    for name in names:
        catalog.admin.shares.create(name)
        catalog.admin.recipients.create(name)
        catalog.admin.grants.create(name, "alpha")
    catalog.admin.schemas.create("beta", "one")
    catalog.admin.schemas.create("beta", "two")
    catalog.admin.tables.create("beta", "one", "first", LOCATION)
    catalog.admin.tables.create("beta", "one", "second", LOCATION)

    for list_items in (catalog.admin.shares.list, catalog.admin.recipients.list):

        def names_of(
            excerpt: Excerpt, list_items: Callable[[Excerpt], Iterable[NamedItem | Recipient]] = list_items
        ) -> list[str]:
            return [each.name for each in list_items(excerpt)]

        assert names_of(Excerpt(limit=3)) == ["al", "Alpha", "alpine"]
        assert names_of(Excerpt(after="ALPINE", limit=2)) == ["ALPS", "beta"]
        assert names_of(Excerpt(after="alpha", limit=1)) == ["alpine"]
        assert names_of(Excerpt(after="gamma")) == ["\U0001f600"]
        assert names_of(Excerpt(after="x" * 2000)) == ["\U0001f600"]
    assert [entry.name for entry in catalog.admin.schemas.list("beta", Excerpt(after="one"))] == ["two"]
    assert [entry.name for entry in catalog.admin.tables.list("beta", "one", Excerpt(limit=1))] == ["first"]
    assert [entry.share for entry in catalog.admin.grants.of_recipient("beta", Excerpt(limit=1))] == ["Alpha"]
    grants = [*catalog.admin.grants.of_share("alpha")]
    assert [*catalog.admin.grants.of_share("alpha", Excerpt(after=grants[2].recipient_id, limit=2))] == grants[3:5]


def test_excerpt_skips_entries_in_deletion(catalog: Catalog) -> None:
    for name in ("a", "b", "c", "d"):
        catalog.admin.shares.create(name)
    catalog.dynamo.transact(
        [update(catalog.catalog_table, keys.catalog_entry("share", "b"), assign={"state": DELETING})]
    )
    assert [share.name for share in catalog.admin.shares.list(Excerpt(limit=2))] == ["a", "c"]
