"""Invitations: one link makes one token, until its end, and what a stranger finds out is that it does not work."""

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


def at(catalog: Catalog, moment: float) -> Invitations:
    """Return the invitations as they are seen at a moment."""
    clock = partial(float, moment)
    return Invitations(catalog.tokens_table, catalog.dynamo, catalog.token_admin(clock), clock)


def outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except (LinkGone, DeltaicError) as refusal:
        return type(refusal).__name__
    return "done"


def race(*contestants: Callable[[], Any]) -> list[str]:
    """Run all at the same moment; return how each of them ended."""
    line = threading.Barrier(len(contestants))

    def run(contestant: Callable[[], Any]) -> str:
        line.wait()
        return outcome(contestant)

    with ThreadPoolExecutor(len(contestants)) as pool:
        return list(pool.map(run, contestants))


def test_a_link_makes_one_token_of_the_life_that_was_promised(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT, token_life=timedelta(hours=5), comment="laptop")
    assert made.link == f"{ENDPOINT}/activate/{made.secret}"
    issued = catalog.admin.invitations.use(made.secret)
    token = catalog.tokens().authenticate(issued.secret)
    assert (token.recipient_id, token.comment) == (alice.id, "laptop")
    assert token.expires_at - token.created_at == timedelta(hours=5)
    (used,) = catalog.admin.invitations.list(alice.id)
    assert (used.state(), used.token_id, used.used_at) == ("used", token.id, token.created_at)
    # The token has been used: its link is gone.
    with pytest.raises(LinkGone):
        catalog.admin.invitations.use(made.secret)
    with pytest.raises(LinkGone):
        catalog.admin.invitations.find(made.secret)
    assert len(catalog.token_admin().list(alice.id)) == 1


def test_the_secret_is_stored_nowhere_and_shown_by_no_repr(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(made.secret)
    stored = str(catalog.items())
    random = made.secret.removeprefix(UUID(alice.id).hex)
    assert len(random) == 43  # 256 bits
    for text in (made.secret, random, issued.secret):
        assert text not in stored
        assert text not in repr((made, issued))
    assert made.invitation.id in stored


@pytest.mark.parametrize(("seconds", "state"), [(-1, "open"), (0, "expired"), (1, "expired")])
def test_a_link_ends_to_the_second(catalog: Catalog, alice: Recipient, seconds: int, state: str) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT, timedelta(hours=72))
    then = made.invitation.expires_at + timedelta(seconds=seconds)
    seen = at(catalog, then.timestamp())
    assert [one.state(then) for one in seen.list(alice.id)] == [state]
    assert outcome(lambda: seen.use(made.secret)) == ("done" if state == "open" else "LinkGone")


@pytest.mark.parametrize("life", [timedelta(seconds=59), timedelta(days=30, seconds=1), timedelta(0), timedelta(-1)])
def test_a_life_that_no_link_may_have_is_refused(catalog: Catalog, alice: Recipient, life: timedelta) -> None:
    with pytest.raises(InvalidParameter, match="30 days"):
        catalog.admin.invitations.create(alice, ENDPOINT, life)
    assert catalog.admin.invitations.list(alice.id) == []


def test_a_link_is_for_its_recipient_alone(catalog: Catalog, alice: Recipient) -> None:
    bob = catalog.admin.recipients.create("bob")
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    random = made.secret.removeprefix(UUID(alice.id).hex)
    guesses = [
        UUID(bob.id).hex + random,
        random,
        made.secret.upper(),
        made.secret + "A",
        made.secret[:-1],
        "",
        "/",
        "\n",
    ]
    guesses += [made.secret + "\n", f"{UUID(alice.id)}{random}", made.invitation.id, "\ud800" * 75]
    assert {outcome(partial(catalog.admin.invitations.use, guess)) for guess in guesses} == {"LinkGone"}
    with pytest.raises(NotFound, match="recipient invites bob"):
        catalog.admin.invitations.cancel(bob, made.invitation.id)
    assert catalog.admin.invitations.find(made.secret) == made.invitation


@pytest.mark.parametrize("tokens", [0, 1], ids=["first place", "last place"])
def test_many_clicks_at_once_show_one_token(catalog: Catalog, alice: Recipient, tokens: int) -> None:
    for _ in range(tokens):
        catalog.token_admin().create(alice)
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    shown = set[str]()
    ended = race(*[lambda: shown.add(catalog.admin.invitations.use(made.secret).secret)] * RACERS)
    assert (ended, len(shown)) == (["done"] * RACERS, 1)
    assert len(catalog.token_admin().list(alice.id)) == tokens + 1
    assert catalog.tokens().authenticate(shown.pop()).recipient_id == alice.id


