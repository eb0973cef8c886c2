"""Recipients and grants: ids, validation, both items of a grant, and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog


def test_recipient_has_an_id_that_never_changes(catalog: Catalog) -> None:
    recipient = catalog.admin.recipients.create("Alice@example.org", comment="c", properties={"country": "de"})
    assert str(UUID(recipient.id)) == recipient.id
    assert catalog.admin.recipients.get("alice@EXAMPLE.org") == recipient
    changed = catalog.admin.recipients.update("alice@example.org", comment="d", add_properties={"x": "y"})
    assert (changed.id, changed.name, changed.comment) == (recipient.id, "Alice@example.org", "d")
    assert changed.properties == {"country": "de", "x": "y"}
    assert list(catalog.admin.recipients.list()) == [changed]


@pytest.mark.parametrize("text", ["\ud800", '["\\ud800"]', '["a", "b\\udfff"]', '["\udcff"]'], ids=ascii)
def test_invalid_unicode_in_a_property_is_refused(catalog: Catalog, text: str) -> None:
    admin = catalog.admin
    alice = admin.recipients.create("alice", properties={"pair": '["\\ud83d\\ude00"]'})
    with pytest.raises(InvalidParameter):
        admin.recipients.create("bob", properties={"site": text})
    with pytest.raises(InvalidParameter):
        admin.recipients.update("alice", add_properties={"site": text})
    assert list(admin.recipients.list()) == [alice]


def test_invalid_unicode_in_any_attribute_is_refused(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    table = admin.tables.create("s", "d", "t", "s3://bucket/t")
    invalid = "a\udcff"
    attempts: list[Callable[[], object]] = [
        lambda: admin.shares.create(invalid),
        lambda: admin.shares.get(invalid),
        lambda: admin.schemas.create("s", invalid),
        lambda: admin.tables.create("s", "d", invalid, "s3://bucket/u"),
        lambda: admin.tables.create("s", "d", "u", f"s3://bucket/{invalid}"),
        lambda: admin.tables.update("s", "d", "t", hidden_columns=(invalid,)),
        lambda: admin.tables.update("s", "d", "t", partition_filter=f"day = '{invalid}'"),
        lambda: admin.recipients.create("alice", comment=invalid),
        lambda: admin.recipients.get(invalid),
        lambda: admin.storages.create("other", endpoint=f"http://{invalid}:9000"),
    ]
    for attempt in attempts:
        with pytest.raises((InvalidParameter, NotFound)):
            attempt()
    assert list(admin.tables.list("s")) == [table]


def test_grant_is_listed_by_recipient_and_by_share(catalog: Catalog) -> None:
    admin = catalog.admin
    for share in ("zebra", "Apple", "middle"):
        admin.shares.create(share)
    for recipient in ("alice", "bob"):
        admin.recipients.create(recipient)
        admin.grants.create(recipient, "APPLE")
    admin.grants.create("alice", "zebra")
    assert [grant.share for grant in admin.grants.of_recipient("ALICE")] == ["Apple", "zebra"]
    assert {grant.recipient for grant in admin.grants.of_share("apple")} == {"alice", "bob"}
    assert [*admin.grants.of_share("middle")] == []
    assert admin.grants.get("alice", "apple").share_id == admin.shares.get("apple").id


def test_revoked_grant_is_in_no_listing(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.shares.create("s")
    alice = admin.recipients.create("alice")
    admin.grants.create("alice", "s")
    assert admin.grants.revoke("Alice", "S").recipient_id == alice.id
    assert [*admin.grants.of_recipient("alice")] == []
    assert [*admin.grants.of_share("s")] == []
    with pytest.raises(NotFound):
        catalog.reader.get_share(alice.id, "s")
    with pytest.raises(NotFound):
        admin.grants.revoke("alice", "s")
    admin.grants.create("alice", "s")


def test_deleted_recipient_loses_its_tokens_and_grants(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.shares.create("s")
    bob = admin.recipients.create("bob")
    admin.grants.create("bob", "s")
    before = catalog.items()
    alice = admin.recipients.create("alice")
    admin.grants.create("alice", "s")
    tokens = [catalog.token_admin().create(alice) for _ in range(2)]
    admin.recipients.delete("ALICE")
    for issued in tokens:
        with pytest.raises(Unauthenticated):
            catalog.tokens().authenticate(issued.secret)
    assert sorted(map(str, catalog.items())) == sorted(map(str, before))
    assert catalog.reader.get_share(bob.id, "s").name == "s"


def test_deleted_recipient_gets_no_token(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.shares.create("s")
    alice = admin.recipients.create("alice")
    admin.recipients.delete("alice")
    with pytest.raises(NotFound, match="recipient 'alice' not found"):
        catalog.token_admin().create(alice)
    again = admin.recipients.create("alice")
    assert again.id != alice.id
    with pytest.raises(NotFound):
        catalog.token_admin().create(alice)
    with pytest.raises(AlreadyExists):
        admin.recipients.create("ALICE")
