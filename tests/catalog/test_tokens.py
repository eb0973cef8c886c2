"""Tokens: authentication, expiry, revocation and rotation, with one message for every refusal."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from catalog import schema
from deltaic.errors import Conflict, InvalidParameter, NotFound, Unauthenticated

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.items import Recipient

DAY = 86_400.0


@pytest.fixture
def alice(catalog: Catalog) -> Recipient:
    return catalog.admin.recipients.create("alice")


def in_days(days: float) -> float:
    return time.time() + days * DAY


def test_token_authenticates_its_recipient(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.token_admin().create(alice, comment="laptop")
    token = catalog.tokens().authenticate(issued.secret)
    assert token == issued.token
    assert (token.recipient_id, token.recipient, token.comment) == (alice.id, "alice", "laptop")
    assert token.expires_at - token.created_at == timedelta(days=90)


def test_secret_is_neither_stored_nor_in_a_repr(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.token_admin().create(alice)
    assert len(issued.secret) == 47
    assert issued.secret.startswith("dlt_")
    assert issued.secret not in repr(issued)
    digest = sha256(issued.secret.encode()).hexdigest()
    assert digest.startswith(issued.token.id)
    stored = str(catalog.items())
    assert issued.secret not in stored
    assert f"token/{digest}" in stored


@pytest.mark.parametrize(
    "bearer",
    [
        pytest.param("", id="empty"),
        pytest.param("dlt_", id="prefix-only"),
        pytest.param("dlt_" + "A" * 43, id="invented"),
        pytest.param("dlt_" + "A" * 44, id="too-long"),
        pytest.param("dlt_" + "A" * 42 + "\n", id="newline"),
        pytest.param("dlt_" + "\ud800" * 43, id="surrogate"),
        pytest.param("x" * 100_000, id="huge"),
        pytest.param("../token", id="path"),
    ],
)
def test_invalid_token_is_refused(catalog: Catalog, alice: Recipient, bearer: str) -> None:
    catalog.token_admin().create(alice)
    with pytest.raises(Unauthenticated):
        catalog.tokens().authenticate(bearer)


def test_every_refusal_has_the_same_message(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    revoked = admin.create(alice)
    admin.revoke(alice, revoked.token.id)
    expired = admin.create(alice)
    refusals = set()
    for bearer, days in ((revoked.secret, 0), (expired.secret, 91), ("dlt_" + "A" * 43, 0)):
        with pytest.raises(Unauthenticated) as refusal:
            catalog.tokens(lambda days=days: in_days(days)).authenticate(bearer)  # type: ignore[misc]
        refusals.add(refusal.value.message)
    assert len(refusals) == 1


@pytest.mark.parametrize(("seconds", "live"), [(-1, True), (0, False), (1, False)], ids=["before", "at", "after"])
def test_token_expires_to_the_second(catalog: Catalog, alice: Recipient, seconds: int, live: bool) -> None:
    issued = catalog.token_admin().create(alice, timedelta(hours=1))
    now = issued.token.expires_at.timestamp() + seconds
    store = catalog.tokens(lambda: now)
    if live:
        assert store.authenticate(issued.secret).id == issued.token.id
    else:
        with pytest.raises(Unauthenticated):
            store.authenticate(issued.secret)


def test_revocation_is_immediate_and_repeatable(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    first, second = admin.create(alice), admin.create(alice)
    assert admin.revoke(alice, first.token.id).revoked
    assert admin.revoke(alice, first.token.id).revoked
    with pytest.raises(Unauthenticated):
        catalog.tokens().authenticate(first.secret)
    assert catalog.tokens().authenticate(second.secret).id == second.token.id
    with pytest.raises(NotFound, match="has no token"):
        admin.revoke(alice, "nothing")


def test_tokens_are_listed_by_recipient_with_states(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    bob = catalog.admin.recipients.create("bob")
    admin.create(bob)
    revoked = admin.create(alice).token
    admin.revoke(alice, revoked.id)
    live = admin.create(alice).token
    states = {token.id: token.state() for token in admin.list(alice.id)}
    assert states == {revoked.id: "revoked", live.id: "live"}
    assert live.state(live.expires_at) == "expired"
    assert admin.get(alice, live.id) == live
    assert len(admin.list(bob.id)) == 1


def test_third_live_token_is_refused(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    first = admin.create(alice)
    second = admin.create(alice)
    with pytest.raises(Conflict, match=f"(?=.*{first.token.id})(?=.*{second.token.id})"):
        admin.create(alice)
    admin.revoke(alice, first.token.id)
    admin.create(alice)


def test_expired_token_does_not_count_as_live(catalog: Catalog, alice: Recipient) -> None:
    for _ in range(2):
        catalog.token_admin().create(alice)
    later = catalog.token_admin(lambda: in_days(91))
    issued = later.create(alice)
    assert catalog.tokens().authenticate(issued.secret).id == issued.token.id


def test_rotation_shortens_but_never_extends_the_old_token(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    old = admin.create(alice, timedelta(days=10))
    new = admin.create(alice, timedelta(days=20), overlap=timedelta(days=2))
    for bearer in (old, new):
        assert catalog.tokens().authenticate(bearer.secret).id == bearer.token.id
    ends = admin.get(alice, old.token.id).expires_at - old.token.created_at
    assert timedelta(days=2) <= ends < timedelta(days=2, minutes=1)
    with pytest.raises(Unauthenticated):
        catalog.tokens(lambda: in_days(2.01)).authenticate(old.secret)
    assert catalog.tokens(lambda: in_days(2.01)).authenticate(new.secret).id == new.token.id

    # The overlap of the next rotation is longer than the rest of the old token's life.
    later = catalog.token_admin(lambda: in_days(3))
    later.create(alice, overlap=timedelta(days=30))
    assert admin.get(alice, new.token.id).expires_at == new.token.expires_at


def test_rotation_with_two_live_tokens_requires_no_overlap(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    old = [admin.create(alice) for _ in range(2)]
    with pytest.raises(Conflict, match="revoke one"):
        admin.create(alice, overlap=timedelta(days=1))
    new = admin.create(alice, overlap=timedelta(0))
    for issued in old:
        with pytest.raises(Unauthenticated):
            catalog.tokens().authenticate(issued.secret)
    assert catalog.tokens().authenticate(new.secret).id == new.token.id


@pytest.mark.parametrize("life", [timedelta(0), timedelta(days=-1), timedelta(days=366)], ids=str)
def test_invalid_lifetime_is_refused(catalog: Catalog, alice: Recipient, life: timedelta) -> None:
    with pytest.raises(InvalidParameter):
        catalog.token_admin().create(alice, life)
    with pytest.raises(InvalidParameter):
        catalog.token_admin().create(alice, life, overlap=timedelta(days=1))
    with pytest.raises(InvalidParameter):
        catalog.token_admin().create(alice, overlap=timedelta(seconds=-1))
    assert catalog.token_admin().list(alice.id) == []


def delete_expired(catalog: Catalog, now: float) -> None:
    """Delete expired items, as DynamoDB does within days."""
    for item in catalog.items():
        if int(item.get(schema.EXPIRY, {"N": now + 1})["N"]) <= now:
            catalog.dynamo.client.delete_item(TableName=catalog.tokens_table, Key={"pk": item["pk"], "sk": item["sk"]})


def test_list_item_of_a_token_expires_after_the_token(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.token_admin().create(alice)
    described = catalog.dynamo.client.describe_time_to_live(TableName=catalog.tokens_table)
    assert described["TimeToLiveDescription"]["AttributeName"] == schema.EXPIRY
    ends = issued.token.expires_at
    expiries = {item["sk"]["S"]: int(item[schema.EXPIRY]["N"]) for item in catalog.items() if schema.EXPIRY in item}
    assert expiries == {
        "token": ends.timestamp(),
        f"token/{issued.token.id}": (ends + timedelta(days=90)).timestamp(),
    }


def test_expired_token_is_listed_for_ninety_days(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.token_admin().create(alice, timedelta(days=1))
    catalog.token_admin().create(alice, overlap=timedelta(hours=1))
    for days, expected in ((0, ["live"]), (0.1, ["expired"]), (89, ["expired"]), (90.1, [])):
        delete_expired(catalog, in_days(days))
        now = datetime.fromtimestamp(in_days(days), UTC)
        tokens = [token for token in catalog.token_admin().list(alice.id) if token.id == issued.token.id]
        assert [token.state(now) for token in tokens] == expected, days
        if days:
            with pytest.raises(Unauthenticated):
                catalog.tokens(lambda days=days: in_days(days)).authenticate(issued.secret)  # type: ignore[misc]


def test_tokens_stored_by_older_releases_keep_working(catalog: Catalog, alice: Recipient) -> None:
    """Older releases stored only `expires` in the list, without a later time for the deletion."""
    issued = [catalog.token_admin().create(alice) for _ in range(2)]
    for token_issued in issued:
        catalog.dynamo.client.update_item(
            TableName=catalog.tokens_table,
            Key={"pk": {"S": f"recipient/{alice.id}"}, "sk": {"S": f"token/{token_issued.token.id}"}},
            UpdateExpression="SET expires = :end REMOVE expires_at",
            ExpressionAttributeValues={":end": {"N": str(int(token_issued.token.expires_at.timestamp()))}},
        )
    admin, ids = catalog.token_admin(), [token_issued.token.id for token_issued in issued]
    assert sorted(token.id for token in admin.list(alice.id)) == sorted(ids)
    assert admin.get(alice, ids[0]) == issued[0].token
    assert admin.revoke(alice, ids[0]).revoked
    admin.create(alice, overlap=timedelta(days=1))
    delete_expired(catalog, in_days(2))
    assert admin.get(alice, ids[1]).state(datetime.fromtimestamp(in_days(2), UTC)) == "expired"


def test_token_deleted_from_the_table_can_be_revoked_and_stays_listed(catalog: Catalog, alice: Recipient) -> None:
    issued = catalog.token_admin().create(alice)
    delete_expired(catalog, in_days(91))
    assert catalog.token_admin().revoke(alice, issued.token.id).revoked
    assert [token.state() for token in catalog.token_admin().list(alice.id)] == ["revoked"]


def test_token_for_checks_has_a_marked_id_and_leaves_no_items(catalog: Catalog, alice: Recipient) -> None:
    admin = catalog.token_admin()
    tokens = [admin.create(alice).token for _ in range(2)]
    before = catalog.items()
    with admin.for_checks(alice) as bearer:
        token = catalog.tokens().authenticate(bearer)
        assert (token.recipient_id, token.recipient) == (alice.id, "alice")
        assert re.fullmatch(r"check-[0-9a-f]{12}", token.id)
        assert token.expires_at - token.created_at == timedelta(minutes=15)
        assert sorted(admin.list(alice.id), key=str) == sorted(tokens, key=str)
        admin.create(alice, overlap=timedelta(0))
        assert catalog.tokens().authenticate(bearer) == token
    with pytest.raises(Unauthenticated):
        catalog.tokens().authenticate(bearer)
    assert len(catalog.items()) == len(before) + 2


def test_token_for_checks_is_deleted_after_a_failure(catalog: Catalog, alice: Recipient) -> None:
    admin, before = catalog.token_admin(), catalog.items()
    with pytest.raises(RuntimeError), admin.for_checks(alice):
        raise RuntimeError
    assert catalog.items() == before
    catalog.admin.recipients.delete("alice")
    with pytest.raises(NotFound), admin.for_checks(alice):
        pass
