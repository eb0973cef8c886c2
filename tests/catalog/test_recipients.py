"""Recipients and grants: an id for ever, both sides of a grant or neither, and nothing left of who is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog


def test_a_recipient_has_an_id_of_its_own(catalog: Catalog) -> None:
    made = catalog.admin.recipients.create("Alice@example.org", comment="c", properties={"country": "de"})
    assert str(UUID(made.id)) == made.id
    assert catalog.admin.recipients.get("alice@EXAMPLE.org") == made
    changed = catalog.admin.recipients.update("alice@example.org", comment="d", add_properties={"x": "y"})
    assert (changed.id, changed.name, changed.comment) == (made.id, "Alice@example.org", "d")
    assert changed.properties == {"country": "de", "x": "y"}
    assert list(catalog.admin.recipients.list()) == [changed]


@pytest.mark.parametrize("text", ["\ud800", '["\\ud800"]', '["a", "b\\udfff"]', '["\udcff"]'], ids=ascii)
def test_text_that_is_no_unicode_enters_no_recipient(catalog: Catalog, text: str) -> None:
    admin = catalog.admin
    alice = admin.recipients.create("alice", properties={"pair": '["\\ud83d\\ude00"]'})
    with pytest.raises(InvalidParameter):
        admin.recipients.create("bob", properties={"site": text})
    with pytest.raises(InvalidParameter):
        admin.recipients.update("alice", add_properties={"site": text})
    assert list(admin.recipients.list()) == [alice]


def test_text_that_is_no_unicode_enters_no_view_filter_or_comment(catalog: Catalog) -> None:
    admin = catalog.admin
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    table = admin.tables.create("s", "d", "t", "s3://bucket/t")
    half = "a\udcff"
    attempts: list[Callable[[], object]] = [
        lambda: admin.shares.create(half),
        lambda: admin.shares.get(half),
        lambda: admin.schemas.create("s", half),
        lambda: admin.tables.create("s", "d", half, "s3://bucket/u"),
        lambda: admin.tables.create("s", "d", "u", f"s3://bucket/{half}"),
        lambda: admin.tables.update("s", "d", "t", hidden_columns=(half,)),
        lambda: admin.tables.update("s", "d", "t", partition_filter=f"day = '{half}'"),
        lambda: admin.recipients.create("alice", comment=half),
        lambda: admin.recipients.get(half),
        lambda: admin.storages.create("other", endpoint=f"http://{half}:9000"),
    ]
    for attempt in attempts:
        with pytest.raises((InvalidParameter, NotFound)):
            attempt()
    assert list(admin.tables.list("s")) == [table]


def test_a_grant_is_seen_from_both_sides(catalog: Catalog) -> None:
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


def test_a_revoked_grant_is_gone_on_both_sides(catalog: Catalog) -> None:
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


def test_deleting_a_recipient_takes_its_tokens_and_grants(catalog: Catalog) -> None:
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


def test_no_token_and_no_grant_for_a_recipient_that_is_going_or_gone(catalog: Catalog) -> None:
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
