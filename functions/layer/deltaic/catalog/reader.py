"""The catalog as a recipient sees it: what is granted, and nothing that tells ungranted from absent."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from deltaic.catalog import keys
from deltaic.catalog.dynamo import BATCH_KEYS, Dynamo
from deltaic.catalog.items import Grant, Schema, Share, Storage, Table, ViewPartition
from deltaic.catalog.keys import Key
from deltaic.errors import NotFound, TableUnreadable

_LARGEST_PAGE: Final = 5 * BATCH_KEYS


class GrantedTable(NamedTuple):
    """A table, the grant by which a recipient has it, and what is known of that recipient."""

    table: Table
    grant: Grant
    properties: Mapping[str, str]
    """The recipient's; by them filters and views tell whose rows are whose."""


class CatalogReader:
    """The catalog as the endpoints read it: GetItem, BatchGetItem and Query on one table, nothing else.

    A grant is looked up in the request that looks up the thing itself, by a strongly consistent read: an ungranted
    thing costs as many round trips as an absent one and fails with the same words, and a revoked grant is gone at
    once. Names match without regard to case; messages repeat them as they were typed. Listings are in the order of
    the keys (`Item.key`), strictly after `after`, at most `limit` long and shorter only at their end.
    """

    def __init__(self, table: str, dynamo: Dynamo | None = None) -> None:
        self._table = table
        self._dynamo = (dynamo or Dynamo()).for_recipients()

    def list_shares(self, recipient_id: str, after: str | None, limit: int) -> list[Share]:
        """Return the shares granted to the recipient, by `Share.key`."""
        shares: list[Share] = []
        while limit > len(shares):
            size = min(limit - len(shares), _LARGEST_PAGE)
            grants = list(self._dynamo.query(self._table, keys.grants(recipient_id, after), limit=size))
            share_keys = [keys.share(grant["share"]) for grant in grants]
            items = self._dynamo.batch_get(self._table, share_keys)
            # A grant without its share is what a deletion under way leaves for a moment.
            shares += [Share.read(items[key]) for key in share_keys if key in items]
            if len(grants) < size:
                break
            after = grants[-1]["share"]
        return shares

    def get_share(self, recipient_id: str, share: str) -> Share:
        """Return one share; raises NotFound."""
        return Share.read(self._granted(recipient_id, share, keys.share(share), f"share '{share}' not found")[1])

    def list_schemas(self, recipient_id: str, share: str, after: str | None, limit: int) -> list[Schema]:
        """Return the schemas of a share, by `Schema.key`; raises NotFound."""
        self._granted(recipient_id, share, keys.share(share), f"share '{share}' not found")
        return [Schema.read(item) for item in self._listed(keys.schemas(share, after), limit)]

    def list_tables(self, recipient_id: str, share: str, schema: str, after: str | None, limit: int) -> list[Table]:
        """Return the tables of a schema, by `Table.key`; raises NotFound for the share or for the schema."""
        unknown = f"schema '{schema}' not found"
        grant, _ = self._granted(recipient_id, share, keys.schema(share, schema), f"share '{share}' not found", unknown)
        return [_listed_table(item, grant) for item in self._listed(keys.tables(share, schema, after), limit)]

    def list_all_tables(self, recipient_id: str, share: str, after: str | None, limit: int) -> list[Table]:
        """Return the tables of a share, by `Table.key_in_share`; raises NotFound."""
        grant, _ = self._granted(recipient_id, share, keys.share(share), f"share '{share}' not found")
        return [_listed_table(item, grant) for item in self._listed(keys.all_tables(share, after), limit)]

    def get_table(self, recipient_id: str, share: str, schema: str, table: str) -> GrantedTable:
        """Return one table with all that its rows depend on, as of now, in one request.

        Raises NotFound, in the same words whether share, schema or table is absent.
        """
        unknown = (
            f"[Share/Schema/Table] '{share}/{schema}/{table}' does not exist, "
            "please contact your share provider for further information."
        )
        recipient = keys.recipient_id(recipient_id)
        wanted = keys.table(share, schema, table)
        items = self._dynamo.batch_get(self._table, [keys.grant(recipient_id, share), wanted, recipient])
        grant, found = items.get(keys.grant(recipient_id, share)), items.get(wanted)
        if grant is None or found is None:
            raise NotFound(unknown)
        properties = items.get(recipient, {}).get("properties", {})
        return GrantedTable(Table.read(found), Grant.read(grant), properties)

    def get_view_partition(self, share: str, table_id: str, audience: str) -> ViewPartition | None:
        """Return what a view has for an audience; None where its next refresh has to make it."""
        key = keys.view_partition(share, table_id, audience)
        item = self._dynamo.batch_get(self._table, [key]).get(key)
        return None if item is None else ViewPartition.read(item)

    def get_storage(self, name: str) -> Storage:
        """Return the storage that a table names; raises TableUnreadable if it is gone."""
        item = self._dynamo.get(self._table, keys.storage(name))
        if item is None:
            raise TableUnreadable("the table's storage is not in the catalog: the provider must name one that is")
        return Storage.read(item)

    def _granted(
        self, recipient_id: str, share: str, wanted: Key, unknown: str, unknown_but_granted: str | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the share's grant and the wanted item, by one request."""
        grant = keys.grant(recipient_id, share)
        items = self._dynamo.batch_get(self._table, [grant, wanted])
        if grant not in items:
            raise NotFound(unknown)
        if wanted not in items:
            raise NotFound(unknown_but_granted or unknown)
        return items[grant], items[wanted]

    def _listed(self, stretch: keys.KeyRange, limit: int) -> Iterator[dict[str, Any]]:
        return self._dynamo.query(self._table, stretch, limit=limit, consistent=False)


def _listed_table(item: Mapping[str, Any], grant: Mapping[str, Any]) -> Table:
    """Return a table as a listing has it: where some of its rows are not shared its folder is not, either."""
    table = Table.read(item)
    return replace(table, access_modes=("url",)) if table.is_restricted or grant.get("partition_filter") else table
