"""Read the catalog for recipients; entries that are not granted look as if they did not exist."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from deltaic.catalog import keys
from deltaic.catalog.dynamo import BATCH_KEYS, Dynamo
from deltaic.catalog.items import Grant, Restrictions, Schema, SchemaEntry, Share, Storage, Table, ViewPartition
from deltaic.catalog.keys import Key
from deltaic.errors import NotFound, TableUnreadable

if TYPE_CHECKING:
    from deltaic.catalog.asset_items import Asset, ModelVersion

_Asset = TypeVar("_Asset", bound="Asset")
_Entry = TypeVar("_Entry", bound=SchemaEntry)

_LARGEST_PAGE: Final = 5 * BATCH_KEYS

Admit = Callable[[Restrictions], None]
"""Function that raises an error if requests of a recipient with these restrictions must be rejected now."""


class GrantedTable(NamedTuple):
    """A table, the grant that allows a recipient to read it, and the recipient's properties and restrictions."""

    table: Table
    grant: Grant
    properties: Mapping[str, str]
    """Properties of the recipient, by which filters and views select the rows for it."""
    restrictions: Restrictions

    @property
    def listing_entry(self) -> Table:
        """The table with the access modes that the grant's recipient may use, for listings."""
        return _listing_entry(self.table, bool(self.grant.partition_filter), self.restrictions)


