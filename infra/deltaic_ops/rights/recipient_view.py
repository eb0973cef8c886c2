"""What a recipient sees, as its own listings have it, and the keys by which it comes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.asset_items import Asset, Model, Skill, Volume
from deltaic.catalog.items import Grant, Invitation, OAuthClient, Policy, Recipient, Share, Table, Token
from deltaic.catalog.reader import CatalogReader, GrantedTable
from deltaic.errors import NotFound, TableUnreadable, UnsupportedOperation
from deltaic.scheduled.expirations import Expiration, select_expirations
from deltaic.sharing.rights.row_filters import filtered_rights
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sign_in.jwt_bearers import logged_id

from deltaic_ops.inspection.filter_checks import missing_properties, row_filters

_PAGE = 200
"""So many are asked for at a time."""

_Item = TypeVar("_Item", Share, Table, Asset)


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table, and the grant by which it is seen."""

    table: Table
    """Its `access_modes` are those that this recipient has."""

    grant: Grant
    rights: Rights
    first_version: int
    """From which on versions are there for this recipient, where history is shared."""

    refused: str = ""
    """Why it cannot be read now; empty if it can."""

    refreshed_at: datetime | None = None
    """Of a view; None: it is no view, or was never refreshed."""

    @property
    def name(self) -> str:
        """As people write it: share.schema.table."""
        return self.table.title

    @property
    def access(self) -> str:
        """How it is read, for people."""
        return told_access(self.table)

    @property
    def row_filters(self) -> tuple[str, ...]:
        """The SQL of those that keep rows back; a view's rows are those of its recipient."""
        return tuple(row_filters(self.table, self.grant))

    @property
    def lacked_properties(self) -> tuple[str, ...]:
        """Properties by which rows are chosen and that the recipient has not."""
        return () if self.refused else tuple(missing_properties(self.rights.properties, self.table, self.grant))


def seen(admin: CatalogAdmin, reader: CatalogReader, person: Recipient) -> Iterator[SeenTable | Asset]:
    """Yield what is in the shares that a recipient holds now, share by share: tables, volumes, skills and models.

    Nothing is asked for before it is wanted. Of a recipient that is cut off or has ended: what it would see otherwise.
    """
    for share in _all(partial(reader.list_shares, person.id), lambda one: one.key):
        with suppress(NotFound):  # revoked since
            grant = admin.grants.get(person.name, share.name)
            tables = partial(reader.list_tables, person.id, share.name, None)
            for table in _all(tables, lambda one: one.key_in_share):
                yield _seen(admin, reader, GrantedTable(table, grant, person.properties, person))
            for kind in (Volume, Skill, Model):
                assets = partial(reader.list_assets, person.id, kind, share.name, None)
                yield from _all(assets, lambda one: one.key_in_share)


def told_access(table: Table) -> str:
    """Return how a table is read, for people: an Iceberg table by Iceberg clients alone."""
    modes = () if table.format == "iceberg" else table.access_modes
    return ", ".join([*modes, *([f"Iceberg ({table.iceberg})"] if table.iceberg else [])])


def _seen(admin: CatalogAdmin, reader: CatalogReader, granted: GrantedTable) -> SeenTable:
    table, refreshed_at = granted.table, _refreshed_at(admin, granted.table)
    try:
        rights, first = filtered_rights(reader, granted)
    except (UnsupportedOperation, TableUnreadable) as refusal:
        return SeenTable(table, granted.grant, Rights(), table.start_version, refusal.message, refreshed_at)
    return SeenTable(table, granted.grant, rights, first, refreshed_at=refreshed_at)


def _refreshed_at(admin: CatalogAdmin, table: Table) -> datetime | None:
    if table.view_properties is None:
        return None
    try:
        return admin.views.get(table.share, table.schema_name, table.name).refreshed_at
    except NotFound:  # taken away since
        return None


def _all(page: Callable[[str | None, int], list[_Item]], key: Callable[[_Item], str]) -> Iterator[_Item]:
    after: str | None = None
    while found := page(after, _PAGE):
        yield from found
        if len(found) < _PAGE:
            return
        after = key(found[-1])


SOON = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens a recipient's door now."""

    tokens: Sequence[Token]
    """Those that are live."""

    links: Sequence[Invitation]
    """Those that are open."""

    clients: Sequence[OAuthClient]
    policies: Sequence[Policy]

    @property
    def logged(self) -> Iterator[str]:
        """The ids of tokens, clients and policies as logs of requests have them."""
        yield from (token.id for token in self.tokens)
        yield from (logged_id(one) for one in self.clients)
        yield from (logged_id(one) for one in self.policies)


def keys_of(admin: CatalogAdmin, person: Recipient, now: datetime) -> Keys:
    """Return the keys that open the door now."""
    return Keys(
        [token for token in admin.tokens.list(person.id) if token.state(now) == "live"],
        [link for link in admin.invitations.list(person.id) if link.state(now) == "open"],
        admin.clients.list(person.id),
        admin.federation.list(person.id),
    )


def ends_soon(admin: CatalogAdmin, person: Recipient, keys: Keys, now: datetime) -> list[Expiration]:
    """Return what of a recipient's ends within thirty days, the first to end first."""
    grants = admin.grants.of_recipient(person.name)
    return select_expirations([person, *keys.tokens, *keys.links, *grants], now, now + SOON)
