"""Policies on JWTs: found by their issuer, listed by their recipient, and gone with it."""

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


def made(catalog: Catalog, recipient: Recipient, subject: str = "7f3c", audience: str = "deltaic") -> Policy:
    return catalog.admin.federation.create(recipient, ISSUER, audience=audience, claim="sub", subject=subject)


def test_a_policy_is_found_by_its_issuer_to_the_letter(catalog: Catalog, alice: Recipient) -> None:
    policy = made(catalog, alice)
    assert list(catalog.policies().of_issuer(ISSUER)) == [policy]
    for other in (ISSUER.lower(), ISSUER + "/", "", "policy", "https://other.example"):
        assert list(catalog.policies().of_issuer(other)) == []
    assert list(catalog.admin.federation.list(alice.id)) == [policy]


def test_what_a_policy_says_is_said_once(catalog: Catalog, alice: Recipient) -> None:
    bob = catalog.admin.recipients.create("bob")
    made(catalog, alice)
    made(catalog, alice, "another")
    made(catalog, alice, audience="another")
    for recipient in (alice, bob):
        with pytest.raises(AlreadyExists, match="'alice' has policy"):
            made(catalog, recipient)
    assert list(catalog.admin.federation.list(bob.id)) == []


def test_a_note_is_changed_where_the_policy_stands(catalog: Catalog, alice: Recipient) -> None:
    policy = made(catalog, alice)
    changed = catalog.admin.federation.update(alice, policy.id, comment="of the lab")
    assert (changed.id, changed.comment) == (policy.id, "of the lab")
    assert list(catalog.policies().of_issuer(ISSUER)) == [changed] == list(catalog.admin.federation.list(alice.id))
    catalog.admin.federation.remove(alice, policy.id)
    with pytest.raises(NotFound, match="deltaic recipient policies alice"):
        catalog.admin.federation.update(alice, policy.id, comment="")


def test_one_of_many_racing_recipients_gets_a_policy(catalog: Catalog) -> None:
    people = [catalog.admin.recipients.create(f"r{number}") for number in range(8)]

    def race(recipient: Recipient) -> bool:
        try:
            made(catalog, recipient)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(race, people)) == 1
    (policy,) = catalog.policies().of_issuer(ISSUER)
    assert [len(catalog.admin.federation.list(person.id)) for person in people].count(1) == 1
    assert list(catalog.admin.federation.list(policy.recipient_id)) == [policy]


def test_a_removed_policy_is_nowhere_and_can_be_another_recipients(catalog: Catalog, alice: Recipient) -> None:
    policy = made(catalog, alice)
    kept = made(catalog, alice, "kept")
    assert catalog.admin.federation.remove(alice, policy.id) == policy
    assert list(catalog.policies().of_issuer(ISSUER)) == [kept]
    with pytest.raises(NotFound, match="deltaic recipient policies alice"):
        catalog.admin.federation.remove(alice, policy.id)
    assert made(catalog, catalog.admin.recipients.create("bob")).recipient == "bob"


def test_with_a_recipient_go_its_policies(catalog: Catalog, alice: Recipient) -> None:
    made(catalog, alice)
    made(catalog, alice, "another")
    catalog.admin.recipients.delete("alice")
    assert list(catalog.policies().of_issuer(ISSUER)) == []
    assert catalog.items() == []
    with pytest.raises(NotFound):
        made(catalog, alice)


@pytest.mark.parametrize("text", ["", "x" * 513, "line\nend", "\ud800"])
def test_what_no_claim_can_be_is_refused(catalog: Catalog, alice: Recipient, text: str) -> None:
    for words in ({"subject": text}, {"audience": text}):
        with pytest.raises(InvalidParameter):
            made(catalog, alice, **words)
    assert list(catalog.policies().of_issuer(ISSUER)) == []
