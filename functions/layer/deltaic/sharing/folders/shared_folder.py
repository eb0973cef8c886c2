"""Find a shared volume, skill or model version, and check how a recipient may read it."""

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
    """Asset name as in the request, also in error messages; look-ups ignore upper and lower case."""

    share: str
    schema: str
    name: str
    version: str = ""
    """Version of a model; empty for other assets."""

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}{self.version and f' {self.version}'}"

    @property
    def number(self) -> int:
        """Model version as a number; raises NotFound if it is not a number."""
        number = integer(self.version, INT64_MAX)
        if number is None or number < 0:
            raise NotFound(f"the model version '{self.version}' is not a number: list the model's versions")
        return number


class SharedFolder(msgspec.Struct, frozen=True):
    """Folder of a volume, skill or model version that is shared with one recipient."""

    name: AssetName
    entry: Folder
    storage: StorageConfig
    location: Location

    def require_url_access(self) -> None:
        """Raise UnsupportedOperation for a folder that is shared by directory access only."""
        if "url" not in self.entry.access_modes:
            raise UnsupportedOperation(
                f"The {self.entry.kind} {self.name} is shared by directory access only (accessModes: dir). "
                f"Use a client that requests temporary {self.entry.kind} credentials."
            )

    def require_directory_access(self) -> None:
        """Raise UnsupportedOperation for a folder that is not shared by directory access."""
        if "dir" not in self.entry.access_modes:
            raise UnsupportedOperation(
                f"The {self.entry.kind} {self.name} is shared by pre-signed URLs only (accessModes: url). "
                "List its files and request their URLs (.../files), or ask its provider for directory access."
            )


def open_folder(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName) -> SharedFolder:
    """Return a granted folder, and add it to the audit record; raises NotFound and the errors of `Admission`."""
    catalog = sharing.catalog_for(caller)
    entry: Folder
    if kind == "model":
        entry = catalog.get_version(caller.recipient_id, name.share, name.schema, name.name, name.number)
    else:
        entry = catalog.get_asset(caller.recipient_id, _FOLDERS[kind], name.share, name.schema, name.name)
    audit_folder(caller, entry)
    try:
        location = Location.parse(entry.location)
    except InvalidParameter as invalid:
        raise TableUnreadable(
            f"the location of this {entry.kind} is invalid: ask its provider to correct it", invalid.message
        ) from invalid
    storage = storage_config(sharing.catalog.get_storage(entry.storage)) if entry.storage else sharing.home
    return SharedFolder(name, entry, storage, location)


def audit_folder(caller: Caller, entry: Folder) -> None:
    """Add a folder to the audit record, in the same fields as a table, for usage reports."""
    caller.audit.add(
        asset=entry.kind,
        share=entry.share,
        schema=entry.schema_name,
        table=entry.name_in_schema,
        tableId=entry.id,
        tableLocations=[entry.location],
    )
