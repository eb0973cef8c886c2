"""Compare the admission of requests with a model, for recipients, keys, endpoints, shares, addresses and times.

The model knows only the operator's settings, not the stored items, and returns the expected status. `KEYS` has a
function for each kind of key, which returns the text that the client sends and the times when it is valid.
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


def sharing_at(
    catalog: Catalog, now: Callable[[], float], *, fail_closed: bool = False, counters: Any = None
) -> Sharing:
    """Return the context of use cases, with a clock of the test."""
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
    # All endpoints of a table start with this call.
    "table": lambda s, c, share: s.table(c, RequestedTable(share, "x", "t")).entry.name,
}


@dataclass
class Expectation:
    """Settings of one recipient in the model."""

    addresses: tuple[str, ...] = ()
    ends: datetime | None = None
    cut_off: bool = False
    grants: dict[str, datetime | None] = field(default_factory=dict)
    """End of each grant, by the name of the share."""


@dataclass
class Key:
    """Text that a client sends, and the times when it is valid."""

    sent: str
    begins: datetime
    ends: datetime


class Keys:
    """Create keys of recipients, and authenticate them as the authorizer does."""

    def __init__(self, catalog: Catalog, start: datetime, chance: random.Random) -> None:
        self._catalog = catalog
        self._start = start
        self._chance = chance
        self.issuer = Issuer("https://login.example.org/realms/acme")
        self.issuer.rotate("first", "ES256")
        private = private_key("ES256")
        self._server_key = public_jwk(
            private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        )
        self._sign = lambda message: private.sign(message, ECDSA(SHA256()))

    def authenticate(self, sent: str, clock: Callable[[], float]) -> Token | Bearer:
        """Return the recipient of a key at a time; raises Unauthenticated."""
        server_clients = ServerClients(self._catalog.client_store(), IssuerKeys(lambda _: (self._server_key,), clock))
        keys = IssuerKeys(lambda _: tuple(self.issuer.jwks()["keys"]), clock)
        return identify(
            sent, self._catalog.tokens(clock), lambda: JwtBearers(self._catalog.policies(), keys, server_clients, clock)
        )

    def token(self, recipient: Recipient) -> Key:
        """Create a bearer token, which may be revoked; a cut-off revokes it permanently."""
        tokens = self._catalog.token_admin()
        issued = tokens.create(recipient, self._chance.choice((DAY, 30 * DAY)))
        end = issued.token.expires_at
        if self._chance.random() < 0.2:
            tokens.revoke(recipient, issued.token.id)
            end = self._start
        return Key(issued.secret, self._start, end)

    def federated_key(self, recipient: Recipient) -> Key:
        """Create a JWT of an issuer, whose policy may be removed."""
        claim: Literal["sub", "groups"] = self._chance.choice(("sub", "groups"))
        subject = f"subject {recipient.name}"
        federation = self._catalog.admin.federation
        policy = federation.create(recipient, self.issuer.url, audience="deltaic", claim=claim, subject=subject)
        begins = self._chance.choice((None, self._start, self._start + DAY))
        ends = self._start + self._chance.choice((DAY, 2 * DAY))
        if self._chance.random() < 0.2:
            federation.remove(recipient, policy.id)
            ends = self._start - DAY
        issued = int(self._start.timestamp())
        sent = self.issuer.token(
            **{claim: [subject, "other"] if claim == "groups" else subject},
            nbf=begins and int(begins.timestamp()),
            iat=issued,
            exp=int(ends.timestamp()) if ends > self._start else issued + 99 * 86_400,
        )
        return Key(sent, (begins or self._start) - SKEW, ends + SKEW)

    def client_key(self, recipient: Recipient) -> Key:
        """Create a JWT of the server for a client, which may be revoked."""
        client = self._catalog.admin.clients.create(recipient)
        life = self._chance.choice((DAY, 2 * DAY))
        issuing = TokenIssuing(
            self._catalog.client_store(),
            lambda: self._server_key,
            self._sign,
            int(life.total_seconds()),
            self._start.timestamp,
        )
        form = f"grant_type=client_credentials&client_id={client.client.id}&client_secret={client.secret}"
        _, answer = issuing.grant("https://shares.example.org", form.encode(), "")
        ends = self._start + life
        if self._chance.random() < 0.2:
            self._catalog.admin.clients.revoke(recipient, client.client.id)
            ends = self._start - DAY
        return Key(answer["access_token"], self._start - SKEW, ends + SKEW)

    def invalid_keys(self) -> list[Key]:
        """Return keys that belong to no recipient."""
        stranger = Issuer(self.issuer.url, {"first": ("ES256", private_key("ES256"))})
        sent = ["dlt_nobody", self.issuer.token(sub="nobody"), stranger.token(sub="subject r0"), "a.b.c"]
        return [Key(key, self._start, self._start) for key in sent]


KEYS: tuple[Callable[[Keys, Recipient], Key], ...] = (Keys.token, Keys.federated_key, Keys.client_key)


def expected(
    expectation: Expectation, key: Key, request: tuple[str, str], address: str, at: datetime
) -> int | frozenset[str]:
    """Return the status of a refusal, the names in a listing of shares, or 200."""
    endpoint, share = request
    if expectation.cut_off or not key.begins <= at < key.ends:
        return 401
    if expectation.ends is not None and at >= expectation.ends:
        return 401
    if expectation.addresses and not _is_among(address, expectation.addresses):
        return 403
    granted = frozenset(name for name, ends in expectation.grants.items() if ends is None or at < ends)
    if endpoint == "list shares":
        return granted
    return 200 if share.lower() in {name.lower() for name in granted} else 404


def _is_among(address: str, networks: tuple[str, ...]) -> bool:
    plain = address.removeprefix("::ffff:")
    return plain in {HERE, SIX, ELSEWHERE} and any(ip_address(plain) in ip_network(each) for each in networks)


def authenticated(keys: Keys, sent: str, clock: Callable[[], float]) -> Token | Bearer | DeltaicError:
    """Return the recipient of a key at a time, or the refusal of the authorizer."""
    try:
        return keys.authenticate(sent, clock)
    except DeltaicError as refusal:
        return refusal


def observed(
    sharing: Sharing, token: Token | Bearer | DeltaicError, address: str, endpoint: str, share: str
) -> tuple[Any, str]:
    """Send a request as the gateway does; return its status or its names, and the message."""
    if isinstance(token, DeltaicError):
        return token.status, token.message
    try:
        caller = Caller(token.recipient_id, token.id, token.recipient, address)
        answer = ENDPOINTS[endpoint](sharing, caller, share)
    except DeltaicError as refusal:
        return refusal.status, refusal.message
    if endpoint == "list shares":
        assert isinstance(answer, bytes)
        return frozenset(share for share in SHARES if f'"name":"{share}"'.encode() in answer.replace(b" ", b"")), ""
    return 200, ""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_exactly_the_allowed_requests_are_answered(catalog: Catalog, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a case, not a secret
    start = datetime.now(UTC).replace(microsecond=0)
    admin = catalog.admin
    for share in SHARES[:-1]:
        admin.shares.create(share)
        admin.schemas.create(share, "x")
        admin.tables.create(share, "x", "t", LOCATION)

    def random_end() -> datetime | None:
        return chance.choice((None, start + DAY, start + 2 * DAY))

    keys = Keys(catalog, start, chance)
    cases: list[tuple[Expectation, list[Key]]] = []
    for number in range(6):
        expectation = Expectation(addresses=chance.choice(LISTS), ends=random_end(), cut_off=chance.random() < 0.2)
        recipient = admin.recipients.create(f"r{number}")
        if expectation.addresses or expectation.ends:
            admin.recipients.update(
                recipient.name, add_addresses=expectation.addresses, ends_at=expectation.ends or NEVER
            )
        for share in chance.sample(SHARES[:-1], chance.randint(0, 3)):
            expectation.grants[share] = random_end()
            admin.grants.create(recipient.name, share, ends_at=expectation.grants[share])
        keys_of_recipient = [kind(keys, recipient) for kind in KEYS]
        if expectation.cut_off:
            admin.cut_off(recipient.name)
            keys_of_recipient[0].ends = start
            if chance.random() < 0.5:
                admin.recipients.restore(recipient.name)
                expectation.cut_off = False
        cases.append((expectation, keys_of_recipient))
    cases.append((Expectation(), keys.invalid_keys()))
    for at in (start, start + DAY - TICK, start + DAY, start + DAY + SKEW - TICK, start + DAY + SKEW, start + 3 * DAY):
        sharing = sharing_at(catalog, at.timestamp)
        for expectation, key in [
            (expectation, key) for expectation, keys_of_recipient in cases for key in keys_of_recipient
        ]:
            token = authenticated(keys, key.sent, sharing.clock)  # knows neither the endpoint nor the share
            for endpoint in ENDPOINTS:
                share, address = chance.choice(SHARES), chance.choice(ADDRESSES)
                result, message = observed(sharing, token, address, endpoint, share)
                case = (seed, expectation, key, endpoint, share, address, at)
                assert result == expected(expectation, key, (endpoint, share), address, at), case
                if result in {401, 403}:
                    assert share not in message
                    assert address not in message or not address


def refusal_of(act: Callable[[], object]) -> DeltaicError:
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
def test_refusal_by_address_reveals_no_names(catalog: Catalog, alice: str, endpoint: str, share: str) -> None:
    catalog.admin.recipients.update("alice", add_addresses=["203.0.113.0/24"])
    result = refusal_of(
        lambda: ENDPOINTS[endpoint](sharing_at(catalog, _now), Caller(alice, "t", "alice", ELSEWHERE), share)
    )
    assert (result.status, result.message) == (
        403,
        "your IP address is not allowed to use this server; ask your share provider to allow it",
    )


def test_ended_grant_looks_like_no_grant(catalog: Catalog, alice: str) -> None:
    catalog.admin.grants.update("alice", "s1", ends_at=datetime.now(UTC) - DAY)
    caller = Caller(alice, "t", "alice", HERE)
    sharing = sharing_at(catalog, _now)
    for endpoint in list(ENDPOINTS)[1:]:
        ended, absent = [
            refusal_of(lambda share=share, endpoint=endpoint: ENDPOINTS[endpoint](sharing, caller, share))  # type: ignore[misc]
            for share in ("s1", "absent")
        ]
        assert type(ended) is type(absent) is NotFound
        assert ended.message.replace("s1", "absent") == absent.message
    assert catalog_listing.list_shares(sharing, caller, PAGE) == b'{"items":[]}'


def test_recipient_without_limits_needs_no_extra_requests(catalog: Catalog, alice: str) -> None:
    operations: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def count(request: Any, **_: Any) -> None:
        operations.append(request.headers["X-Amz-Target"].decode().rpartition(".")[2])

    sharing, caller = sharing_at(catalog, _now), Caller(alice, "t", "alice", HERE)
    events.register("before-send.dynamodb", count)
    try:
        catalog_listing.list_shares(sharing, caller, PAGE)
        assert operations == ["Query", "BatchGetItem"]
        operations.clear()
        sharing.table(caller, RequestedTable("s1", "x", "t"))
        assert operations == ["BatchGetItem"]
        operations.clear()
        catalog_listing.list_shares(sharing, caller, ListRequest.parse({"maxResults": "0"}))
        assert operations == ["Query", "BatchGetItem"]
    finally:
        events.unregister("before-send.dynamodb", count)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _at(hour: int, minute: int, second: int) -> Callable[[], float]:
    # In the future, because DynamoDB Local deletes items that have expired, and counters with them.
    return datetime(2126, 5, 4, hour, minute, second, tzinfo=UTC).timestamp


def test_concurrent_requests_respect_the_limit_per_minute(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=5)
    sharing, caller = sharing_at(catalog, _at(12, 0, 20)), Caller(alice, "t", "alice", HERE)

    def ask(_: int) -> int | None:
        try:
            catalog_listing.list_shares(sharing, caller, PAGE)
        except TooManyRequests as refusal:
            return refusal.retry_after
        return None

    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(ask, range(12)))
    assert result.count(None) == 5
    assert set(result) == {None, 40}
    later = sharing_at(catalog, _at(12, 1, 0))
    assert catalog_listing.list_shares(later, caller, PAGE).startswith(b'{"items":[{"name":"s1"')
    catalog.admin.recipients.update("alice", requests_per_minute=0)
    assert catalog_listing.list_shares(sharing, caller, PAGE).startswith(b'{"items":[{"name":"s1"')


def test_signed_bytes_are_limited_per_day(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", bytes_per_day=100)
    evening = _at(23, 59, 50)
    name = RequestedTable("s1", "x", "t")
    for size in (60, 60):
        caller = Caller(alice, "t", "alice", HERE)
        table = sharing_at(catalog, evening).table(caller, name)
        assert table.access_modes == ("url",)  # reads with credentials cannot be counted
        caller.audit.metrics.add(1, size)
        caller.audit.end()
        caller.audit.end()  # a second end has no effect
    full = refusal_of(lambda: sharing_at(catalog, evening).table(Caller(alice, "t"), name))
    assert isinstance(full, TooManyRequests)
    assert full.retry_after == 10
    midnight = datetime(2126, 5, 5, tzinfo=UTC).timestamp
    sharing_at(catalog, midnight).table(Caller(alice, "t"), name)
    listed = catalog_listing.list_all_tables(sharing_at(catalog, midnight), Caller(alice, "t"), "s1", PAGE)
    assert b'"dir"' not in listed


def test_both_limits_need_one_write_per_request(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=3, bytes_per_day=100)
    writes: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def note(request: Any, **_: Any) -> None:
        if (operation := request.headers["X-Amz-Target"].decode().rpartition(".")[2]) == "UpdateItem":
            writes.append(operation)

    def ask(now: Callable[[], float], size: int) -> tuple[int | None, int]:
        """Return when to retry, and the number of writes."""
        caller = Caller(alice, "t", "alice", HERE)
        writes.clear()
        try:
            sharing_at(catalog, now).table(caller, RequestedTable("s1", "x", "t"))
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
        assert ask(noon, 0)[0] is None  # the item has the count of an earlier minute
        assert [ask(noon, size) for size in (40, 0)] == [(None, 1), (None, 1)]
        assert ask(noon, 40) == (40, 0)
        assert ask(next_minute, 70)[0] is None
        assert ask(next_minute, 1) == (43_081, 0)
        assert ask(_at(12, 0, 59), 1) == (43_141, 0)
        assert [ask(lambda: _at(0, 0, 5)() + 86_400, 0)[0] for _ in range(4)] == [None, None, None, 55]
    finally:
        events.unregister("before-send.dynamodb", note)


def test_no_request_is_lost_when_a_minute_ends(catalog: Catalog, alice: str) -> None:
    counters, now = LimitCounters(catalog.catalog_table, catalog.dynamo), _at(12, 0, 20)()
    for minute in range(3):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: counters.add(alice, 2, now + 60 * minute, request=True), range(8)))  # noqa: B023
        assert counters.usage(alice, now + 60 * minute) == (16 * (minute + 1), 8)
    counters.add(alice, 1, now, request=True)  # a slow clock
    assert counters.usage(alice, now + 120) == (49, 9)


def test_failing_counters_allow_or_deny_as_configured(catalog: Catalog, alice: str) -> None:
    catalog.admin.recipients.update("alice", requests_per_minute=5)
    nowhere = LimitCounters("no-such-table", catalog.dynamo)
    caller = Caller(alice, "t", "alice", HERE)
    catalog_listing.list_shares(sharing_at(catalog, _now, counters=nowhere), caller, PAGE)
    assert caller.audit.facts()["limits"] == "not counted"
    closed = sharing_at(catalog, _now, counters=nowhere, fail_closed=True)
    assert isinstance(refusal_of(lambda: catalog_listing.list_shares(closed, caller, PAGE)), Unavailable)


def test_cut_off_refuses_every_key_and_revokes_tokens(catalog: Catalog, alice: str) -> None:
    admin, caller = catalog.admin, Caller(alice, "any kind of key", "alice", HERE)
    issued = catalog.token_admin().create(admin.recipients.get("alice"), DAY)
    assert admin.cut_off("alice").cut_off_at is not None
    for endpoint, ask in ENDPOINTS.items():
        refusal = refusal_of(lambda ask=ask: ask(sharing_at(catalog, _now), caller, "s1"))  # type: ignore[misc]
        assert isinstance(refusal, Unauthenticated), endpoint
    again = admin.cut_off("alice")
    assert again.cut_off_at is not None
    assert admin.recipients.restore("alice").cut_off_at is None
    catalog_listing.get_share(sharing_at(catalog, _now), caller, "s1")
    with pytest.raises(Unauthenticated):
        catalog.tokens().authenticate(issued.secret)


@pytest.mark.parametrize(
    "changes",
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
def test_invalid_restrictions_are_not_stored(catalog: Catalog, alice: str, changes: dict[str, Any]) -> None:
    before = catalog.admin.recipients.get("alice")
    assert before.id == alice
    with pytest.raises(InvalidParameter):
        catalog.admin.recipients.update("alice", **changes)
    assert catalog.admin.recipients.get("alice") == before


def test_restrictions_are_stored_and_removed(catalog: Catalog, alice: str) -> None:
    recipients = catalog.admin.recipients
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    networks = [f"10.0.{number}.0/24" for number in range(MOST_ADDRESSES)]
    changes = recipients.update(
        "alice", add_addresses=networks, ends_at=ends, requests_per_minute=60, bytes_per_day=50 * 10**9
    )
    assert changes == recipients.get("alice")
    assert (changes.id, changes.addresses, changes.ends_at) == (alice, tuple(networks), ends)
    assert (changes.requests_per_minute, changes.bytes_per_day) == (60, 50 * 10**9)
    cleared = recipients.update(
        "alice", remove_addresses=networks, ends_at=NEVER, requests_per_minute=0, bytes_per_day=0
    )
    assert (cleared.addresses, cleared.ends_at, cleared.requests_per_minute, cleared.bytes_per_day) == ((), None, 0, 0)
