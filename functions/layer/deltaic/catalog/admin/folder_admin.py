"""The entries of volumes and skills: folders that are shared whole. Their files are never touched."""

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from deltaic.catalog import keys
from deltaic.catalog.admin.asset_entries import (
    CHECKED,
    AssetEntries,
    Facts,
    FolderChanges,
    FolderSettings,
)
from deltaic.catalog.admin.placed_entries import change
from deltaic.catalog.admin.records import checked
from deltaic.catalog.asset_items import Folder, Skill
from deltaic.catalog.dynamo import Attributes
from deltaic.errors import InvalidParameter
from deltaic.storage.locations import Location

_Folder = TypeVar("_Folder", bound=Folder)


class FolderAdmin(AssetEntries[_Folder]):
    """Creates, gets, lists, updates and deletes the entries of volumes, or of skills."""

    def create(  # noqa: PLR0913 -- what an entry holds
        self,
        share: str,
        schema: str,
        name: str,
        location: str,
        *,
        asset_id: str | None = None,
        facts: Facts | None = None,
        **settings: Unpack[FolderSettings],
    ) -> _Folder:
        """Make an entry; raises NotFound for the schema or the storage, AlreadyExists, InvalidParameter."""
        made = self._item.read({
            **self._named(share, schema, name, asset_id),
            **checked(CHECKED, {"location": location, **settings}),
            **(facts or {}),
        })  # fmt: skip
        return self._enter(_named_as_its_folder(made), {})

    def update(self, share: str, schema: str, name: str, **changes: Unpack[FolderChanges]) -> _Folder:
        """Change what is given and keep the rest, the id above all; raises NotFound, InvalidParameter."""
        assign = {**checked(CHECKED, changes), **changes.get("facts", {})}

        def named(before: Attributes) -> Mapping[str, Any]:
            _named_as_its_folder(self._item.read({**before, **assign}))
            return assign

        key, missing = self._key(share, schema, name), self._missing(share, schema, name)
        return self._item.read(change(self._records, key, missing, self._item, named))

    def delete(self, share: str, schema: str, name: str) -> _Folder:
        """Delete an entry, not the files; raises NotFound."""
        missing = self._missing(share, schema, name)
        while True:
            found = self._item.read(self._records.existing(self._key(share, schema, name), missing))
            if self._remove(found):
                return found

    def remove_all(self, share: str, schema: str) -> None:
        """Delete every entry of a schema in which no more can be made."""
        for item in tuple(self._records.all(keys.assets(self._item.kind, share, schema))):
            self._remove(self._item.read(item))

    def _remove(self, found: _Folder) -> bool:
        """Delete an entry as it was read; False if it is gone, or lies in another storage by now."""
        leave = self._leave(found, {"storage": found.storage})
        return self._records.attempt([*leave, *self._records.uses(found.storage, -1)])


def _named_as_its_folder(entry: _Folder) -> _Folder:
    """Return an entry, unless it is a skill that is named otherwise than its folder: raises InvalidParameter."""
    folder = Location.parse(entry.location).prefix.rpartition("/")[2]
    if isinstance(entry, Skill) and folder != entry.name:
        raise InvalidParameter(
            f"a skill has the name of its folder (agentskills.io), and '{entry.name}' lies in '{folder}': share it "
            "under that name, or move it"
        )
    return entry
