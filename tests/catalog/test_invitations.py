"""Invitations: each link creates one token until it expires, and every failure looks the same."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from deltaic.catalog.credentials.invitations import Invitations, LinkGone
from deltaic.errors import Conflict, DeltaicError, InvalidParameter, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog
    from deltaic.catalog.items import Recipient

ENDPOINT = "https://shares.test/delta-sharing"
RACERS = 8


@pytest.fixture
def alice(catalog: Catalog) -> Recipient:
    return catalog.admin.recipients.create("alice")


def invitations_at(catalog: Catalog, seconds: float) -> Invitations:
    """Return the invitations with a fixed clock."""
    clock = partial(float, seconds)
    return Invitations(catalog.tokens_table, catalog.dynamo, catalog.token_admin(clock), clock)


def result_of(act: Callable[[], Any]) -> str:
    try:
        act()
    except (LinkGone, DeltaicError) as refusal:
        return type(refusal).__name__
    return "done"


def race(*contestants: Callable[[], Any]) -> list[str]:
    """Run all at the same time; return "done" or the name of the error of each."""
    line = threading.Barrier(len(contestants))

    def run(contestant: Callable[[], Any]) -> str:
        line.wait()
        return result_of(contestant)

    with ThreadPoolExecutor(len(contestants)) as pool:
        return list(pool.map(run, contestants))


def test_link_creates_one_token_with_the_given_lifetime(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT, token_life=timedelta(hours=5), comment="laptop")
    assert link.link == f"{ENDPOINT}/activate/{link.secret}"
    issued = catalog.admin.invitations.use(link.secret)
    token = catalog.tokens().authenticate(issued.secret)
    assert (token.recipient_id, token.comment) == (alice.id, "laptop")
    assert token.expires_at - token.created_at == timedelta(hours=5)
    (used,) = catalog.admin.invitations.list(alice.id)
    assert (used.state(), used.token_id, used.used_at) == ("used", token.id, token.created_at)
    # After the first use of the token, the link does not work any more.
    with pytest.raises(LinkGone):
        catalog.admin.invitations.use(link.secret)
    with pytest.raises(LinkGone):
        catalog.admin.invitations.find(link.secret)
    assert len(catalog.token_admin().list(alice.id)) == 1


def test_secret_is_neither_stored_nor_in_any_repr(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(link.secret)
    stored = str(catalog.items())
    random = link.secret.removeprefix(UUID(alice.id).hex)
    assert len(random) == 43  # 256 bits
    for text in (link.secret, random, issued.secret):
        assert text not in stored
        assert text not in repr((link, issued))
    assert link.invitation.id in stored


@pytest.mark.parametrize(("seconds", "state"), [(-1, "open"), (0, "expired"), (1, "expired")])
def test_link_expires_to_the_second(catalog: Catalog, alice: Recipient, seconds: int, state: str) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT, timedelta(hours=72))
    then = link.invitation.expires_at + timedelta(seconds=seconds)
    invitations = invitations_at(catalog, then.timestamp())
    assert [invitation.state(then) for invitation in invitations.list(alice.id)] == [state]
    assert result_of(lambda: invitations.use(link.secret)) == ("done" if state == "open" else "LinkGone")


@pytest.mark.parametrize("life", [timedelta(seconds=59), timedelta(days=30, seconds=1), timedelta(0), timedelta(-1)])
def test_invalid_lifetime_is_refused(catalog: Catalog, alice: Recipient, life: timedelta) -> None:
    with pytest.raises(InvalidParameter, match="30 days"):
        catalog.admin.invitations.create(alice, ENDPOINT, life)
    assert catalog.admin.invitations.list(alice.id) == []


def test_link_works_only_for_its_recipient(catalog: Catalog, alice: Recipient) -> None:
    bob = catalog.admin.recipients.create("bob")
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    random = link.secret.removeprefix(UUID(alice.id).hex)
    guesses = [
        UUID(bob.id).hex + random,
        random,
        link.secret.upper(),
        link.secret + "A",
        link.secret[:-1],
        "",
        "/",
        "\n",
    ]
    guesses += [link.secret + "\n", f"{UUID(alice.id)}{random}", link.invitation.id, "\ud800" * 75]
    assert {result_of(partial(catalog.admin.invitations.use, guess)) for guess in guesses} == {"LinkGone"}
    with pytest.raises(NotFound, match="recipient invites bob"):
        catalog.admin.invitations.cancel(bob, link.invitation.id)
    assert catalog.admin.invitations.find(link.secret) == link.invitation


@pytest.mark.parametrize("tokens", [0, 1], ids=["first place", "last place"])
def test_concurrent_clicks_show_one_token(catalog: Catalog, alice: Recipient, tokens: int) -> None:
    for _ in range(tokens):
        catalog.token_admin().create(alice)
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    secrets = set[str]()
    results = race(*[lambda: secrets.add(catalog.admin.invitations.use(link.secret).secret)] * RACERS)
    assert (results, len(secrets)) == (["done"] * RACERS, 1)
    assert len(catalog.token_admin().list(alice.id)) == tokens + 1
    assert catalog.tokens().authenticate(secrets.pop()).recipient_id == alice.id


def test_link_shows_its_token_until_the_token_is_first_used(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(link.secret)
    assert catalog.admin.invitations.find(link.secret).token_id == issued.token.id
    again = catalog.admin.invitations.use(link.secret)
    assert (again.secret, again.token.id) == (issued.secret, issued.token.id)
    assert catalog.token_admin().list(alice.id)[0].salt
    assert not catalog.tokens().authenticate(issued.secret).revoked
    assert result_of(lambda: catalog.admin.invitations.find(link.secret)) == "LinkGone"
    assert result_of(lambda: catalog.admin.invitations.use(link.secret)) == "LinkGone"
    # The salt for the token's secret is deleted.
    assert issued.token.salt not in str(catalog.items())
    assert catalog.tokens().authenticate(issued.secret).id == issued.token.id


def test_link_shows_nothing_after_it_or_its_token_has_ended(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT, timedelta(hours=1))
    other = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(link.secret)
    late = invitations_at(catalog, link.invitation.expires_at.timestamp())
    assert result_of(lambda: late.use(link.secret)) == "LinkGone"
    catalog.token_admin().revoke(alice, catalog.admin.invitations.use(other.secret).token.id)
    assert result_of(lambda: catalog.admin.invitations.use(other.secret)) == "LinkGone"
    assert catalog.admin.invitations.use(link.secret).secret == issued.secret


def test_concurrent_links_create_two_tokens_and_the_others_stay_open(catalog: Catalog, alice: Recipient) -> None:
    links = [catalog.admin.invitations.create(alice, ENDPOINT).secret for _ in range(RACERS)]
    results = race(*[partial(catalog.admin.invitations.use, link) for link in links])
    assert sorted(results) == ["Conflict"] * (RACERS - 2) + ["done"] * 2
    states = sorted(link.state() for link in catalog.admin.invitations.list(alice.id))
    assert states == ["open"] * (RACERS - 2) + ["used"] * 2


def test_link_is_either_cancelled_or_used(catalog: Catalog, alice: Recipient) -> None:
    for _ in range(4):
        link = catalog.admin.invitations.create(alice, ENDPOINT, overlap=timedelta(0))
        used, cancelled = race(
            partial(catalog.admin.invitations.use, link.secret),
            partial(catalog.admin.invitations.cancel, alice, link.invitation.id),
        )
        assert (used, cancelled) in {("done", "Conflict"), ("LinkGone", "done")}
        (state,) = [
            invitation.state()
            for invitation in catalog.admin.invitations.list(alice.id)
            if invitation.id == link.invitation.id
        ]
        assert state == ("used" if used == "done" else "cancelled")


def test_cancelling_a_used_link_is_refused_with_a_remedy(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    catalog.admin.invitations.use(link.secret)
    with pytest.raises(Conflict, match="deltaic token revoke"):
        catalog.admin.invitations.cancel(alice, link.invitation.id)


def test_overlap_of_a_rotating_link_starts_with_the_click(catalog: Catalog, alice: Recipient) -> None:
    old = catalog.token_admin().create(alice)
    link = catalog.admin.invitations.create(alice, ENDPOINT, overlap=timedelta(hours=2))
    assert catalog.token_admin().get(alice, old.token.id).expires_at == old.token.expires_at
    click_time = time.time() + 36_000
    new = invitations_at(catalog, click_time).use(link.secret)
    both = (old.secret, new.secret)
    for seconds, live in ((7100, both), (7300, (new.secret,))):
        store = catalog.tokens(partial(float, click_time + seconds))
        assert tuple(secret for secret in both if result_of(partial(store.authenticate, secret)) == "done") == live


def test_deleted_recipient_has_no_links(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    catalog.admin.recipients.delete("alice")
    assert result_of(lambda: catalog.admin.invitations.use(link.secret)) == "LinkGone"
    with pytest.raises(NotFound):
        catalog.admin.invitations.create(alice, ENDPOINT)
    again = catalog.admin.recipients.create("alice")
    assert again.id != alice.id
    assert catalog.admin.invitations.list(again.id) == []
    assert result_of(lambda: catalog.admin.invitations.use(link.secret)) == "LinkGone"


def test_concurrently_deleted_recipient_gets_no_token(catalog: Catalog, alice: Recipient) -> None:
    link = catalog.admin.invitations.create(alice, ENDPOINT)
    used, deleted = race(
        lambda: catalog.admin.invitations.use(link.secret), lambda: catalog.admin.recipients.delete("alice")
    )
    assert deleted == "done"
    assert used in {"done", "LinkGone"}
    assert catalog.items() == []
