"""Policies on JWTs: look-up by issuer, listing by recipient, and deletion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.items import Policy, Recipient

ISSUER = "https://login.example.org/Realm"


@pytest.fixture
def alice(catalog: Catalog) -> Recipient:
    return catalog.admin.recipients.create("alice")


def create_policy(catalog: Catalog, recipient: Recipient, subject: str = "7f3c", audience: str = "deltaic") -> Policy:
    return catalog.admin.federation.create(recipient, ISSUER, audience=audience, claim="sub", subject=subject)


def test_policy_is_found_by_its_exact_issuer(catalog: Catalog, alice: Recipient) -> None:
    policy = create_policy(catalog, alice)
    assert list(catalog.policies().of_issuer(ISSUER)) == [policy]
    for unknown in (ISSUER.lower(), ISSUER + "/", "", "policy", "https://other.example"):
        assert list(catalog.policies().of_issuer(unknown)) == []
    assert list(catalog.admin.federation.list(alice.id)) == [policy]


def test_duplicate_policy_is_refused(catalog: Catalog, alice: Recipient) -> None:
    bob = catalog.admin.recipients.create("bob")
    create_policy(catalog, alice)
    create_policy(catalog, alice, "another")
    create_policy(catalog, alice, audience="another")
    for recipient in (alice, bob):
        with pytest.raises(AlreadyExists, match="'alice' has this policy already"):
            create_policy(catalog, recipient)
    assert list(catalog.admin.federation.list(bob.id)) == []


def test_comment_of_a_policy_is_updated_in_both_items(catalog: Catalog, alice: Recipient) -> None:
    policy = create_policy(catalog, alice)
    changed = catalog.admin.federation.update(alice, policy.id, comment="of the lab")
    assert (changed.id, changed.comment) == (policy.id, "of the lab")
    assert list(catalog.policies().of_issuer(ISSUER)) == [changed] == list(catalog.admin.federation.list(alice.id))
    catalog.admin.federation.remove(alice, policy.id)
    with pytest.raises(NotFound, match="deltaic recipient policies alice"):
        catalog.admin.federation.update(alice, policy.id, comment="")


def test_one_of_concurrent_recipients_gets_the_policy(catalog: Catalog) -> None:
    recipients = [catalog.admin.recipients.create(f"r{number}") for number in range(8)]

    def race(recipient: Recipient) -> bool:
        try:
            create_policy(catalog, recipient)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(race, recipients)) == 1
    (policy,) = catalog.policies().of_issuer(ISSUER)
    assert [len(catalog.admin.federation.list(recipient.id)) for recipient in recipients].count(1) == 1
    assert list(catalog.admin.federation.list(policy.recipient_id)) == [policy]


def test_removed_policy_can_be_created_for_another_recipient(catalog: Catalog, alice: Recipient) -> None:
    policy = create_policy(catalog, alice)
    remaining = create_policy(catalog, alice, "kept")
    assert catalog.admin.federation.remove(alice, policy.id) == policy
    assert list(catalog.policies().of_issuer(ISSUER)) == [remaining]
    with pytest.raises(NotFound, match="deltaic recipient policies alice"):
        catalog.admin.federation.remove(alice, policy.id)
    assert create_policy(catalog, catalog.admin.recipients.create("bob")).recipient == "bob"


def test_deleted_recipient_loses_its_policies(catalog: Catalog, alice: Recipient) -> None:
    create_policy(catalog, alice)
    create_policy(catalog, alice, "another")
    catalog.admin.recipients.delete("alice")
    assert list(catalog.policies().of_issuer(ISSUER)) == []
    assert catalog.items() == []
    with pytest.raises(NotFound):
        create_policy(catalog, alice)


@pytest.mark.parametrize("text", ["", "x" * 513, "line\nend", "\ud800"])
def test_invalid_claim_is_refused(catalog: Catalog, alice: Recipient, text: str) -> None:
    for fields in ({"subject": text}, {"audience": text}):
        with pytest.raises(InvalidParameter):
            create_policy(catalog, alice, **fields)
    assert list(catalog.policies().of_issuer(ISSUER)) == []