class CatalogReader:
    """Read the catalog for API requests, only with GetItem, BatchGetItem and Query on the Catalog table.

    One strongly consistent request reads an entry, its grant and the recipient's restrictions. So responses for
    ungranted and for absent entries take the same time and have the same message, and revoked or expired grants have
    no effect from the next read on. `admit` checks the restrictions first, so its errors take precedence.

    Names are case-insensitive; messages repeat them as the recipient wrote them. Lists are sorted by `NamedItem.key`
    and begin after the key `after`. They have `limit` entries, or fewer if no more exist.
    """

    def __init__(
        self,
        table: str,
        dynamo: Dynamo | None = None,
        *,
        admit: Admit | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()
        self._admit = admit
        self._clock = clock

    def with_admission(self, admit: Admit) -> "CatalogReader":
        """Return a reader for one request, which calls `admit` with the recipient's restrictions."""
        return CatalogReader(self._table, self._dynamo, admit=admit, clock=self._clock)

    def list_shares(self, recipient_id: str, after: str | None, limit: int) -> list[Share]:
        """Return the shares that are granted to the recipient, sorted by `Share.key`."""
        record = keys.recipient_id(recipient_id)
        shares: list[Share] = []
        admitted = False
        while limit > len(shares):
            size = min(limit - len(shares), _LARGEST_PAGE)
            # The recipient's record follows its last grant. If this page ends before, the next request includes it.
            page = list(self._dynamo.query(self._table, keys.grants_and_record(recipient_id, after), limit=size + 1))
            grants = [item for item in page if item["sk"] != record.sk]
            is_last_page = len(page) <= size or len(grants) < len(page)
            share_keys = [
                keys.catalog_entry("share", grant["share"]) for grant in grants[:size] if not self._has_ended(grant)
            ]
            requested = share_keys if is_last_page or admitted else [*share_keys, record]
            items = self._dynamo.batch_get(self._table, requested)
            if not admitted:
                self._check_admission(items.get(record, page[-1] if page and page[-1]["sk"] == record.sk else None))
                admitted = True
            # While a share is being deleted, a grant can exist without it for a short time.
            shares += [Share.read(items[key]) for key in share_keys if key in items]
            if is_last_page:
                break
            after = grants[size - 1]["share"]
        return shares

    def get_share(self, recipient_id: str, share: str) -> Share:
        """Return a granted share; raises NotFound."""
        return Share.read(
            self._get_granted(
                recipient_id, share, keys.catalog_entry("share", share), f"share '{share}' not found"
            ).item
        )

    def list_schemas(self, recipient_id: str, share: str, after: str | None, limit: int) -> list[Schema]:
        """Return the schemas of a granted share, sorted by `Schema.key`; raises NotFound."""
        self._get_granted(recipient_id, share, keys.catalog_entry("share", share), f"share '{share}' not found")
        return [Schema.read(item) for item in self._page(keys.of_share("schema", share, after), limit)]

    def list_tables(
        self, recipient_id: str, share: str, schema: str | None, after: str | None, limit: int
    ) -> list[Table]:
        """Return the tables of a schema, sorted by `Table.key`, or of a share, sorted by `Table.key_in_share`.

        Raises NotFound for the share or for the schema.
        """
        granted, key_range = self._entries("table", recipient_id, share, schema, after)
        return [granted.listing_entry(table) for table in self._table_page(key_range, limit)]

    def get_table(self, recipient_id: str, share: str, schema: str, table: str) -> GrantedTable:
        """Return a table with its grant and the recipient's properties and restrictions, with one request.

        Raises NotFound with the same message whether share, schema or table does not exist.
        """
        unknown = (
            f"[Share/Schema/Table] '{share}/{schema}/{table}' does not exist, "
            "please contact your share provider for further information."
        )
        granted = self._get_granted(recipient_id, share, keys.asset("table", share, schema, table), unknown)
        if granted.item.get("unlisted"):
            raise NotFound(unknown)
        entry, grant = Table.read(granted.item), Grant.read(granted.grant)
        return GrantedTable(entry, grant, granted.properties, granted.restrictions)

    def list_assets(  # noqa: PLR0913, PLR0917 -- recipient, kind, schema and page
        self, recipient_id: str, kind: type[_Asset], share: str, schema: str | None, after: str | None, limit: int
    ) -> list[_Asset]:
        """Return the volumes, skills or models of a schema, sorted by `key`, or of a share, sorted by `key_in_share`.

        A grant with a filter shares only tables, because other files cannot be filtered by rows. Raises NotFound for
        the share or for the schema.
        """
        granted, key_range = self._entries(kind.kind, recipient_id, share, schema, after)
        if granted.grant.get("partition_filter"):
            return []
        return [granted.listing_entry(kind.read(item)) for item in self._page(key_range, limit)]

    def get_asset(self, recipient_id: str, kind: type[_Asset], share: str, schema: str, name: str) -> _Asset:
        """Return one granted volume, skill or model; raises NotFound."""
        return self._asset(recipient_id, kind, share, schema, name)[0]

    def list_versions(  # noqa: PLR0913, PLR0917 -- recipient, model and page
        self, recipient_id: str, share: str, schema: str, model: str, after: str | None, limit: int
    ) -> "list[ModelVersion]":
        """Return the versions of a model, sorted by `ModelVersion.key`; raises NotFound."""
        from deltaic.catalog.asset_items import Model, ModelVersion

        entry, granted = self._asset(recipient_id, Model, share, schema, model)
        key_range = keys.model_versions(entry.share, entry.id, after)
        return [granted.listing_entry(ModelVersion.read(item)) for item in self._page(key_range, limit)]

    def get_version(self, recipient_id: str, share: str, schema: str, model: str, version: int) -> "ModelVersion":
        """Return one version of a granted model; raises NotFound."""
        from deltaic.catalog.asset_items import Model, ModelVersion

        entry, granted = self._asset(recipient_id, Model, share, schema, model)
        key = keys.model_version(entry.share, entry.id, version)
        item = self._dynamo.batch_get(self._table, [key]).get(key)
        if item is None:
            raise NotFound(f"version {version} of model '{share}/{schema}/{model}' does not exist")
        return granted.listing_entry(ModelVersion.read(item))

    def get_view_partition(self, share: str, table_id: str, audience: str) -> ViewPartition | None:
        """Return a view's partition for an audience (recipients with equal properties), or None before a refresh."""
        key = keys.view_partition(share, table_id, audience)
        item = self._dynamo.batch_get(self._table, [key]).get(key)
        return None if item is None else ViewPartition.read(item)

    def is_refreshed(self, view: Table) -> bool:
        """Return whether a view has been refreshed at least once."""
        key = keys.asset("view", view.share, view.schema_name, view.name)
        return bool(self._dynamo.batch_get(self._table, [key]).get(key, {}).get("refreshed_at"))

    def get_storage(self, name: str) -> Storage:
        """Return the storage of a table; raises TableUnreadable if it does not exist."""
        item = self._dynamo.get(self._table, keys.catalog_entry("storage", name))
        if item is None:
            raise TableUnreadable("the table's storage does not exist: the provider must move the table to another one")
        return Storage.read(item)

    def _entries(
        self, kind: str, recipient_id: str, share: str, schema: str | None, after: str | None
    ) -> "tuple[_GrantedItem, keys.KeyRange]":
        """Return the grant of a share, and the key range of the share's or schema's entries; raises NotFound."""
        unknown = f"share '{share}' not found"
        if schema is None:
            return self._get_granted(recipient_id, share, keys.catalog_entry("share", share), unknown), keys.in_share(
                kind, share, after
            )
        no_schema = f"schema '{schema}' not found"
        granted = self._get_granted(recipient_id, share, keys.schema(share, schema), unknown, no_schema)
        return granted, keys.in_schema(kind, share, schema, after)

    def _asset(
        self, recipient_id: str, kind: type[_Asset], share: str, schema: str, name: str
    ) -> "tuple[_Asset, _GrantedItem]":
        unknown = (
            f"[Share/Schema/{kind.kind.title()}] '{share}/{schema}/{name}' does not exist, "
            "please contact your share provider for further information."
        )
        granted = self._get_granted(recipient_id, share, keys.asset(kind.kind, share, schema, name), unknown)
        if granted.grant.get("partition_filter"):
            raise NotFound(unknown)
        return granted.listing_entry(kind.read(granted.item)), granted

    def _get_granted(
        self, recipient_id: str, share: str, key: Key, unknown: str, unknown_but_granted: str | None = None
    ) -> "_GrantedItem":
        """Return an item together with the grant of its share; raises NotFound and the errors of `admit`."""
        grant, record = keys.recipient_entry("grant", recipient_id, share), keys.recipient_id(recipient_id)
        items = self._dynamo.batch_get(self._table, [grant, key, record])
        restrictions = self._check_admission(items.get(record))
        if grant not in items or self._has_ended(items[grant]):
            raise NotFound(unknown)
        if key not in items:
            raise NotFound(unknown_but_granted or unknown)
        return _GrantedItem(items[grant], items[key], items.get(record, {}).get("properties", {}), restrictions)

    def _check_admission(self, record: Mapping[str, Any] | None) -> Restrictions:
        """Check a recipient's restrictions with `admit` and return them; a deleted recipient has none."""
        restrictions = Restrictions() if record is None else Restrictions.read(record)
        if self._admit is not None:
            self._admit(restrictions)
        return restrictions

    def _has_ended(self, grant: Mapping[str, Any]) -> bool:
        ends = grant.get("ends_at")
        return ends is not None and Grant.read(grant).has_ended(datetime.fromtimestamp(self._clock(), UTC))

    def _table_page(self, key_range: keys.KeyRange, limit: int) -> list[Table]:
        tables: list[Table] = []
        while (missing := limit - len(tables)) > 0:
            items = list(self._page(key_range, missing))
            tables += [Table.read(item) for item in items if not item.get("unlisted")]
            if len(items) < missing:
                break
            key_range = key_range._replace(low=f"{items[-1]['sk']}\0")
        return tables

    def _page(self, key_range: keys.KeyRange, limit: int) -> Iterator[dict[str, Any]]:
        return self._dynamo.query(self._table, key_range, limit=limit, consistent=False)


class _GrantedItem(NamedTuple):
    grant: Mapping[str, Any]
    item: Mapping[str, Any]
    properties: Mapping[str, str]
    restrictions: Restrictions

    def listing_entry(self, entry: _Entry) -> _Entry:
        return _listing_entry(entry, bool(self.grant.get("partition_filter")), self.restrictions)


def _listing_entry(entry: _Entry, has_filtered_grant: bool, restrictions: Restrictions) -> _Entry:
    """Return an entry as listings show it: a filtered table has only the access mode `url`.

    So do all entries for a recipient with a daily limit of bytes, which credentials for a folder would bypass.
    """
    is_filtered = isinstance(entry, Table) and (entry.is_filtered or has_filtered_grant)
    if (is_filtered or restrictions.bytes_per_day) and hasattr(entry, "access_modes"):
        return replace(entry, access_modes=("url",))
    return entry
