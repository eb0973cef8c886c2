"""Compare the catalog with dictionaries: after any changes, recipients see exactly the granted entries."""

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
# Characters next to the separators in the order of keys, and different spellings of one name.
SHARES = st.sampled_from(["a", "A", "a.b", "a-b"])
SCHEMAS = st.sampled_from(["d", "D", "d-e"])
TABLES = st.sampled_from(["t", "T", "t-u", "t0"])
RECIPIENTS = st.sampled_from(["alice", "ALICE", "bob"])
PROPERTIES = st.dictionaries(st.sampled_from(["region", "teams"]), st.sampled_from(["EU", '["a","b"]', ""]), max_size=2)
FILTERS = st.sampled_from(["", "region = 'EU'", "year > 2024 AND region IN current_recipient('regions')"])
ICEBERG: dict[str, Any] = {"format": "iceberg", "history": True}
FORMATS = st.sampled_from([
    {},
    {**ICEBERG, "access_modes": ("url",)},
    {**ICEBERG, "access_modes": ("url", "dir"), "iceberg": "signed"},
    {**ICEBERG, "access_modes": ("dir",), "iceberg": "vended"},
])  # fmt: skip
HOUR = 3600.0
OPEN_LISTINGS = 4
"""Number of listings that are read at the same time."""


@dataclass
class Token:
    """Token in the model."""

    id: str
    secret: str
    holder_id: str
    expires: float
    revoked: bool = False

    def is_live(self, now: float) -> bool:
        return not self.revoked and self.expires > now


@dataclass
class Reading:
    """Listing that a recipient is reading page by page."""

    recipient_id: str
    path: tuple[str, ...]
    """() lists shares, (share,) schemas, (share, schema) tables, (share, "*") all tables of a share."""
    size: int
    page_token: str | None = None
    after: str = ""
    seen: list[str] = field(default_factory=list)


