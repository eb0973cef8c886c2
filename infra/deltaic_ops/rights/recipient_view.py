"""List the tables and other entries that a recipient can see, and the credentials that it can use."""

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

_PAGE_SIZE = 200

_Item = TypeVar("_Item", Share, Table, Asset)


@dataclass(frozen=True, slots=True)
class VisibleTable:
    """A table that a recipient can see, with the grant of its share."""

    table: Table
    """The table, whose `access_modes` are those that the recipient can use."""

    grant: Grant
    rights: Rights
    first_version: int
    """First version that the recipient can read, if the history of the table is shared."""

    error: str = ""
    """Error message that a read of the table would get; empty if it can be read."""

    refreshed_at: datetime | None = None
    """Time of a view's last refresh; None if it was never refreshed, and for tables that are not views."""

    @property
    def name(self) -> str:
        """Full name: share.schema.table."""
        return self.table.title

    @property
    def access(self) -> str:
        """Return the access modes as a string for operators."""
        return access_text(self.table)

    @property
    def row_filters(self) -> tuple[str, ...]:
        """Row filters of table and grant, as SQL; empty for a view, whose own SQL selects rows."""
        return tuple(row_filters(self.table, self.grant))

    @property
    def missing_properties(self) -> tuple[str, ...]:
        """Names of the properties that row filters need and the recipient does not have."""
        return () if self.error else tuple(missing_properties(self.rights.properties, self.table, self.grant))


def visible_entries(admin: CatalogAdmin, reader: CatalogReader, recipient: Recipient) -> Iterator[VisibleTable | Asset]:
    """Yield the tables and assets in a recipient's shares, even if its access has expired."""
    for share in _all_pages(partial(reader.list_shares, recipient.id), lambda item: item.key):
        with suppress(NotFound):  # the grant was revoked in the meantime
            grant = admin.grants.get(recipient.name, share.name)
            tables = partial(reader.list_tables, recipient.id, share.name, None)
            for table in _all_pages(tables, lambda item: item.key_in_share):
                yield _visible_table(admin, reader, GrantedTable(table, grant, recipient.properties, recipient))
            for kind in (Volume, Skill, Model):
                assets = partial(reader.list_assets, recipient.id, kind, share.name, None)
                yield from _all_pages(assets, lambda item: item.key_in_share)


def access_text(table: Table) -> str:
    """Return the access modes of a table as a string, for example `url, Iceberg (signed)`."""
    return ", ".join([*table.client_modes, *([f"Iceberg ({table.iceberg})"] if table.iceberg else [])])


def _visible_table(admin: CatalogAdmin, reader: CatalogReader, granted: GrantedTable) -> VisibleTable:
    table, refreshed_at = granted.table, _refreshed_at(admin, granted.table)
    try:
        rights, first = filtered_rights(reader, granted)
    except (UnsupportedOperation, TableUnreadable) as refusal:
        return VisibleTable(table, granted.grant, Rights(), table.start_version, refusal.message, refreshed_at)
    return VisibleTable(table, granted.grant, rights, first, refreshed_at=refreshed_at)


def _refreshed_at(admin: CatalogAdmin, table: Table) -> datetime | None:
    if table.view_properties is None:
        return None
    try:
        return admin.views.get(table.share, table.schema_name, table.name).refreshed_at
    except NotFound:  # the view was deleted in the meantime
        return None


def _all_pages(read_page: Callable[[str | None, int], list[_Item]], key: Callable[[_Item], str]) -> Iterator[_Item]:
    after: str | None = None
    while items := read_page(after, _PAGE_SIZE):
        yield from items
        if len(items) < _PAGE_SIZE:
            return
        after = key(items[-1])


SOON = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Keys:
    """Usable credentials of a recipient: active tokens, unused links, OAuth clients, federation policies."""

    tokens: Sequence[Token]
    links: Sequence[Invitation]
    clients: Sequence[OAuthClient]
    policies: Sequence[Policy]

    @property
    def logged(self) -> Iterator[str]:
        """Ids with which request logs record these tokens, clients and policies."""
        yield from (token.id for token in self.tokens)
        yield from (logged_id(credential) for credential in self.clients)
        yield from (logged_id(credential) for credential in self.policies)


def keys_of(admin: CatalogAdmin, recipient: Recipient, now: datetime) -> Keys:
    """Return the credentials that a recipient can use now."""
    return Keys(
        [token for token in admin.tokens.list(recipient.id) if token.state(now) == "live"],
        [link for link in admin.invitations.list(recipient.id) if link.state(now) == "open"],
        admin.clients.list(recipient.id),
        admin.federation.list(recipient.id),
    )


def ends_soon(admin: CatalogAdmin, recipient: Recipient, keys: Keys, now: datetime) -> list[Expiration]:
    """Return what expires within 30 days: a recipient's tokens, links and grants, and the recipient itself."""
    grants = admin.grants.of_recipient(recipient.name)
    return select_expirations([recipient, *keys.tokens, *keys.links, *grants], now, now + SOON)
