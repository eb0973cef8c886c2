"""The catalog as a recipient sees it: what is granted, and nothing that tells ungranted from absent."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from deltaic.catalog import keys
from deltaic.catalog.dynamo import BATCH_KEYS, Dynamo
from deltaic.catalog.items import Grant, InSchema, Restrictions, Schema, Share, Storage, Table, ViewPartition
from deltaic.catalog.keys import Key
from deltaic.errors import NotFound, TableUnreadable

if TYPE_CHECKING:
    from deltaic.catalog.asset_items import Asset, ModelVersion

_Asset = TypeVar("_Asset", bound="Asset")
_Listed = TypeVar("_Listed", bound=InSchema)

_LARGEST_PAGE: Final = 5 * BATCH_KEYS

Admit = Callable[[Restrictions], None]
"""Raises if a recipient with these restrictions is not to be answered now."""


class GrantedTable(NamedTuple):
    """A table, the grant by which a recipient has it, and what is known of that recipient."""

    table: Table
    grant: Grant
    properties: Mapping[str, str]
    """The recipient's; by them filters and views tell whose rows are whose."""
    restrictions: Restrictions

    @property
    def listing_entry(self) -> Table:
        """The table as the recipient's listings have it."""
        return _listed(self.table, bool(self.grant.partition_filter), self.restrictions)


