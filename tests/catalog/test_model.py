"""The catalog against plain dictionaries: whatever operators do, recipients see page by page what is granted then."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog import keys
from deltaic.errors import AlreadyExists, Conflict, DeltaicError, InvalidParameter, NotFound, Unauthenticated
from deltaic.protocol.requests import ListRequest
from deltaic.sharing import catalog_listing
from deltaic.sharing.caller import Caller
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from laws import tries
from sharing.means import sharing

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog

pytestmark = pytest.mark.slow

OPERATORS = st.integers(0, 1)
# Neighbours of the separators in the order of the keys, and spellings that mean the same.
SHARES = st.sampled_from(["a", "A", "a.b", "a-b"])
SCHEMAS = st.sampled_from(["d", "D", "d-e"])
TABLES = st.sampled_from(["t", "T", "t-u", "t0"])
PEOPLE = st.sampled_from(["alice", "ALICE", "bob"])
PROPERTIES = st.dictionaries(st.sampled_from(["region", "teams"]), st.sampled_from(["EU", '["a","b"]', ""]), max_size=2)
FILTERS = st.sampled_from(["", "region = 'EU'", "year > 2024 AND region IN current_recipient('regions')"])
HOUR = 3600.0
AT_ONCE = 4
"""Listings that are under way at the same time."""


@dataclass
class Token:
    """What the model knows of a token."""

    id: str
    secret: str
    holder_id: str
    expires: float
    revoked: bool = False

    def live(self, now: float) -> bool:
        return not self.revoked and self.expires > now


@dataclass
class Reading:
    """A listing that somebody is in the middle of."""

    recipient_id: str
    what: tuple[str, ...]
    """Empty for the shares; a share and `*` for all its tables; a share, or a share and a schema."""
    size: int
    page_token: str | None = None
    after: str = ""
    seen: list[str] = field(default_factory=list)


class CatalogMachine(RuleBasedStateMachine):
    """Two operators, some recipients, and the dictionaries that say what they must see."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.now = 1_800_000_000.0
        self.operators = [catalog.admin, catalog.admin]
        self.tokens_admin = [catalog.token_admin(lambda: self.now) for _ in range(2)]
        self.means = sharing(catalog=catalog.reader)
        self.shares: dict[str, dict[str, dict[str, str]]] = {}
        """Tables by schema by share, all by their keys; a table's key has its spelling."""
        self.spelled: dict[tuple[str, ...], str] = {}
        self.people: dict[str, Any] = {}
        self.granted: set[tuple[str, str]] = set()
        self.held: dict[str, dict[str, str]] = {}
        """The properties of recipients by their ids."""
        self.rows: dict[tuple[str, str], str] = {}
        """The filters of what is granted."""
        self.tokens: list[Token] = []
        self.callers: list[str] = ["nobody"]
        """The ids of all recipients that ever were, and one that never was."""
        self.readings: list[Reading] = []
        whole = [(), ("a", "*"), ("A", "d"), ("a",), ("A.B", "*"), ("a-b",), ("a", "d-e")]
        self.asked = itertools.cycle(itertools.product(whole, (1, 2)))
        self.turns = (caller for _ in itertools.count() for caller in self.callers[-3:])

    def teardown(self) -> None:
        self.catalog.clear()

    def tried(self, expected: type[DeltaicError] | None, act: Callable[[], Any]) -> Any:
        """Do what the model says will be done, or will be refused so."""
        if expected is None:
            return act()
        with pytest.raises(expected):
            act()
        return None

    @initialize()
    def something_is_shared(self) -> None:
        """Begin with enough for pages that follow each other."""
        for share in ("a", "A.b", "a-b"):
            self.create_share(0, share)
            self.create_schema(0, share, "d")
        for schema, table in (("d", "t"), ("d", "t-u"), ("d-e", "T"), ("d", "t0")):
            if schema not in self.shares["a"]:
                self.create_schema(0, "a", schema)
            self.create_table(0, "a", schema, table)
        self.create_recipient(0, "alice", {})
        for share in self.shares:
            self.grant(0, "alice", share, "")

    # What operators do.

    @rule(who=OPERATORS, name=SHARES)
    def create_share(self, who: int, name: str) -> None:
        expected = AlreadyExists if name.lower() in self.shares else None
        self.tried(expected, lambda: self.operators[who].shares.create(name))
        if expected is None:
            self.shares[name.lower()] = {}
            self.spelled[name.lower(),] = name

    @rule(who=OPERATORS, name=SHARES, force=st.booleans())
    def delete_share(self, who: int, name: str, force: bool) -> None:
        schemas = self.shares.get(name.lower())
        expected = NotFound if schemas is None else Conflict if schemas and not force else None
        self.tried(expected, lambda: self.operators[who].shares.delete(name, force=force))
        if expected is None:
            del self.shares[name.lower()]
            self.granted = {grant for grant in self.granted if grant[1] != name.lower()}
        elif expected is Conflict:
            # Its deletion has begun for nobody: it is as it was.
            assert self.operators[who].shares.get(name).name == self.spelled[name.lower(),]

    @rule(who=OPERATORS, share=SHARES, name=SCHEMAS)
    def create_schema(self, who: int, share: str, name: str) -> None:
        schemas = self.shares.get(share.lower())
        expected = NotFound if schemas is None else AlreadyExists if name.lower() in schemas else None
        self.tried(expected, lambda: self.operators[who].schemas.create(share, name))
        if schemas is not None and expected is None:
            schemas[name.lower()] = {}
            self.spelled[share.lower(), name.lower()] = name

    @rule(who=OPERATORS, share=SHARES, name=SCHEMAS, force=st.booleans())
    def delete_schema(self, who: int, share: str, name: str, force: bool) -> None:
        tables = self.shares.get(share.lower(), {}).get(name.lower())
        expected = NotFound if tables is None else Conflict if tables and not force else None
        self.tried(expected, lambda: self.operators[who].schemas.delete(share, name, force=force))
        if expected is None:
            del self.shares[share.lower()][name.lower()]

    @rule(who=OPERATORS, share=SHARES, schema=SCHEMAS, name=TABLES)
    def create_table(self, who: int, share: str, schema: str, name: str) -> None:
        tables = self.shares.get(share.lower(), {}).get(schema.lower())
        expected = NotFound if tables is None else AlreadyExists if name.lower() in tables else None
        self.tried(expected, lambda: self.operators[who].tables.create(share, schema, name, "s3://bucket/x"))
        if tables is not None and expected is None:
            tables[name.lower()] = name

    @rule(who=OPERATORS, share=SHARES, schema=SCHEMAS, name=TABLES)
    def delete_table(self, who: int, share: str, schema: str, name: str) -> None:
        tables = self.shares.get(share.lower(), {}).get(schema.lower(), {})
        expected = None if name.lower() in tables else NotFound
        self.tried(expected, lambda: self.operators[who].tables.delete(share, schema, name))
        tables.pop(name.lower(), None)

    @rule(who=OPERATORS, name=PEOPLE, held=PROPERTIES)
    def create_recipient(self, who: int, name: str, held: dict[str, str]) -> None:
        expected = AlreadyExists if name.lower() in self.people else None
        made = self.tried(expected, lambda: self.operators[who].recipients.create(name, properties=held))
        if expected is None:
            self.people[name.lower()] = made
            self.held[made.id] = held
            self.callers.append(made.id)

    @rule(who=OPERATORS, name=PEOPLE, added=PROPERTIES, removed=st.sampled_from([(), ("region",), ("teams",)]))
    def update_recipient(self, who: int, name: str, added: dict[str, str], removed: tuple[str, ...]) -> None:
        there = self.people.get(name.lower())
        expected: type[DeltaicError] | None = None if there else NotFound
        if there and not set(removed) <= self.held[there.id].keys():
            expected = InvalidParameter
        admin = self.operators[who].recipients
        self.tried(expected, lambda: admin.update(name, add_properties=added, remove_properties=removed))
        if expected is None:
            before = self.held[self.people[name.lower()].id]
            kept = {key: value for key, value in before.items() if key not in removed}
            self.held[self.people[name.lower()].id] = {**kept, **added}

    @rule(who=OPERATORS, name=PEOPLE)
    def delete_recipient(self, who: int, name: str) -> None:
        expected = None if name.lower() in self.people else NotFound
        self.tried(expected, lambda: self.operators[who].recipients.delete(name))
        if expected is None:
            gone = self.people.pop(name.lower()).id
            self.granted = {grant for grant in self.granted if grant[0] != gone}
            for token in self.tokens:
                token.revoked = token.revoked or token.holder_id == gone

    @rule(who=OPERATORS, name=PEOPLE, share=SHARES, rows=FILTERS)
    def grant(self, who: int, name: str, share: str, rows: str) -> None:
        known = name.lower() in self.people and share.lower() in self.shares
        pair = (self.people[name.lower()].id, share.lower()) if known else ("", "")
        expected = NotFound if not known else AlreadyExists if pair in self.granted else None
        self.tried(expected, lambda: self.operators[who].grants.create(name, share, partition_filter=rows))
        if expected is None:
            self.granted.add(pair)
            self.rows[pair] = rows

    @rule(who=OPERATORS, name=PEOPLE, share=SHARES, rows=FILTERS)
    def narrow(self, who: int, name: str, share: str, rows: str) -> None:
        pair = (self.people[name.lower()].id if name.lower() in self.people else "", share.lower())
        expected = None if pair in self.granted else NotFound
        self.tried(expected, lambda: self.operators[who].grants.update(name, share, partition_filter=rows))
        if expected is None:
            self.rows[pair] = rows

    @rule(who=OPERATORS, name=PEOPLE, share=SHARES)
    def revoke(self, who: int, name: str, share: str) -> None:
        pair = (self.people[name.lower()].id if name.lower() in self.people else "", share.lower())
        self.tried(None if pair in self.granted else NotFound, lambda: self.operators[who].grants.revoke(name, share))
        self.granted.discard(pair)

    @precondition(lambda self: self.people)
    @rule(who=OPERATORS, data=st.data(), hours=st.sampled_from([1, 48]))
    def issue_token(self, who: int, data: st.DataObject, hours: int) -> None:
        person = self.people[data.draw(st.sampled_from(sorted(self.people)))]
        expected = Conflict if len(self.live(person.id)) > 1 else None
        life = timedelta(hours=hours)
        self.remember(self.tried(expected, lambda: self.tokens_admin[who].create(person, life)), person.id)

    @precondition(lambda self: self.people)
    @rule(who=OPERATORS, data=st.data(), overlap=st.sampled_from([0.0, HOUR]))
    def rotate_token(self, who: int, data: st.DataObject, overlap: float) -> None:
        person = self.people[data.draw(st.sampled_from(sorted(self.people)))]
        live = self.live(person.id)
        expected = Conflict if overlap and len(live) > 1 else None
        turned = lambda: self.tokens_admin[who].create(person, timedelta(hours=48), overlap=timedelta(seconds=overlap))  # noqa: E731
        self.remember(self.tried(expected, turned), person.id)
        for token in live if expected is None else []:
            token.revoked = not overlap
            token.expires = min(token.expires, self.now + overlap) if overlap else token.expires

    @precondition(lambda self: any(token.live(self.now) for token in self.tokens))
    @rule(who=OPERATORS, data=st.data())
    def revoke_token(self, who: int, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from([token for token in self.tokens if token.live(self.now)]))
        person = next(person for person in self.people.values() if person.id == token.holder_id)
        self.tokens_admin[who].revoke(person, token.id)
        token.revoked = True

    @rule(hours=st.sampled_from([1, 2, 50]))
    def time_passes(self, hours: int) -> None:
        self.now += hours * HOUR

    # What functions read.

    @rule()
    def properties_and_filters_are_what_operators_said_on_both_sides(self) -> None:
        dynamo, table = self.catalog.dynamo, self.catalog.catalog_table
        for name, person in self.people.items():
            by_id = keys.recipient_id(person.id)
            held = dynamo.batch_get(table, [by_id])[by_id]["properties"]
            assert held == self.operators[0].recipients.get(name).properties == self.held[person.id]
        for recipient_id, share in self.granted:
            both = [keys.recipient_entry("grant", recipient_id, share), keys.share_entry("grant", share, recipient_id)]
            found = dynamo.batch_get(table, both)
            assert [found[key]["partition_filter"] for key in both] == [self.rows[recipient_id, share]] * 2

    # What recipients see.

    @precondition(lambda self: self.tokens)
    @rule()
    def tokens_open_for_whom_they_were_made(self) -> None:
        store = self.catalog.tokens(lambda: self.now)
        for token in self.tokens[-4:]:
            if token.live(self.now):
                assert store.authenticate(token.secret).recipient_id == token.holder_id
            else:
                with pytest.raises(Unauthenticated):
                    store.authenticate(token.secret)

    @rule(data=st.data(), share=SHARES, schema=SCHEMAS, table=TABLES)
    def one_thing_is_seen_by_whom_it_is_granted(self, data: st.DataObject, share: str, schema: str, table: str) -> None:
        caller = data.draw(st.sampled_from(self.callers))
        granted = (caller, share.lower()) in self.granted
        spelling = self.shares.get(share.lower(), {}).get(schema.lower(), {}).get(table.lower())
        reader = self.catalog.reader
        got = self.tried(None if granted else NotFound, lambda: reader.get_share(caller, share))
        assert got is None or got.name == self.spelled[share.lower(),]
        visible = granted and spelling is not None
        found = self.tried(None if visible else NotFound, lambda: reader.get_table(caller, share, schema, table))
        assert found is None or found.table.name == spelling

    @invariant()
    def everybody_reads_on(self) -> None:
        """Turn a page of two listings after every step, so that pages lie before and behind each change."""
        while len(self.readings) < AT_ONCE:
            what, size = next(self.asked)
            self.readings.append(Reading(next(self.turns), what, size))
        for reading in self.readings[:2]:
            self.readings.remove(reading)
            if self.turn(reading):
                self.readings.append(reading)

    def turn(self, reading: Reading) -> bool:
        """Read a page and see that it is of what is granted and there now, behind the last one; tell of a next."""
        visible = self.visible(reading)
        request = ListRequest(reading.size, reading.page_token)
        answer = self.tried(None if visible is not None else NotFound, lambda: self.page(reading, request))
        if visible is None:
            return False
        ahead = {key: name for key, name in visible.items() if not reading.after or key > reading.after}
        expected = sorted(ahead)[: reading.size]
        told = json.loads(answer)
        assert [item["name"] for item in told["items"]] == [ahead[key] for key in expected]
        assert not set(expected) & set(reading.seen)
        more = len(ahead) > reading.size
        assert bool(told.get("nextPageToken")) == more
        reading.seen += expected
        if more:
            reading.page_token, reading.after = told["nextPageToken"], expected[-1]
        return more

    def page(self, reading: Reading, request: ListRequest) -> bytes:
        caller = Caller(reading.recipient_id, "token")
        match reading.what:
            case (share, "*"):
                return catalog_listing.list_all_tables(self.means, caller, share, request)
            case (share, schema):
                return catalog_listing.list_tables(self.means, caller, share, schema, request)
            case (share,):
                return catalog_listing.list_schemas(self.means, caller, share, request)
            case _:
                return catalog_listing.list_shares(self.means, caller, request)

    def visible(self, reading: Reading) -> dict[str, str] | None:
        """Return what the listing holds by the keys of its order; None if the recipient may not know of it."""
        caller = reading.recipient_id
        if not reading.what:
            return {share: self.spelled[share,] for share in self.shares if (caller, share) in self.granted}
        share, *below = (name.lower() for name in reading.what)
        if (caller, share) not in self.granted:
            return None
        schemas = self.shares[share]
        if not below:
            return {schema: self.spelled[share, schema] for schema in schemas}
        if below == ["*"]:
            return {f"{schema}/{key}": name for schema, tables in schemas.items() for key, name in tables.items()}
        return schemas.get(below[0])

    def live(self, holder_id: str) -> list[Token]:
        return [token for token in self.tokens if token.holder_id == holder_id and token.live(self.now)]

    def remember(self, issued: Any, holder_id: str) -> None:
        if issued is not None:
            expires = issued.token.expires_at.timestamp()
            self.tokens.append(Token(issued.token.id, issued.secret, holder_id, expires))


def test_what_recipients_see_is_what_operators_did(catalog: Catalog) -> None:
    class OverThisCatalog(CatalogMachine):
        def __init__(self) -> None:
            super().__init__(catalog)

    run_state_machine_as_test(
        OverThisCatalog,
        settings=settings(
            max_examples=tries(15),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
