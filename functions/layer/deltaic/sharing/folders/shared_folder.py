"""A volume, a skill or a model's version as one recipient may read it: all of its files, by URLs or by credentials."""

from collections.abc import Mapping
from typing import Final

import msgspec

from deltaic.catalog.asset_items import AssetKind, Folder, Skill, Volume
from deltaic.errors import InvalidParameter, NotFound, TableUnreadable, UnsupportedOperation
from deltaic.protocol.parameters import INT64_MAX, integer
from deltaic.sharing.caller import Caller
from deltaic.sharing.context import Sharing, storage_config
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location

__all__ = ["AssetKind", "AssetName", "SharedFolder", "audit_folder", "open_folder"]

_FOLDERS: Final[Mapping[AssetKind, type[Folder]]] = {"volume": Volume, "skill": Skill}


class AssetName(msgspec.Struct, frozen=True):
    """An asset as the request spells it; comparisons ignore case, messages repeat this spelling."""

    share: str
    schema: str
    name: str
    version: str = ""
    """Of a model; empty for anything else."""

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}{self.version and f' {self.version}'}"

    @property
    def number(self) -> int:
        """The version's number; raises NotFound for what is none."""
        number = integer(self.version, INT64_MAX)
        if number is None or number < 0:
            raise NotFound("a model's version is a number: list the model's versions to see those that there are")
        return number


class SharedFolder(msgspec.Struct, frozen=True):
    """A folder of the catalog, as one recipient may read it."""

    name: AssetName
    entry: Folder
    storage: StorageConfig
    location: Location

    def require_url_access(self) -> None:
        """Raise UnsupportedOperation for a folder that is shared by directory only."""
        if "url" not in self.entry.access_modes:
            raise UnsupportedOperation(
                f"The {self.entry.kind} {self.name} is shared by directory access only (accessModes: dir). "
                f"Use a client that asks for temporary {self.entry.kind} credentials."
            )

    def require_directory_access(self) -> None:
        """Raise UnsupportedOperation for a folder that is not shared by directory."""
        if "dir" not in self.entry.access_modes:
            raise UnsupportedOperation(
                f"The {self.entry.kind} {self.name} is shared by pre-signed URLs only (accessModes: url). "
                "List its files and ask for their URLs (.../files), or ask its provider for directory access."
            )


def open_folder(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName) -> SharedFolder:
    """Return a granted folder, and tell the log of it; raises NotFound, and what `Admission` does."""
    catalog = sharing.catalog_for(caller)
    entry: Folder
    if kind == "model":
        entry = catalog.get_version(caller.recipient_id, name.share, name.schema, name.name, name.number)
    else:
        entry = catalog.get_asset(caller.recipient_id, _FOLDERS[kind], name.share, name.schema, name.name)
    audit_folder(caller, entry)
    try:
        location = Location.parse(entry.location)
    except InvalidParameter as wrong:
        raise TableUnreadable(
            f"the location of this {entry.kind} cannot be read: its provider must correct it", wrong.message
        ) from wrong
    storage = storage_config(sharing.catalog.get_storage(entry.storage)) if entry.storage else sharing.home
    return SharedFolder(name, entry, storage, location)


def audit_folder(caller: Caller, entry: Folder) -> None:
    """Tell the log what was asked for, by the words that it has for tables: usage is told of both alike."""
    caller.audit.add(
        asset=entry.kind,
        share=entry.share,
        schema=entry.schema_name,
        table=entry.name_in_schema,
        tableId=entry.id,
        tableLocations=[entry.location],
    )
