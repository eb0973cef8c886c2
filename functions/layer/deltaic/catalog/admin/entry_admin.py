"""Base class for the administration of tables, volumes, skills and models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypedDict, TypeVar, cast
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.filter_rules import Entry, check_folders
from deltaic.catalog.admin.records import EVERY, Change, Checks, Excerpt, Records, checked_id
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import AccessMode, SchemaEntry, now
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import ABSENT, Write, Writes
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound
from deltaic.protocol import names
from deltaic.storage.locations import Location

DECISIVE: Final = frozenset({
    "location", "auxiliary_locations", "access_modes", "storage", "partition_filter", "hidden_columns",
})  # fmt: skip
"""Attributes that determine which files and rows a recipient can read."""

_ACCESS_MODES: Final = ("url", "dir")

_Entry = TypeVar("_Entry", bound=SchemaEntry)

Facts = Mapping[str, Any]
"""Attributes of an entry that are copied from a skill's SKILL.md or a model version's MLmodel file."""


class FolderSettings(TypedDict, total=False):
    """Settings of a volume, skill or model version except its location; None keeps the current value."""

    access_modes: Sequence[str] | None
    storage: str | None
    comment: str | None


class FolderChanges(FolderSettings, total=False):
    """Settings of a volume, skill or model version that an update can change."""

    location: str | None
    facts: Facts


class EntryAdmin(Generic[_Entry]):
    """Administration of entries of one type. Each change updates the entry counts of schemas and storages."""

    def __init__(self, records: Records, item: type[_Entry]) -> None:
        self._records = records
        self._item = item

    def get(self, share: str, schema: str, name: str) -> _Entry:
        """Return one table, volume, skill or model; raises NotFound."""
        return self._item.read(self._records.get(self._key(share, schema, name), self._missing(share, schema, name)))

    def list(self, share: str, schema: str | None = None, excerpt: Excerpt = EVERY) -> Iterator[_Entry]:
        """Yield the entries of a share, or those of a schema that `excerpt` selects, by name; raises NotFound."""
        if schema is None:
            self._records.share(share)
            key_range = keys.in_share(self._item.kind, share)
        else:
            self._records.schema(share, schema)
            key_range = keys.in_schema(self._item.kind, share, schema)
        return map(self._item.read, self._records.all(key_range, excerpt))

    def delete(self, share: str, schema: str, name: str) -> _Entry:
        """Delete a table, volume, skill or model from the catalog, but not its files; raises NotFound."""
        while True:
            item = self._records.get_any(self._key(share, schema, name), self._missing(share, schema, name))
            entry = self._item.read(item)
            if self._remove(entry):
                return entry

    def remove_all(self, share: str, schema: str) -> None:
        """Delete all tables, volumes or skills (the type of this object) of a schema whose deletion has begun."""
        for item in tuple(self._records.all(keys.in_schema(self._item.kind, share, schema))):
            self._remove(self._item.read(item))

    def _common_attributes(self, share: str, schema: str, name: str, entry_id: str | None) -> dict[str, Any]:
        """Return the attributes of a new entry that every type has; raises NotFound, InvalidParameter."""
        names.check_name(self._item.kind, name)
        parent = self._records.schema(share, schema)
        return {
            "name": name,
            "schema_name": parent.name,
            "share": parent.share,
            "id": str(uuid4()) if entry_id is None else checked_id(entry_id),
            "share_id": parent.share_id,
            "created_at": now(),
        }

    def _insert(self, entry: _Entry, attributes: Mapping[str, Any], also: Sequence[Write] = ()) -> _Entry:
        schema = (entry.share, entry.schema_name)
        same = {"share_id": entry.share_id, "state": ABSENT}
        count_entry = self._records.update(keys.schema(*schema), add={"tables": 1}, expect=same)
        self._store(
            self._key(*schema, entry.name), entry, attributes, count_entry, f"schema '{'.'.join(schema)}'", also
        )
        return entry

    def _store(  # noqa: PLR0913, PLR0917 -- a transaction
        self,
        key: Key,
        entry: SchemaEntry,
        attributes: Mapping[str, Any],
        count_entry: Write,
        parent: str,
        also: Sequence[Write] = (),
    ) -> None:
        """Write a new entry, the entry count of its parent and other items in one transaction.

        Raises AlreadyExists, NotFound for the parent or the storage, and the errors of `check_folders`.
        """
        records, storage = self._records, getattr(entry, "storage", "")
        writes = [records.put_new(key, attributes), count_entry, *records.count_storage_use(storage, 1), *also]
        try:
            records.transact_checked(writes, lambda: check_folders(records, entry) if isinstance(entry, Entry) else [])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise AlreadyExists(
                    f"{entry.kind} '{entry.title}' exists already: choose another name, or update it"
                ) from None
            missing = parent if failed.index == 1 else f"storage '{storage}'"
            raise NotFound(f"{missing} not found") from None

    def _change(self, share: str, schema: str, name: str, change: Change) -> _Entry:
        key, missing = self._key(share, schema, name), self._missing(share, schema, name)
        return self._item.read(self._change_item(key, missing, self._item, change))

    def _change_item(self, key: Key, missing: str, item: type[SchemaEntry], change: Change) -> Attributes:
        """Store the attributes that `change` returns for an entry; raises NotFound and errors of `check_folders`."""
        storage = ""

        def count_move(before: Attributes, after: Mapping[str, Any]) -> Writes:
            nonlocal storage
            storage = after.get("storage", before.get("storage", ""))
            return self._records.count_storage_move(before.get("storage", ""), storage)

        def check(before: Attributes, after: Mapping[str, Any]) -> Writes:
            entry = item.read({**before, **after})
            is_same = all(after.get(name, before.get(name)) == before.get(name) for name in DECISIVE)
            return [] if is_same or not isinstance(entry, Entry) else check_folders(self._records, entry)

        try:
            return self._records.change(key, missing, change, count_move, check)
        except ConditionFailed:
            raise NotFound(f"storage '{storage}' not found") from None

    def _remove(self, entry: _Entry, also: Sequence[Write] = ()) -> bool:
        """Delete an entry; return False if another process has deleted it or changed its storage meanwhile."""
        storage = getattr(entry, "storage", "")
        removal = self._removal(entry, {"storage": storage})
        return self._records.attempt([*removal, *self._records.count_storage_use(storage, -1), *also])

    def _removal(self, entry: _Entry, expect: Mapping[str, Any]) -> Writes:
        """Return the writes that delete an entry, on the condition that it matches `expect`."""
        return [
            self._records.delete(self._key(entry.share, entry.schema_name, entry.name), {"id": entry.id, **expect}),
            self._records.update(keys.schema(entry.share, entry.schema_name), add={"tables": -1}),
        ]

    def _key(self, share: str, schema: str, name: str) -> Key:
        return keys.asset(self._item.kind, share, schema, name)

    def _missing(self, share: str, schema: str, name: str) -> str:
        return f"{self._item.kind} '{share}.{schema}.{name}' not found"


def checked_location(uri: str) -> str:
    """Validate an S3 URI, and return it without a slash at the end; raises InvalidParameter."""
    location = Location.parse(uri)
    if location.prefix.rpartition("/")[2] == "_delta_log":
        raise InvalidParameter(f"'{uri}' is the _delta_log folder of a table: name the folder that contains it")
    scheme = uri.partition("://")[0].lower()
    return f"{scheme}://{location.bucket}/{location.prefix}".rstrip("/")


def checked_access_modes(modes: Sequence[str]) -> tuple[AccessMode, ...]:
    """Validate access modes, and return them without duplicates, `url` before `dir`; raises InvalidParameter."""
    unknown = [mode for mode in modes if mode not in _ACCESS_MODES]
    if unknown or not modes:
        raise InvalidParameter(f"'{', '.join(unknown)}' is not an access mode: choose 'url', 'dir' or both")
    return cast("tuple[AccessMode, ...]", tuple(mode for mode in _ACCESS_MODES if mode in modes))


CHECKED: Final[Checks] = {
    "location": checked_location,
    "access_modes": checked_access_modes,
    "storage": names.key,
    "comment": names.check_comment,
}