class CatalogReader:
    """The catalog as the endpoints read it: GetItem, BatchGetItem and Query on one table, nothing else.

    A grant is looked up in the request that looks up the thing itself, by a strongly consistent read: an ungranted
    thing costs as many round trips as an absent one and fails with the same words, and a revoked grant is gone at
    once, one that has ended with its end. The recipient's restrictions come with the grant and are handed to `admit`
    before anything is made of the rest: what it raises is all that a recipient hears.

    Names match without regard to case; messages repeat them as they were typed. Listings are in the order of
    the keys (`Item.key`), strictly after `after`, at most `limit` long and shorter only at their end.
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
        """Return the same catalog for one request, whose recipient is admitted by what it reads first."""
        return CatalogReader(self._table, self._dynamo, admit=admit, clock=self._clock)

    def list_shares(self, recipient_id: str, after: str | None, limit: int) -> list[Share]:
        """Return the shares granted to the recipient, by `Share.key`."""
        record = keys.recipient_id(recipient_id)
        shares: list[Share] = []
        admitted = False
        while limit > len(shares):
            size = min(limit - len(shares), _LARGEST_PAGE)
            # The record lies behind the last grant: it comes with them, or else with the shares.
            found = list(self._dynamo.query(self._table, keys.grants_and_record(recipient_id, after), limit=size + 1))
            grants = [item for item in found if item["sk"] != record.sk]
            ended = len(found) <= size or len(grants) < len(found)
            share_keys = [
                keys.catalog_entry("share", grant["share"]) for grant in grants[:size] if not self._has_ended(grant)
            ]
            asked = share_keys if ended or admitted else [*share_keys, record]
            items = self._dynamo.batch_get(self._table, asked)
            if not admitted:
                self._admitted(items.get(record) or next((item for item in found if item["sk"] == record.sk), None))
                admitted = True
            # A grant without its share is what a deletion under way leaves for a moment.
            shares += [Share.read(items[key]) for key in share_keys if key in items]
            if ended:
                break
            after = grants[size - 1]["share"]
        return shares

    def get_share(self, recipient_id: str, share: str) -> Share:
        """Return one share; raises NotFound."""
        return Share.read(
            self._granted(recipient_id, share, keys.catalog_entry("share", share), f"share '{share}' not found").wanted
        )

    def list_schemas(self, recipient_id: str, share: str, after: str | None, limit: int) -> list[Schema]:
        """Return the schemas of a share, by `Schema.key`; raises NotFound."""
        self._granted(recipient_id, share, keys.catalog_entry("share", share), f"share '{share}' not found")
        return [Schema.read(item) for item in self._listed(keys.of_share("schema", share, after), limit)]

    def list_tables(
        self, recipient_id: str, share: str, schema: str | None, after: str | None, limit: int
    ) -> list[Table]:
        """Return the tables of a schema by `Table.key`, or of the whole share by `Table.key_in_share`.

        Raises NotFound for the share or for the schema.
        """
        held, stretch = self._entries("table", recipient_id, share, schema, after)
        return [held.listed(table) for table in self._tables(stretch, limit)]

    def get_table(self, recipient_id: str, share: str, schema: str, table: str) -> GrantedTable:
        """Return one table with all that its rows depend on, as of now, in one request.

        Raises NotFound, in the same words whether share, schema or table is absent.
        """
        unknown = (
            f"[Share/Schema/Table] '{share}/{schema}/{table}' does not exist, "
            "please contact your share provider for further information."
        )
        held = self._granted(recipient_id, share, keys.asset("table", share, schema, table), unknown)
        if held.wanted.get("unlisted"):
            raise NotFound(unknown)
        return GrantedTable(Table.read(held.wanted), Grant.read(held.grant), held.properties, held.restrictions)

    def list_assets(  # noqa: PLR0913, PLR0917 -- whose, which kind, where, and which page
        self, recipient_id: str, kind: type[_Asset], share: str, schema: str | None, after: str | None, limit: int
    ) -> list[_Asset]:
        """Return the volumes, skills or models of a schema by their `key`, or of the whole share by `key_in_share`.

        A grant of some rows is one of tables alone: nobody could tell which files are those rows'. Raises NotFound for
        the share or for the schema.
        """
        held, stretch = self._entries(kind.kind, recipient_id, share, schema, after)
        if held.grant.get("partition_filter"):
            return []
        return [held.listed(kind.read(item)) for item in self._listed(stretch, limit)]

    def get_asset(self, recipient_id: str, kind: type[_Asset], share: str, schema: str, name: str) -> _Asset:
        """Return one volume, skill or model; raises NotFound, whatever of it is absent."""
        return self._asset(recipient_id, kind, share, schema, name)[0]

    def list_versions(  # noqa: PLR0913, PLR0917 -- whose, of what, and which page
        self, recipient_id: str, share: str, schema: str, model: str, after: str | None, limit: int
    ) -> "list[ModelVersion]":
        """Return the versions of a model, by `ModelVersion.key`; raises NotFound."""
        from deltaic.catalog.asset_items import Model, ModelVersion

        found, held = self._asset(recipient_id, Model, share, schema, model)
        stretch = keys.model_versions(found.share, found.id, after)
        return [held.listed(ModelVersion.read(item)) for item in self._listed(stretch, limit)]

    def get_version(self, recipient_id: str, share: str, schema: str, model: str, version: int) -> "ModelVersion":
        """Return one version of a model; raises NotFound."""
        from deltaic.catalog.asset_items import Model, ModelVersion

        found, held = self._asset(recipient_id, Model, share, schema, model)
        key = keys.model_version(found.share, found.id, version)
        item = self._dynamo.batch_get(self._table, [key]).get(key)
        if item is None:
            raise NotFound(f"version {version} of model '{share}/{schema}/{model}' does not exist")
        return held.listed(ModelVersion.read(item))

    def get_view_partition(self, share: str, table_id: str, audience: str) -> ViewPartition | None:
        """Return what a view has for an audience; None where its next refresh has to make it."""
        key = keys.view_partition(share, table_id, audience)
        item = self._dynamo.batch_get(self._table, [key]).get(key)
        return None if item is None else ViewPartition.read(item)

    def is_refreshed(self, view: Table) -> bool:
        """Return whether a view was ever refreshed."""
        key = keys.asset("view", view.share, view.schema_name, view.name)
        return bool(self._dynamo.batch_get(self._table, [key]).get(key, {}).get("refreshed_at"))

    def get_storage(self, name: str) -> Storage:
        """Return the storage that a table names; raises TableUnreadable if it is gone."""
        item = self._dynamo.get(self._table, keys.catalog_entry("storage", name))
        if item is None:
            raise TableUnreadable("the table's storage is not in the catalog: the provider must name one that is")
        return Storage.read(item)

    def _entries(
        self, kind: str, recipient_id: str, share: str, schema: str | None, after: str | None
    ) -> "tuple[_Held, keys.KeyRange]":
        """Return the share's grant, and where the entries of a kind are; raises as `_granted` does."""
        unknown = f"share '{share}' not found"
        if schema is None:
            return self._granted(recipient_id, share, keys.catalog_entry("share", share), unknown), keys.in_share(
                kind, share, after
            )
        held = self._granted(recipient_id, share, keys.schema(share, schema), unknown, f"schema '{schema}' not found")
        return held, keys.in_schema(kind, share, schema, after)

    def _asset(
        self, recipient_id: str, kind: type[_Asset], share: str, schema: str, name: str
    ) -> "tuple[_Asset, _Held]":
        unknown = (
            f"[Share/Schema/{kind.kind.title()}] '{share}/{schema}/{name}' does not exist, "
            "please contact your share provider for further information."
        )
        held = self._granted(recipient_id, share, keys.asset(kind.kind, share, schema, name), unknown)
        if held.grant.get("partition_filter"):
            raise NotFound(unknown)
        return held.listed(kind.read(held.wanted)), held

    def _granted(
        self, recipient_id: str, share: str, wanted: Key, unknown: str, unknown_but_granted: str | None = None
    ) -> "_Held":
        """Return the share's grant and the wanted item, by one request; raises NotFound, and what `admit` does."""
        grant, record = keys.recipient_entry("grant", recipient_id, share), keys.recipient_id(recipient_id)
        items = self._dynamo.batch_get(self._table, [grant, wanted, record])
        restrictions = self._admitted(items.get(record))
        if grant not in items or self._has_ended(items[grant]):
            raise NotFound(unknown)
        if wanted not in items:
            raise NotFound(unknown_but_granted or unknown)
        return _Held(items[grant], items[wanted], items.get(record, {}).get("properties", {}), restrictions)

    def _admitted(self, record: Mapping[str, Any] | None) -> Restrictions:
        """Return what restricts a recipient; of one that is gone nothing does, since it holds nothing."""
        restrictions = Restrictions() if record is None else Restrictions.read(record)
        if self._admit is not None:
            self._admit(restrictions)
        return restrictions

    def _has_ended(self, grant: Mapping[str, Any]) -> bool:
        ends = grant.get("ends_at")
        return ends is not None and Grant.read(grant).has_ended(datetime.fromtimestamp(self._clock(), UTC))

    def _tables(self, stretch: keys.KeyRange, limit: int) -> list[Table]:
        tables: list[Table] = []
        while (missing := limit - len(tables)) > 0:
            found = list(self._listed(stretch, missing))
            tables += [Table.read(item) for item in found if not item.get("unlisted")]
            if len(found) < missing:
                break
            stretch = stretch._replace(low=f"{found[-1]['sk']}\0")
        return tables

    def _listed(self, stretch: keys.KeyRange, limit: int) -> Iterator[dict[str, Any]]:
        return self._dynamo.query(self._table, stretch, limit=limit, consistent=False)


class _Held(NamedTuple):
    grant: Mapping[str, Any]
    wanted: Mapping[str, Any]
    properties: Mapping[str, str]
    restrictions: Restrictions

    def listed(self, entry: _Listed) -> _Listed:
        """Return an entry of the share as a listing has it."""
        return _listed(entry, bool(self.grant.get("partition_filter")), self.restrictions)


def _listed(entry: _Listed, in_part: bool, restrictions: Restrictions) -> _Listed:
    """Return an entry as a listing has it: by URLs alone where some of a table's rows are not shared.

    Nor is the folder shared where bytes are counted: nobody sees what credentials read.
    """
    is_in_part = isinstance(entry, Table) and (entry.is_filtered or in_part)
    if (is_in_part or restrictions.bytes_per_day) and hasattr(entry, "access_modes"):
        return replace(entry, access_modes=("url",))
    return entry