class CatalogMachine(RuleBasedStateMachine):
    """Operators and recipients of a catalog, with dictionaries of the expected entries."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.now = 1_800_000_000.0
        self.operators = [catalog.admin, catalog.admin]
        self.tokens_admin = [catalog.token_admin(lambda: self.now) for _ in range(2)]
        self.sharing = sharing(catalog=catalog.reader)
        self.shares: dict[str, dict[str, dict[str, str]]] = {}
        """Shares, their schemas and tables, all by key; the innermost value is the table's spelling."""
        self.spelled: dict[tuple[str, ...], str] = {}
        self.modes: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Access modes of tables, by key."""
        self.recipients: dict[str, Any] = {}
        self.granted: set[tuple[str, str]] = set()
        self.properties_by_id: dict[str, dict[str, str]] = {}
        """Properties of recipients, by id."""
        self.rows: dict[tuple[str, str], str] = {}
        """Filters of grants, by recipient id and share."""
        self.tokens: list[Token] = []
        self.callers: list[str] = ["nobody"]
        """Ids of all current and deleted recipients, and one unknown id."""
        self.readings: list[Reading] = []
        listings = [(), ("a", "*"), ("A", "d"), ("a",), ("A.B", "*"), ("a-b",), ("a", "d-e")]
        self.requests = itertools.cycle(itertools.product(listings, (1, 2)))
        self.callers_in_turn = (caller for _ in itertools.count() for caller in self.callers[-3:])

    def teardown(self) -> None:
        self.catalog.clear()

    def attempt(self, expected: type[DeltaicError] | None, act: Callable[[], Any]) -> Any:
        """Run a change, which must succeed or raise the expected error."""
        if expected is None:
            return act()
        with pytest.raises(expected):
            act()
        return None

    @initialize()
    def share_tables(self) -> None:
        """Create enough entries for several pages."""
        for share in ("a", "A.b", "a-b"):
            self.create_share(0, share)
            self.create_schema(0, share, "d")
        for schema, table in (("d", "t"), ("d", "t-u"), ("d-e", "T"), ("d", "t0")):
            if schema not in self.shares["a"]:
                self.create_schema(0, "a", schema)
            self.create_table(0, "a", schema, table, {})
        self.create_recipient(0, "alice", {})
        for share in self.shares:
            self.grant(0, "alice", share, "")

    # Changes by operators.

    @rule(operator=OPERATORS, name=SHARES)
    def create_share(self, operator: int, name: str) -> None:
        expected = AlreadyExists if name.lower() in self.shares else None
        self.attempt(expected, lambda: self.operators[operator].shares.create(name))
        if expected is None:
            self.shares[name.lower()] = {}
            self.spelled[name.lower(),] = name

    @rule(operator=OPERATORS, name=SHARES, force=st.booleans())
    def delete_share(self, operator: int, name: str, force: bool) -> None:
        schemas = self.shares.get(name.lower())
        expected = NotFound if schemas is None else Conflict if schemas and not force else None
        self.attempt(expected, lambda: self.operators[operator].shares.delete(name, force=force))
        if expected is None:
            del self.shares[name.lower()]
            self.granted = {grant for grant in self.granted if grant[1] != name.lower()}
        elif expected is Conflict:
            # A refused deletion leaves the share unchanged.
            assert self.operators[operator].shares.get(name).name == self.spelled[name.lower(),]

    @rule(operator=OPERATORS, share=SHARES, name=SCHEMAS)
    def create_schema(self, operator: int, share: str, name: str) -> None:
        schemas = self.shares.get(share.lower())
        expected = NotFound if schemas is None else AlreadyExists if name.lower() in schemas else None
        self.attempt(expected, lambda: self.operators[operator].schemas.create(share, name))
        if schemas is not None and expected is None:
            schemas[name.lower()] = {}
            self.spelled[share.lower(), name.lower()] = name

    @rule(operator=OPERATORS, share=SHARES, name=SCHEMAS, force=st.booleans())
    def delete_schema(self, operator: int, share: str, name: str, force: bool) -> None:
        tables = self.shares.get(share.lower(), {}).get(name.lower())
        expected = NotFound if tables is None else Conflict if tables and not force else None
        self.attempt(expected, lambda: self.operators[operator].schemas.delete(share, name, force=force))
        if expected is None:
            del self.shares[share.lower()][name.lower()]

    @rule(operator=OPERATORS, share=SHARES, schema=SCHEMAS, name=TABLES, options=FORMATS)
    def create_table(self, operator: int, share: str, schema: str, name: str, options: dict[str, Any]) -> None:
        tables = self.shares.get(share.lower(), {}).get(schema.lower())
        expected = NotFound if tables is None else AlreadyExists if name.lower() in tables else None
        create = self.operators[operator].tables.create
        self.attempt(expected, lambda: create(share, schema, name, "s3://bucket/x", **options))
        if tables is not None and expected is None:
            tables[name.lower()] = name
            self.modes[share.lower(), schema.lower(), name.lower()] = options.get("access_modes", ("url",))

    @rule(operator=OPERATORS, share=SHARES, schema=SCHEMAS, name=TABLES)
    def delete_table(self, operator: int, share: str, schema: str, name: str) -> None:
        tables = self.shares.get(share.lower(), {}).get(schema.lower(), {})
        expected = None if name.lower() in tables else NotFound
        self.attempt(expected, lambda: self.operators[operator].tables.delete(share, schema, name))
        tables.pop(name.lower(), None)

    @rule(operator=OPERATORS, name=RECIPIENTS, properties=PROPERTIES)
    def create_recipient(self, operator: int, name: str, properties: dict[str, str]) -> None:
        expected = AlreadyExists if name.lower() in self.recipients else None
        recipient = self.attempt(
            expected, lambda: self.operators[operator].recipients.create(name, properties=properties)
        )
        if expected is None:
            self.recipients[name.lower()] = recipient
            self.properties_by_id[recipient.id] = properties
            self.callers.append(recipient.id)

    @rule(operator=OPERATORS, name=RECIPIENTS, added=PROPERTIES, removed=st.sampled_from([(), ("region",), ("teams",)]))
    def update_recipient(self, operator: int, name: str, added: dict[str, str], removed: tuple[str, ...]) -> None:
        existing = self.recipients.get(name.lower())
        expected: type[DeltaicError] | None = None if existing else NotFound
        if existing and not set(removed) <= self.properties_by_id[existing.id].keys():
            expected = InvalidParameter
        admin = self.operators[operator].recipients
        self.attempt(expected, lambda: admin.update(name, add_properties=added, remove_properties=removed))
        if expected is None:
            before = self.properties_by_id[self.recipients[name.lower()].id]
            remaining = {key: value for key, value in before.items() if key not in removed}
            self.properties_by_id[self.recipients[name.lower()].id] = {**remaining, **added}

    @rule(operator=OPERATORS, name=RECIPIENTS)
    def delete_recipient(self, operator: int, name: str) -> None:
        expected = None if name.lower() in self.recipients else NotFound
        self.attempt(expected, lambda: self.operators[operator].recipients.delete(name))
        if expected is None:
            deleted_id = self.recipients.pop(name.lower()).id
            self.granted = {grant for grant in self.granted if grant[0] != deleted_id}
            for token in self.tokens:
                token.revoked = token.revoked or token.holder_id == deleted_id

    @rule(operator=OPERATORS, name=RECIPIENTS, share=SHARES, rows=FILTERS)
    def grant(self, operator: int, name: str, share: str, rows: str) -> None:
        exists = name.lower() in self.recipients and share.lower() in self.shares
        pair = (self.recipients[name.lower()].id, share.lower()) if exists else ("", "")
        expected = NotFound if not exists else AlreadyExists if pair in self.granted else None
        self.attempt(expected, lambda: self.operators[operator].grants.create(name, share, partition_filter=rows))
        if expected is None:
            self.granted.add(pair)
            self.rows[pair] = rows

    @rule(operator=OPERATORS, name=RECIPIENTS, share=SHARES, rows=FILTERS)
    def change_filter(self, operator: int, name: str, share: str, rows: str) -> None:
        pair = (self.recipients[name.lower()].id if name.lower() in self.recipients else "", share.lower())
        expected = None if pair in self.granted else NotFound
        self.attempt(expected, lambda: self.operators[operator].grants.update(name, share, partition_filter=rows))
        if expected is None:
            self.rows[pair] = rows

    @rule(operator=OPERATORS, name=RECIPIENTS, share=SHARES)
    def revoke(self, operator: int, name: str, share: str) -> None:
        pair = (self.recipients[name.lower()].id if name.lower() in self.recipients else "", share.lower())
        self.attempt(
            None if pair in self.granted else NotFound, lambda: self.operators[operator].grants.revoke(name, share)
        )
        self.granted.discard(pair)

    @precondition(lambda self: self.recipients)
    @rule(operator=OPERATORS, data=st.data(), hours=st.sampled_from([1, 48]))
    def issue_token(self, operator: int, data: st.DataObject, hours: int) -> None:
        recipient = self.recipients[data.draw(st.sampled_from(sorted(self.recipients)))]
        expected = Conflict if len(self.live_tokens(recipient.id)) > 1 else None
        life = timedelta(hours=hours)
        self.add_token(
            self.attempt(expected, lambda: self.tokens_admin[operator].create(recipient, life)), recipient.id
        )

    @precondition(lambda self: self.recipients)
    @rule(operator=OPERATORS, data=st.data(), overlap=st.sampled_from([0.0, HOUR]))
    def rotate_token(self, operator: int, data: st.DataObject, overlap: float) -> None:
        recipient = self.recipients[data.draw(st.sampled_from(sorted(self.recipients)))]
        live_tokens = self.live_tokens(recipient.id)
        expected = Conflict if overlap and len(live_tokens) > 1 else None

        def rotate() -> Any:
            admin = self.tokens_admin[operator]
            return admin.create(recipient, timedelta(hours=48), overlap=timedelta(seconds=overlap))

        self.add_token(self.attempt(expected, rotate), recipient.id)
        for token in live_tokens if expected is None else []:
            token.revoked = not overlap
            token.expires = min(token.expires, self.now + overlap) if overlap else token.expires

    @precondition(lambda self: any(token.is_live(self.now) for token in self.tokens))
    @rule(operator=OPERATORS, data=st.data())
    def revoke_token(self, operator: int, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from([token for token in self.tokens if token.is_live(self.now)]))
        recipient = next(recipient for recipient in self.recipients.values() if recipient.id == token.holder_id)
        self.tokens_admin[operator].revoke(recipient, token.id)
        token.revoked = True

    @rule(hours=st.sampled_from([1, 2, 50]))
    def time_passes(self, hours: int) -> None:
        self.now += hours * HOUR

    # Items that functions read.

    @rule()
    def properties_and_filters_are_stored_twice(self) -> None:
        dynamo, table = self.catalog.dynamo, self.catalog.catalog_table
        for name, recipient in self.recipients.items():
            by_id = keys.recipient_id(recipient.id)
            stored = dynamo.batch_get(table, [by_id])[by_id]["properties"]
            assert stored == self.operators[0].recipients.get(name).properties == self.properties_by_id[recipient.id]
        for recipient_id, share in self.granted:
            both = [keys.recipient_entry("grant", recipient_id, share), keys.share_entry("grant", share, recipient_id)]
            items = dynamo.batch_get(table, both)
            assert [items[key]["partition_filter"] for key in both] == [self.rows[recipient_id, share]] * 2

    # Reads by recipients.

    @precondition(lambda self: self.tokens)
    @rule()
    def tokens_authenticate_their_recipient(self) -> None:
        store = self.catalog.tokens(lambda: self.now)
        for token in self.tokens[-4:]:
            if token.is_live(self.now):
                assert store.authenticate(token.secret).recipient_id == token.holder_id
            else:
                with pytest.raises(Unauthenticated):
                    store.authenticate(token.secret)

    @rule(data=st.data(), share=SHARES, schema=SCHEMAS, table=TABLES)
    def granted_entries_are_visible(self, data: st.DataObject, share: str, schema: str, table: str) -> None:
        caller = data.draw(st.sampled_from(self.callers))
        granted = (caller, share.lower()) in self.granted
        spelling = self.shares.get(share.lower(), {}).get(schema.lower(), {}).get(table.lower())
        reader = self.catalog.reader
        result = self.attempt(None if granted else NotFound, lambda: reader.get_share(caller, share))
        assert result is None or result.name == self.spelled[share.lower(),]
        visible = granted and spelling is not None
        result = self.attempt(None if visible else NotFound, lambda: reader.get_table(caller, share, schema, table))
        assert result is None or result.table.name == spelling

    @invariant()
    def continue_listings(self) -> None:
        """Read a page of two listings after every step, so that changes happen between pages."""
        while len(self.readings) < OPEN_LISTINGS:
            path, size = next(self.requests)
            self.readings.append(Reading(next(self.callers_in_turn), path, size))
        for reading in self.readings[:2]:
            self.readings.remove(reading)
            if self.read_page(reading):
                self.readings.append(reading)

    def read_page(self, reading: Reading) -> bool:
        """Read and check the next page of a listing; return whether another page follows."""
        visible = self.visible(reading)
        request = ListRequest(reading.size, reading.page_token)
        answer = self.attempt(None if visible is not None else NotFound, lambda: self.page(reading, request))
        if visible is None:
            return False
        ahead = {key: name for key, name in visible.items() if not reading.after or key > reading.after}
        expected = sorted(ahead)[: reading.size]
        body = json.loads(answer)
        assert [item["name"] for item in body["items"]] == [ahead[key] for key in expected]
        for item in body["items"] if len(reading.path) == 2 else ():
            key = tuple(item[part].lower() for part in ("share", "schema", "name"))
            by_url = self.rows[reading.recipient_id, key[0]] or "url" in self.modes[key]
            assert item["accessModes"] == ["url" if by_url else "dir"]
        assert not set(expected) & set(reading.seen)
        more = len(ahead) > reading.size
        assert bool(body.get("nextPageToken")) == more
        reading.seen += expected
        if more:
            reading.page_token, reading.after = body["nextPageToken"], expected[-1]
        return more

    def page(self, reading: Reading, request: ListRequest) -> bytes:
        caller = Caller(reading.recipient_id, "token")
        match reading.path:
            case (share, "*"):
                return catalog_listing.list_all_tables(self.sharing, caller, share, request)
            case (share, schema):
                return catalog_listing.list_tables(self.sharing, caller, share, schema, request)
            case (share,):
                return catalog_listing.list_schemas(self.sharing, caller, share, request)
            case _:
                return catalog_listing.list_shares(self.sharing, caller, request)

    def visible(self, reading: Reading) -> dict[str, str] | None:
        """Return the expected names of a listing, by key; None if the recipient may not see it."""
        caller = reading.recipient_id
        if not reading.path:
            return {share: self.spelled[share,] for share in self.shares if (caller, share) in self.granted}
        share, *below = (name.lower() for name in reading.path)
        if (caller, share) not in self.granted:
            return None
        schemas = self.shares[share]
        if not below:
            return {schema: self.spelled[share, schema] for schema in schemas}
        if below == ["*"]:
            return {f"{schema}/{key}": name for schema, tables in schemas.items() for key, name in tables.items()}
        return schemas.get(below[0])

    def live_tokens(self, holder_id: str) -> list[Token]:
        return [token for token in self.tokens if token.holder_id == holder_id and token.is_live(self.now)]

    def add_token(self, issued: Any, holder_id: str) -> None:
        if issued is not None:
            expires = issued.token.expires_at.timestamp()
            self.tokens.append(Token(issued.token.id, issued.secret, holder_id, expires))


def test_recipients_see_exactly_what_operators_granted(catalog: Catalog) -> None:
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
