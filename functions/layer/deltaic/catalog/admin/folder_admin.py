"""The entries of volumes and skills: folders that are shared whole. Their files are never touched."""

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from deltaic.catalog.admin.entry_admin import CHECKED, EntryAdmin, Facts, FolderChanges, FolderSettings
from deltaic.catalog.admin.records import checked
from deltaic.catalog.asset_items import Folder, Skill
from deltaic.catalog.dynamo import Attributes
from deltaic.errors import InvalidParameter
from deltaic.storage.locations import Location

_Folder = TypeVar("_Folder", bound=Folder)


class FolderAdmin(EntryAdmin[_Folder]):
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
        return self._enter(_named_as_its_folder(made), made.attributes())

    def update(self, share: str, schema: str, name: str, **changes: Unpack[FolderChanges]) -> _Folder:
        """Change what is given and keep the rest, the id above all; raises NotFound, InvalidParameter."""
        assign = {**checked(CHECKED, changes), **changes.get("facts", {})}

        def named(before: Attributes) -> Mapping[str, Any]:
            _named_as_its_folder(self._item.read({**before, **assign}))
            return assign

        return self._change(share, schema, name, named)


def _named_as_its_folder(entry: _Folder) -> _Folder:
    """Return an entry, unless it is a skill that is named otherwise than its folder: raises InvalidParameter."""
    folder = Location.parse(entry.location).prefix.rpartition("/")[2]
    if isinstance(entry, Skill) and folder != entry.name:
        raise InvalidParameter(
            f"a skill has the name of its folder (agentskills.io), and '{entry.name}' lies in '{folder}': share it "
            "under that name, or move it"
        )
    return entry
