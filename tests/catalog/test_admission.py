"""Who is answered: recipient x key x endpoint x object x address x time, as a model of a few plain rules says.

The model knows neither items nor keys: it is told what the administrator said, and answers with a status. Each kind of
key is an entry of `KEYS`, with what its holder sends and from when until when it holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Literal

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.reader import CatalogReader
from deltaic.catalog.restrictions import MOST_ADDRESSES, NEVER
from deltaic.errors import DeltaicError, InvalidParameter, NotFound, TooManyRequests, Unauthenticated, Unavailable
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.server_tokens import public_jwk
from deltaic.protocol.requests import ListRequest
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.sharing import catalog_listing
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.memory import Memory
from deltaic.sign_in.bearer import identify
from deltaic.sign_in.jwt_bearers import Bearer, JwtBearers, ServerClients
from deltaic.sign_in.token_issuing import TokenIssuing
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from identity.issuer import Issuer, private_key

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.items import Recipient, Token

pytestmark = pytest.mark.slow

LOCATION = "s3://bucket/some/table"
DAY, SKEW, TICK = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
HERE, SIX, ELSEWHERE = "203.0.113.7", "2001:db8::7", "198.51.100.1"
ADDRESSES = (HERE, SIX, "::ffff:203.0.113.7", ELSEWHERE, "", "203.0.113.7, 198.51.100.1")
LISTS = ((), ("203.0.113.0/24",), ("2001:db8::/32",), ("203.0.113.7",), ("192.0.2.0/24", "2001:db8::7/128"))
SHARES = ("s1", "s2", "S3", "absent")


def means(catalog: Catalog, now: Callable[[], float], *, fail_closed: bool = False, counters: Any = None) -> Sharing:
    """Return what use cases have, at a time of the test's own."""
    storage = StorageConfig()
    return Sharing(
        catalog=CatalogReader(catalog.catalog_table, catalog.dynamo, clock=now),
        token_key=lambda: TokenSigner(b"k" * 32),
        sessions=SigningSessions(),
        home=storage,
        url_ttl=timedelta(hours=1),
        memory=Memory(1 << 20),
        queries=lambda: pytest.fail("nobody submits"),
        iceberg_bucket=lambda: pytest.fail("nobody loads"),
        start_iceberg_generation=lambda _: pytest.fail("nobody loads"),
        iceberg_files_at_once=0,
        counters=counters or LimitCounters(catalog.catalog_table, catalog.dynamo),
        limits_fail_closed=fail_closed,
        clock=now,
    )


PAGE = ListRequest.parse({})
ENDPOINTS: dict[str, Callable[[Sharing, Caller, str], object]] = {
    "list shares": lambda s, c, _: catalog_listing.list_shares(s, c, PAGE),
    "get share": catalog_listing.get_share,
    "list schemas": lambda s, c, share: catalog_listing.list_schemas(s, c, share, PAGE),
    "list tables": lambda s, c, share: catalog_listing.list_tables(s, c, share, "x", PAGE),
    "list all tables": lambda s, c, share: catalog_listing.list_all_tables(s, c, share, PAGE),
    # All endpoints of a table begin with this.
    "table": lambda s, c, share: s.table(c, RequestedTable(share, "x", "t")).entry.name,
}


@dataclass
class Said:
    """What the administrator said of one recipient."""

    addresses: tuple[str, ...] = ()
    ends: datetime | None = None
    cut_off: bool = False
    grants: dict[str, datetime | None] = field(default_factory=dict)
    """By the share's name: when the grant ends."""


@dataclass
class Key:
    """What its holder sends, and from when until when it holds."""

    sent: str
    begins: datetime
    ends: datetime


