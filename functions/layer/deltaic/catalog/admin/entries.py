"""What the entries of volumes, skills and models have in common: how they are entered, found and counted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypedDict, TypeVar
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.placed_entries import enter
from deltaic.catalog.admin.records import EVERY, Checks, Excerpt, Records, checked_id
from deltaic.catalog.admin.tables import checked_access_modes, checked_location
from deltaic.catalog.asset_items import Asset
from deltaic.catalog.items import Schema, now
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import Writes
from deltaic.protocol import names

_Asset = TypeVar("_Asset", bound=Asset)

Facts = Mapping[str, Any]
"""What a skill's SKILL.md or a version's MLmodel says, by the names of the entry's attributes."""


class FolderSettings(TypedDict, total=False):
    """What of a folder's entry is set beside its location; None, as what is left out, keeps what there is."""

    access_modes: Sequence[str] | None
    storage: str | None
    comment: str | None


class FolderChanges(FolderSettings, total=False):
    """What of a folder's entry an update changes."""

    location: str | None
    facts: Facts


class AssetEntries(Generic[_Asset]):
    """Gets, lists and deletes the assets of one kind. A schema counts all that it holds, a storage what lies in it."""

    def __init__(self, records: Records, item: type[_Asset]) -> None:
        self._records = records
        self._item = item

    def get(self, share: str, schema: str, name: str) -> _Asset:
        """Return an entry; raises NotFound."""
        return self._item.read(
            self._records.present(self._key(share, schema, name), self._missing(share, schema, name))
        )

    def list(self, share: str, schema: str | None = None, excerpt: Excerpt = EVERY) -> Iterator[_Asset]:
        """Yield the entries of a schema, or of the whole share, in the order of their names; raises NotFound.

        An `excerpt` is one of a schema's.
        """
        if schema is None:
            self._records.share(share)
            stretch = keys.all_assets(self._item.kind, share)
        else:
            self._records.schema(share, schema)
            stretch = keys.assets(self._item.kind, share, schema)
        return map(self._item.read, self._records.all(stretch, excerpt))

    def _named(self, share: str, schema: str, name: str, asset_id: str | None) -> dict[str, Any]:
        """Return what every new entry has; raises NotFound for the schema, InvalidParameter for the name."""
        names.check_asset_name(self._item.kind, name)
        return _new_in(self._records.schema(share, schema), name, asset_id)

    def _enter(self, asset: _Asset, more: Mapping[str, Any]) -> _Asset:
        key = self._key(asset.share, asset.schema_name, asset.name)
        enter(self._records, key, asset, {**asset.attributes(), **more})
        return asset

    def _leave(self, asset: _Asset, expect: Mapping[str, Any]) -> Writes:
        """Return the writes by which an entry as it was read goes."""
        return [
            self._records.delete(self._key(asset.share, asset.schema_name, asset.name), {"id": asset.id, **expect}),
            self._records.update(keys.schema(asset.share, asset.schema_name), add={"tables": -1}),
        ]

    def _key(self, share: str, schema: str, name: str) -> Key:
        return keys.asset(self._item.kind, share, schema, name)

    def _missing(self, share: str, schema: str, name: str) -> str:
        return f"{self._item.kind} '{share}.{schema}.{name}' not found"


def _new_in(parent: Schema, name: str, asset_id: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "schema_name": parent.name,
        "share": parent.share,
        "id": str(uuid4()) if asset_id is None else checked_id(asset_id),
        "share_id": parent.share_id,
        "created_at": now(),
    }


CHECKED: Final[Checks] = {
    "location": checked_location,
    "access_modes": checked_access_modes,
    "storage": names.key,
    "comment": names.check_comment,
}
