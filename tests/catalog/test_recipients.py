"""Recipients and grants: an id for ever, both sides of a grant or neither, and nothing left of who is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from deltaic.errors import AlreadyExists, NotFound, Unauthenticated

if TYPE_CHECKING:
    from catalog.conftest import Catalog


def test_a_recipient_has_an_id_of_its_own(catalog: Catalog) -> None:
    made = catalog.admin.create_recipient("Alice@example.org", comment="c", properties={"country": "de"})
    assert str(UUID(made.id)) == made.id
    assert catalog.admin.get_recipient("alice@EXAMPLE.org") == made
    changed = catalog.admin.update_recipient("alice@example.org", comment="d", add_properties={"x": "y"})
    assert (changed.id, changed.name, changed.comment) == (made.id, "Alice@example.org", "d")
    assert changed.properties == {"country": "de", "x": "y"}
    assert list(catalog.admin.list_recipients()) == [changed]


def test_a_grant_is_seen_from_both_sides(catalog: Catalog) -> None:
    admin = catalog.admin
    for share in ("zebra", "Apple", "middle"):
        admin.create_share(share)
    for recipient in ("alice", "bob"):
        admin.create_recipient(recipient)
        admin.create_grant(recipient, "APPLE")
    admin.create_grant("alice", "zebra")
    assert [grant.share for grant in admin.grants_of_recipient("ALICE")] == ["Apple", "zebra"]
    assert {grant.recipient for grant in admin.grants_of_share("apple")} == {"alice", "bob"}
    assert admin.grants_of_share("middle") == []
    assert admin.get_grant("alice", "apple").share_id == admin.get_share("apple").id


def test_a_revoked_grant_is_gone_on_both_sides(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.create_share("s")
    alice = admin.create_recipient("alice")
    admin.create_grant("alice", "s")
    assert admin.revoke_grant("Alice", "S").recipient_id == alice.id
    assert admin.grants_of_recipient("alice") == []
    assert admin.grants_of_share("s") == []
    with pytest.raises(NotFound):
        catalog.reader.get_share(alice.id, "s")
    with pytest.raises(NotFound):
        admin.revoke_grant("alice", "s")
    admin.create_grant("alice", "s")


def test_deleting_a_recipient_takes_its_tokens_and_grants(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.create_share("s")
    bob = admin.create_recipient("bob")
    admin.create_grant("bob", "s")
    before = catalog.items()
    alice = admin.create_recipient("alice")
    admin.create_grant("alice", "s")
    tokens = [catalog.token_admin().create_token(alice) for _ in range(2)]
    admin.delete_recipient("ALICE")
    for issued in tokens:
        with pytest.raises(Unauthenticated):
            catalog.tokens().authenticate(issued.secret)
    assert sorted(map(str, catalog.items())) == sorted(map(str, before))
    assert catalog.reader.get_share(bob.id, "s").name == "s"


def test_no_token_and_no_grant_for_a_recipient_that_is_going_or_gone(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.create_share("s")
    alice = admin.create_recipient("alice")
    admin.delete_recipient("alice")
    with pytest.raises(NotFound, match="recipient 'alice' not found"):
        catalog.token_admin().create_token(alice)
    again = admin.create_recipient("alice")
    assert again.id != alice.id
    with pytest.raises(NotFound):
        catalog.token_admin().create_token(alice)
    with pytest.raises(AlreadyExists):
        admin.create_recipient("ALICE")