class Keys:
    """Makes the keys of recipients, and tells whose one is as the authorizer does."""

    def __init__(self, catalog: Catalog, start: datetime, chance: random.Random) -> None:
        self._catalog = catalog
        self._start = start
        self._chance = chance
        self.issuer = Issuer("https://login.example.org/realms/acme")
        self.issuer.rotate("first", "ES256")
        private = private_key("ES256")
        self._own_key = public_jwk(private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
        self._sign = lambda message: private.sign(message, ECDSA(SHA256()))

    def authenticate(self, sent: str, clock: Callable[[], float]) -> Token | Bearer:
        """Return whose it is by then; raises Unauthenticated."""
        own = ServerClients(self._catalog.client_store(), IssuerKeys(lambda _: (self._own_key,), clock))
        keys = IssuerKeys(lambda _: tuple(self.issuer.jwks()["keys"]), clock)
        return identify(
            sent, self._catalog.tokens(clock), lambda: JwtBearers(self._catalog.policies(), keys, own, clock)
        )

    def token(self, person: Recipient) -> Key:
        """Make a bearer token, which may be revoked; a cut-off ends it for good."""
        tokens = self._catalog.token_admin()
        issued = tokens.create(person, self._chance.choice((DAY, 30 * DAY)))
        ends = issued.token.expires_at
        if self._chance.random() < 0.2:
            tokens.revoke(person, issued.token.id)
            ends = self._start
        return Key(issued.secret, self._start, ends)

    def federated(self, person: Recipient) -> Key:
        """Make a JWT of an issuer, whose policy may be removed."""
        claim: Literal["sub", "groups"] = self._chance.choice(("sub", "groups"))
        subject = f"subject {person.name}"
        federation = self._catalog.admin.federation
        policy = federation.create(person, self.issuer.url, audience="deltaic", claim=claim, subject=subject)
        begins = self._chance.choice((None, self._start, self._start + DAY))
        ends = self._start + self._chance.choice((DAY, 2 * DAY))
        if self._chance.random() < 0.2:
            federation.remove(person, policy.id)
            ends = self._start - DAY
        issued = int(self._start.timestamp())
        sent = self.issuer.token(
            **{claim: [subject, "other"] if claim == "groups" else subject},
            nbf=begins and int(begins.timestamp()),
            iat=issued,
            exp=int(ends.timestamp()) if ends > self._start else issued + 99 * 86_400,
        )
        return Key(sent, (begins or self._start) - SKEW, ends + SKEW)

    def own(self, person: Recipient) -> Key:
        """Make a JWT of ours for a client, which may be revoked."""
        made = self._catalog.admin.clients.create(person)
        life = self._chance.choice((DAY, 2 * DAY))
        issuing = TokenIssuing(
            self._catalog.client_store(),
            lambda: self._own_key,
            self._sign,
            int(life.total_seconds()),
            self._start.timestamp,
        )
        form = f"grant_type=client_credentials&client_id={made.client.id}&client_secret={made.secret}"
        _, answer = issuing.grant("https://shares.example.org", form.encode(), "")
        ends = self._start + life
        if self._chance.random() < 0.2:
            self._catalog.admin.clients.revoke(person, made.client.id)
            ends = self._start - DAY
        return Key(answer["access_token"], self._start - SKEW, ends + SKEW)

    def of_nobody(self) -> list[Key]:
        """Return what no recipient was given."""
        stranger = Issuer(self.issuer.url, {"first": ("ES256", private_key("ES256"))})
        sent = ["dlt_nobody", self.issuer.token(sub="nobody"), stranger.token(sub="subject r0"), "a.b.c"]
        return [Key(key, self._start, self._start) for key in sent]


KEYS: tuple[Callable[[Keys, Recipient], Key], ...] = (Keys.token, Keys.federated, Keys.own)


def expected(said: Said, key: Key, asked: tuple[str, str], address: str, at: datetime) -> int | frozenset[str]:
    """Return the status of a refusal, or the names that a listing of shares has; 200 for the rest."""
    endpoint, share = asked
    if said.cut_off or not key.begins <= at < key.ends:
        return 401
    if said.ends is not None and at >= said.ends:
        return 401
    if said.addresses and not _among(address, said.addresses):
        return 403
    held = frozenset(name for name, ends in said.grants.items() if ends is None or at < ends)
    if endpoint == "list shares":
        return held
    return 200 if share.lower() in {name.lower() for name in held} else 404


def _among(address: str, networks: tuple[str, ...]) -> bool:
    plain = address.removeprefix("::ffff:")
    return plain in {HERE, SIX, ELSEWHERE} and any(ip_address(plain) in ip_network(each) for each in networks)


def observed(sharing: Sharing, keys: Keys, sending: tuple[str, str], endpoint: str, share: str) -> tuple[Any, str]:
    """Ask as the gateway does: first the authorizer, then the endpoint; return status or names, and the message."""
    key, address = sending
    try:
        token = keys.authenticate(key, sharing.clock)
        caller = Caller(token.recipient_id, token.id, token.recipient, address)
        answer = ENDPOINTS[endpoint](sharing, caller, share)
    except DeltaicError as refusal:
        return refusal.status, refusal.message
    if endpoint == "list shares":
        assert isinstance(answer, bytes)
        return frozenset(share for share in SHARES if f'"name":"{share}"'.encode() in answer.replace(b" ", b"")), ""
    return 200, ""


@pytest.mark.parametrize("seed", range(4))
def test_exactly_those_are_answered_who_may_ask(catalog: Catalog, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a case, not a secret
    start = datetime.now(UTC).replace(microsecond=0)
    admin = catalog.admin
    for share in SHARES[:-1]:
        admin.shares.create(share)
        admin.schemas.create(share, "x")
        admin.tables.create(share, "x", "t", LOCATION)

    def some_end() -> datetime | None:
        return chance.choice((None, start + DAY, start + 2 * DAY))

    keys = Keys(catalog, start, chance)
    people: list[tuple[Said, list[Key]]] = []
    for number in range(6):
        said = Said(addresses=chance.choice(LISTS), ends=some_end(), cut_off=chance.random() < 0.2)
        person = admin.recipients.create(f"r{number}")
        if said.addresses or said.ends:
            admin.recipients.update(person.name, add_addresses=said.addresses, ends_at=said.ends or NEVER)
        for share in chance.sample(SHARES[:-1], chance.randint(0, 3)):
            said.grants[share] = some_end()
            admin.grants.create(person.name, share, ends_at=said.grants[share])
        held = [kind(keys, person) for kind in KEYS]
        if said.cut_off:
            admin.cut_off(person.name)
            held[0].ends = start
            if chance.random() < 0.5:
                admin.recipients.restore(person.name)
                said.cut_off = False
        people.append((said, held))
    people.append((Said(), keys.of_nobody()))
    for at in (start, start + DAY - TICK, start + DAY, start + DAY + SKEW - TICK, start + DAY + SKEW, start + 3 * DAY):
        sharing = means(catalog, at.timestamp)
        for said, key in [(said, key) for said, held in people for key in held]:
            for endpoint in ENDPOINTS:
                share, address = chance.choice(SHARES), chance.choice(ADDRESSES)
                told, message = observed(sharing, keys, (key.sent, address), endpoint, share)
                case = (seed, said, key, endpoint, share, address, at)
                assert told == expected(said, key, (endpoint, share), address, at), case
                if told in {401, 403}:
                    assert share not in message
                    assert address not in message or not address


def refused(act: Callable[[], object]) -> DeltaicError:
    with pytest.raises(DeltaicError) as refusal:
        act()
    return refusal.value


@pytest.fixture
def alice(catalog: Catalog) -> str:
    """Return the id of a recipient that holds `s1`."""
    admin = catalog.admin
    for share in ("s1", "other"):
        admin.shares.create(share)
        admin.schemas.create(share, "x")
        admin.tables.create(share, "x", "t", LOCATION, access_modes=("url", "dir"), history=True)
    identity = admin.recipients.create("alice").id
    admin.grants.create("alice", "s1")
    return identity


@pytest.mark.parametrize("share", ["s1", "other", "absent"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_asks_from_elsewhere_learns_nothing_of_what_is_there(
    catalog: Catalog, alice: str, endpoint: str, share: str
) -> None:
    catalog.admin.recipients.update("alice", add_addresses=["203.0.113.0/24"])
    told = refused(lambda: ENDPOINTS[endpoint](means(catalog, _now), Caller(alice, "t", "alice", ELSEWHERE), share))
    assert (told.status, told.message) == (
        403,
        "requests from your address are not answered; ask your share provider",
    )


def test_an_ended_grant_is_as_none_and_costs_the_same(catalog: Catalog, alice: str) -> None:
    catalog.admin.grants.update("alice", "s1", ends_at=datetime.now(UTC) - DAY)
    caller = Caller(alice, "t", "alice", HERE)
    sharing = means(catalog, _now)
    for endpoint in list(ENDPOINTS)[1:]:
        ended, absent = [
            refused(lambda share=share, endpoint=endpoint: ENDPOINTS[endpoint](sharing, caller, share))  # type: ignore[misc]
            for share in ("s1", "absent")
        ]
        assert type(ended) is type(absent) is NotFound
        assert ended.message.replace("s1", "absent") == absent.message
    assert catalog_listing.list_shares(sharing, caller, PAGE) == b'{"items":[]}'


def test_an_unrestricted_recipient_costs_no_more_requests(catalog: Catalog, alice: str) -> None:
    asked: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def count(request: Any, **_: Any) -> None:
        asked.append(request.headers["X-Amz-Target"].decode().rpartition(".")[2])

    sharing, caller = means(catalog, _now), Caller(alice, "t", "alice", HERE)
    events.register("before-send.dynamodb", count)
    try:
        catalog_listing.list_shares(sharing, caller, PAGE)
        assert asked == ["Query", "BatchGetItem"]
        asked.clear()
        sharing.table(caller, RequestedTable("s1", "x", "t"))
        assert asked == ["BatchGetItem"]
        asked.clear()
        catalog_listing.list_shares(sharing, caller, ListRequest.parse({"maxResults": "0"}))
        assert asked == ["Query", "BatchGetItem"]
    finally:
        events.unregister("before-send.dynamodb", count)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _at(hour: int, minute: int, second: int) -> Callable[[], float]:
    return datetime(2026, 5, 4, hour, minute, second, tzinfo=UTC).timestamp


def test_of_requests_at_once_as_many_are_answered_as_a_minute_has(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=5)
    sharing, caller = means(catalog, _at(12, 0, 20)), Caller(alice, "t", "alice", HERE)

    def ask(_: int) -> int | None:
        try:
            catalog_listing.list_shares(sharing, caller, PAGE)
        except TooManyRequests as refusal:
            return refusal.retry_after
        return None

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(ask, range(12)))
    assert told.count(None) == 5
    assert set(told) == {None, 40}
    later = means(catalog, _at(12, 1, 0))
    assert catalog_listing.list_shares(later, caller, PAGE).startswith(b'{"items":[{"name":"s1"')
    catalog.admin.recipients.update("alice", requests_per_minute=0)
    assert catalog_listing.list_shares(sharing, caller, PAGE).startswith(b'{"items":[{"name":"s1"')


def test_a_day_has_so_many_signed_bytes_and_the_next_one_again(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", bytes_per_day=100)
    evening = _at(23, 59, 50)
    name = RequestedTable("s1", "x", "t")
    for size in (60, 60):
        caller = Caller(alice, "t", "alice", HERE)
        table = means(catalog, evening).table(caller, name)
        assert table.access_modes == ("url",)  # nobody counts what credentials read
        caller.audit.metrics.add(1, size)
        caller.audit.end()
        caller.audit.end()  # an answer ends once
    full = refused(lambda: means(catalog, evening).table(Caller(alice, "t"), name))
    assert isinstance(full, TooManyRequests)
    assert full.retry_after == 10
    midnight = datetime(2026, 5, 5, tzinfo=UTC).timestamp
    means(catalog, midnight).table(Caller(alice, "t"), name)
    listed = catalog_listing.list_all_tables(means(catalog, midnight), Caller(alice, "t"), "s1", PAGE)
    assert b'"dir"' not in listed


def test_both_limits_cost_one_write_a_request(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=3, bytes_per_day=100)
    writes: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def note(request: Any, **_: Any) -> None:
        if (operation := request.headers["X-Amz-Target"].decode().rpartition(".")[2]) == "UpdateItem":
            writes.append(operation)

    def ask(now: Callable[[], float], size: int) -> tuple[int | None, int]:
        """Return when to come again, and the writes that it cost."""
        caller = Caller(alice, "t", "alice", HERE)
        writes.clear()
        try:
            means(catalog, now).table(caller, RequestedTable("s1", "x", "t"))
        except TooManyRequests as refusal:
            assert not caller.audit.facts()
            caller.audit.end()
            return refusal.retry_after, len(writes)
        caller.audit.metrics.add(1, size) if size else None
        caller.audit.end()
        assert "limits" not in caller.audit.facts()
        return None, len(writes)

    events.register("before-send.dynamodb", note)
    try:
        noon, next_minute = _at(12, 0, 20), _at(12, 1, 59)
        assert ask(noon, 0)[0] is None  # the first of a minute finds another in the item
        assert [ask(noon, size) for size in (40, 0)] == [(None, 1), (None, 1)]
        assert ask(noon, 40) == (40, 0)
        assert ask(next_minute, 70)[0] is None
        assert ask(next_minute, 1) == (43_081, 0)
        assert ask(_at(12, 0, 59), 1) == (43_141, 0)
        assert [ask(lambda: _at(0, 0, 5)() + 86_400, 0)[0] for _ in range(4)] == [None, None, None, 55]
    finally:
        events.unregister("before-send.dynamodb", note)


def test_no_request_of_both_limits_is_lost_at_the_change_of_a_minute(catalog: Catalog, alice: str) -> None:
    counters, now = LimitCounters(catalog.catalog_table, catalog.dynamo), _at(12, 0, 20)()
    for minute in range(3):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: counters.add(alice, 2, now + 60 * minute, request=True), range(8)))  # noqa: B023
        assert counters.usage(alice, now + 60 * minute) == (16 * (minute + 1), 8)
    counters.add(alice, 1, now, request=True)  # a clock that is behind
    assert counters.usage(alice, now + 120) == (49, 9)


def test_counters_that_fail_let_through_or_refuse_as_the_stack_says(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=5)
    nowhere = LimitCounters("no-such-table", catalog.dynamo)
    caller = Caller(alice, "t", "alice", HERE)
    catalog_listing.list_shares(means(catalog, _now, counters=nowhere), caller, PAGE)
    assert caller.audit.facts()["limits"] == "not counted"
    closed = means(catalog, _now, counters=nowhere, fail_closed=True)
    assert isinstance(refused(lambda: catalog_listing.list_shares(closed, caller, PAGE)), Unavailable)


def test_a_cut_off_holds_whatever_the_key_and_ends_tokens_for_good(catalog: Catalog, alice: str) -> None:
    admin, caller = catalog.admin, Caller(alice, "any kind of key", "alice", HERE)
    issued = catalog.token_admin().create(admin.recipients.get("alice"), DAY)
    assert admin.cut_off("alice").cut_off_at is not None
    for endpoint, ask in ENDPOINTS.items():
        assert isinstance(refused(lambda ask=ask: ask(means(catalog, _now), caller, "s1")), Unauthenticated), endpoint  # type: ignore[misc]
    again = admin.cut_off("alice")
    assert again.cut_off_at is not None
    assert admin.recipients.restore("alice").cut_off_at is None
    catalog_listing.get_share(means(catalog, _now), caller, "s1")
    with pytest.raises(Unauthenticated):
        catalog.tokens().authenticate(issued.secret)


@pytest.mark.parametrize(
    "given",
    [
        {"add_addresses": ["203.0.113.1/24"]},
        {"add_addresses": ["here"]},
        {"add_addresses": ["0.0.0.0/0", "300.1.1.1"]},
        {"remove_addresses": ["203.0.113.0/24"]},
        {"add_addresses": [f"10.0.{number}.0/24" for number in range(MOST_ADDRESSES + 1)]},
        {"requests_per_minute": -1},
        {"bytes_per_day": 1 << 61},
    ],
    ids=str,
)
def test_what_cannot_be_enforced_is_not_kept(catalog: Catalog, alice: str, given: dict[str, Any]) -> None:
    before = catalog.admin.recipients.get("alice")
    assert before.id == alice
    with pytest.raises(InvalidParameter):
        catalog.admin.recipients.update("alice", **given)
    assert catalog.admin.recipients.get("alice") == before


def test_restrictions_are_kept_and_taken_away(catalog: Catalog, alice: str) -> None:
    recipients = catalog.admin.recipients
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    networks = [f"10.0.{number}.0/24" for number in range(MOST_ADDRESSES)]
    given = recipients.update(
        "alice", add_addresses=networks, ends_at=ends, requests_per_minute=60, bytes_per_day=50 * 10**9
    )
    assert given == recipients.get("alice")
    assert (given.id, given.addresses, given.ends_at) == (alice, tuple(networks), ends)
    assert (given.requests_per_minute, given.bytes_per_day) == (60, 50 * 10**9)
    taken = recipients.update("alice", remove_addresses=networks, ends_at=NEVER, requests_per_minute=0, bytes_per_day=0)
    assert (taken.addresses, taken.ends_at, taken.requests_per_minute, taken.bytes_per_day) == ((), None, 0, 0)
