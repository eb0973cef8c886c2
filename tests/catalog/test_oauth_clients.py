"""OAuth clients: authentication by id and secret, at most five per recipient, and deletion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from deltaic.errors import Conflict, NotFound

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.items import Recipient


@pytest.fixture
def alice(catalog: Catalog) -> Recipient:
    return catalog.admin.recipients.create("alice")


def test_client_authenticates_with_its_secret_which_is_not_stored(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.admin.clients.create(alice, comment="nightly")
    store = catalog.client_store()
    assert store.authenticate(issued.client.id, issued.secret) == store.get(issued.client.id) == issued.client
    assert (issued.client.recipient, issued.client.comment) == ("alice", "nightly")
    assert issued.secret not in repr(issued)
    stored = str(catalog.items())
    assert issued.secret not in stored
    assert stored.count(sha256(issued.secret.encode()).hexdigest()) == 1


@pytest.mark.parametrize("secret", ["", "dls_", "dls_" + "A" * 43, "\ud800", "x" * 10_000])
def test_wrong_secret_is_refused(catalog: Catalog, alice: Recipient, secret: str) -> None:
    issued = catalog.admin.clients.create(alice)
    other = catalog.admin.clients.create(alice)
    assert catalog.client_store().authenticate(issued.client.id, secret) is None
    assert catalog.client_store().authenticate(issued.client.id, other.secret) is None
    assert catalog.client_store().authenticate(issued.client.id, sha256(issued.secret.encode()).hexdigest()) is None


@pytest.mark.parametrize("client_id", ["", "dlc_", "DLC_" + "0" * 24, "dlc_" + "0" * 24, "x" * 5000, "\ud800"])
def test_unknown_client_is_refused(catalog: Catalog, client_id: str) -> None:
    assert catalog.client_store().get(client_id) is None
    assert catalog.client_store().authenticate(client_id, "dls_") is None


def test_recipient_has_at_most_five_clients(catalog: Catalog, alice: Recipient) -> None:
    def race(_: int) -> bool:
        try:
            catalog.admin.clients.create(alice)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(race, range(8))) == 5
    assert len(catalog.admin.clients.list(alice.id)) == 5
    first = catalog.admin.clients.list(alice.id)[0]
    assert catalog.admin.clients.revoke(alice, first.id) == first
    assert catalog.admin.clients.create(alice)


def test_revoked_client_is_refused_and_others_keep_working(catalog: Catalog, alice: Recipient) -> None:
    revoked, remaining = catalog.admin.clients.create(alice), catalog.admin.clients.create(alice)
    catalog.admin.clients.revoke(alice, revoked.client.id)
    assert catalog.client_store().get(revoked.client.id) is None
    assert catalog.client_store().authenticate(revoked.client.id, revoked.secret) is None
    assert catalog.client_store().authenticate(remaining.client.id, remaining.secret)
    with pytest.raises(NotFound, match="deltaic recipient clients alice"):
        catalog.admin.clients.revoke(alice, revoked.client.id)
    bob = catalog.admin.recipients.create("bob")
    with pytest.raises(NotFound):
        catalog.admin.clients.revoke(bob, remaining.client.id)


def test_deleted_recipient_loses_its_clients(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.admin.clients.create(alice)
    catalog.admin.recipients.delete("alice")
    assert catalog.client_store().get(issued.client.id) is None
    assert catalog.items() == []
    with pytest.raises(NotFound):
        catalog.admin.clients.create(alice)
