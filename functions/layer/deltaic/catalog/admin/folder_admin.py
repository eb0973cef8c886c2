"""Administration of volumes and skills: folders whose files are all shared; the files are never changed."""

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
    """Create, get, list, update and delete entries of volumes, or entries of skills."""

    def create(  # noqa: PLR0913 -- the attributes of an entry
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
        """Create a volume or a skill; raises NotFound for schema or storage, AlreadyExists, InvalidParameter."""
        entry = self._item.read({
            **self._common_attributes(share, schema, name, asset_id),
            **checked(CHECKED, {"location": location, **settings}),
            **(facts or {}),
        })  # fmt: skip
        return self._insert(_check_folder_name(entry), entry.attributes())

    def update(self, share: str, schema: str, name: str, **changes: Unpack[FolderChanges]) -> _Folder:
        """Change the given settings of a volume or a skill, and keep the others; raises NotFound, InvalidParameter."""
        assign = {**checked(CHECKED, changes), **changes.get("facts", {})}

        def change(before: Attributes) -> Mapping[str, Any]:
            _check_folder_name(self._item.read({**before, **assign}))
            return assign

        return self._change(share, schema, name, change)


def _check_folder_name(entry: _Folder) -> _Folder:
    """Return the entry; raises InvalidParameter if a skill has another name than its folder."""
    folder = Location.parse(entry.location).prefix.rpartition("/")[2]
    if isinstance(entry, Skill) and folder != entry.name:
        raise InvalidParameter(
            f"skill '{entry.name}' is in folder '{folder}', but a skill must have the name of its folder "
            f"(agentskills.io): share it as '{folder}', or move it"
        )
    return entry