def test_a_link_shows_its_token_again_until_the_token_is_first_used(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(made.secret)
    assert catalog.admin.invitations.find(made.secret).token_id == issued.token.id
    again = catalog.admin.invitations.use(made.secret)
    assert (again.secret, again.token.id) == (issued.secret, issued.token.id)
    assert catalog.token_admin().list(alice.id)[0].salt
    assert not catalog.tokens().authenticate(issued.secret).revoked
    assert outcome(lambda: catalog.admin.invitations.find(made.secret)) == "LinkGone"
    assert outcome(lambda: catalog.admin.invitations.use(made.secret)) == "LinkGone"
    # What was stored to make the token's secret of the link's is stored no more.
    assert issued.token.salt not in str(catalog.items())
    assert catalog.tokens().authenticate(issued.secret).id == issued.token.id


def test_a_link_whose_token_has_ended_or_that_has_ended_itself_shows_nothing(
    catalog: Catalog, alice: Recipient
) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT, timedelta(hours=1))
    other = catalog.admin.invitations.create(alice, ENDPOINT)
    issued = catalog.admin.invitations.use(made.secret)
    late = at(catalog, made.invitation.expires_at.timestamp())
    assert outcome(lambda: late.use(made.secret)) == "LinkGone"
    catalog.token_admin().revoke(alice, catalog.admin.invitations.use(other.secret).token.id)
    assert outcome(lambda: catalog.admin.invitations.use(other.secret)) == "LinkGone"
    assert catalog.admin.invitations.use(made.secret).secret == issued.secret


def test_many_links_at_once_make_two_tokens_and_the_others_stay(catalog: Catalog, alice: Recipient) -> None:
    links = [catalog.admin.invitations.create(alice, ENDPOINT).secret for _ in range(RACERS)]
    ended = race(*[partial(catalog.admin.invitations.use, link) for link in links])
    assert sorted(ended) == ["Conflict"] * (RACERS - 2) + ["done"] * 2
    states = sorted(one.state() for one in catalog.admin.invitations.list(alice.id))
    assert states == ["open"] * (RACERS - 2) + ["used"] * 2


def test_a_link_is_either_cancelled_or_used(catalog: Catalog, alice: Recipient) -> None:
    for _ in range(4):
        made = catalog.admin.invitations.create(alice, ENDPOINT, overlap=timedelta(0))
        used, cancelled = race(
            partial(catalog.admin.invitations.use, made.secret),
            partial(catalog.admin.invitations.cancel, alice, made.invitation.id),
        )
        assert (used, cancelled) in {("done", "Conflict"), ("LinkGone", "done")}
        (state,) = [one.state() for one in catalog.admin.invitations.list(alice.id) if one.id == made.invitation.id]
        assert state == ("used" if used == "done" else "cancelled")


def test_a_used_link_cannot_be_cancelled_and_the_refusal_says_what_to_do(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    catalog.admin.invitations.use(made.secret)
    with pytest.raises(Conflict, match="deltaic token revoke"):
        catalog.admin.invitations.cancel(alice, made.invitation.id)


def test_a_link_that_rotates_leaves_the_old_token_its_overlap_from_the_click_on(
    catalog: Catalog, alice: Recipient
) -> None:
    old = catalog.token_admin().create(alice)
    made = catalog.admin.invitations.create(alice, ENDPOINT, overlap=timedelta(hours=2))
    assert catalog.token_admin().get(alice, old.token.id).expires_at == old.token.expires_at
    clicked = time.time() + 36_000
    new = at(catalog, clicked).use(made.secret)
    both = (old.secret, new.secret)
    for seconds, live in ((7100, both), (7300, (new.secret,))):
        store = catalog.tokens(partial(float, clicked + seconds))
        assert tuple(secret for secret in both if outcome(partial(store.authenticate, secret)) == "done") == live


def test_nobody_is_invited_who_is_gone_and_no_link_outlives_its_recipient(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    catalog.admin.recipients.delete("alice")
    assert outcome(lambda: catalog.admin.invitations.use(made.secret)) == "LinkGone"
    with pytest.raises(NotFound):
        catalog.admin.invitations.create(alice, ENDPOINT)
    again = catalog.admin.recipients.create("alice")
    assert again.id != alice.id
    assert catalog.admin.invitations.list(again.id) == []
    assert outcome(lambda: catalog.admin.invitations.use(made.secret)) == "LinkGone"


def test_a_recipient_that_is_deleted_meanwhile_gets_no_token(catalog: Catalog, alice: Recipient) -> None:
    made = catalog.admin.invitations.create(alice, ENDPOINT)
    used, deleted = race(
        lambda: catalog.admin.invitations.use(made.secret), lambda: catalog.admin.recipients.delete("alice")
    )
    assert deleted == "done"
    assert used in {"done", "LinkGone"}
    assert catalog.items() == []
