"""What the entries of tables, volumes, skills and models share: how they are created, found, changed and deleted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypedDict, TypeVar, cast
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.filter_rules import Entry, check_folders
from deltaic.catalog.admin.records import EVERY, Change, Checks, Excerpt, Records, checked_id
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import AccessMode, InSchema, now
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import ABSENT, Write, Writes
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound
from deltaic.protocol import names
from deltaic.storage.locations import Location

DECISIVE: Final = frozenset({
    "location", "auxiliary_locations", "access_modes", "storage", "partition_filter", "hidden_columns",
})  # fmt: skip
"""The attributes that decide which rows a recipient can read."""

_ACCESS_MODES: Final = ("url", "dir")

_Entry = TypeVar("_Entry", bound=InSchema)

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


class EntryAdmin(Generic[_Entry]):
    """The entries of one kind. A schema counts all that it holds, a storage what lies in it."""

    def __init__(self, records: Records, item: type[_Entry]) -> None:
        self._records = records
        self._item = item

    def get(self, share: str, schema: str, name: str) -> _Entry:
        """Return an entry; raises NotFound."""
        item = self._records.present(self._key(share, schema, name), self._missing(share, schema, name))
        return self._item.read(item)

    def list(self, share: str, schema: str | None = None, excerpt: Excerpt = EVERY) -> Iterator[_Entry]:
        """Yield the entries of a schema, or of the whole share, in the order of their names; raises NotFound.

        An `excerpt` is one of a schema's.
        """
        if schema is None:
            self._records.share(share)
            stretch = keys.in_share(self._item.kind, share)
        else:
            self._records.schema(share, schema)
            stretch = keys.in_schema(self._item.kind, share, schema)
        return map(self._item.read, self._records.all(stretch, excerpt))

    def delete(self, share: str, schema: str, name: str) -> _Entry:
        """Delete an entry, not its files; raises NotFound."""
        while True:
            item = self._records.existing(self._key(share, schema, name), self._missing(share, schema, name))
            entry = self._item.read(item)
            if self._remove(entry):
                return entry

    def remove_all(self, share: str, schema: str) -> None:
        """Delete every entry of a schema in which no more can be made."""
        for item in tuple(self._records.all(keys.in_schema(self._item.kind, share, schema))):
            self._remove(self._item.read(item))

    def _named(self, share: str, schema: str, name: str, entry_id: str | None) -> dict[str, Any]:
        """Return what every new entry has; raises NotFound for the schema, InvalidParameter for the name."""
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

    def _enter(self, entry: _Entry, attributes: Mapping[str, Any], also: Sequence[Write] = ()) -> _Entry:
        schema = (entry.share, entry.schema_name)
        same = {"share_id": entry.share_id, "state": ABSENT}
        counted = self._records.update(keys.schema(*schema), add={"tables": 1}, expect=same)
        self._store(self._key(*schema, entry.name), entry, attributes, counted, f"schema '{'.'.join(schema)}'", also)
        return entry

    def _store(  # noqa: PLR0913, PLR0917 -- a transaction
        self,
        key: Key,
        entry: InSchema,
        attributes: Mapping[str, Any],
        counted: Write,
        parent: str,
        also: Sequence[Write] = (),
    ) -> None:
        """Write a new entry, which its parent counts, and other items in the same transaction.

        Raises AlreadyExists, NotFound for the parent or the storage, and what `check_folders` raises.
        """
        records, storage = self._records, getattr(entry, "storage", "")
        writes = [records.put_new(key, attributes), counted, *records.uses(storage, 1), *also]
        try:
            records.transact_checked(writes, lambda: check_folders(records, entry) if isinstance(entry, Entry) else [])
        except ConditionFailed as failed:
            if failed.index == 0:
                raise AlreadyExists(
                    f"there is a {entry.kind} '{entry.title}' already: choose another name, or update it"
                ) from None
            what = parent if failed.index == 1 else f"storage '{storage}'"
            raise NotFound(f"{what} not found") from None

    def _change(self, share: str, schema: str, name: str, how: Change) -> _Entry:
        key, missing = self._key(share, schema, name), self._missing(share, schema, name)
        return self._item.read(self._changed(key, missing, self._item, how))

    def _changed(self, key: Key, missing: str, item: type[InSchema], how: Change) -> Attributes:
        """Change an entry; raises NotFound for it or its new storage, and what `how` and `check_folders` raise."""
        storage = ""

        def moved(before: Attributes, after: Mapping[str, Any]) -> Writes:
            nonlocal storage
            storage = after.get("storage", before.get("storage", ""))
            return self._records.moves(before.get("storage", ""), storage)

        def check(before: Attributes, after: Mapping[str, Any]) -> Writes:
            entry = item.read({**before, **after})
            is_same = all(after.get(name, before.get(name)) == before.get(name) for name in DECISIVE)
            return [] if is_same or not isinstance(entry, Entry) else check_folders(self._records, entry)

        try:
            return self._records.change(key, missing, how, moved, check)
        except ConditionFailed:
            raise NotFound(f"storage '{storage}' not found") from None

    def _remove(self, entry: _Entry, also: Sequence[Write] = ()) -> bool:
        """Delete an entry as it was read; False if it is gone, or lies in another storage by now."""
        storage = getattr(entry, "storage", "")
        leave = self._leave(entry, {"storage": storage})
        return self._records.attempt([*leave, *self._records.uses(storage, -1), *also])

    def _leave(self, entry: _Entry, expect: Mapping[str, Any]) -> Writes:
        """Return the writes by which an entry as it was read goes."""
        return [
            self._records.delete(self._key(entry.share, entry.schema_name, entry.name), {"id": entry.id, **expect}),
            self._records.update(keys.schema(entry.share, entry.schema_name), add={"tables": -1}),
        ]

    def _key(self, share: str, schema: str, name: str) -> Key:
        return keys.asset(self._item.kind, share, schema, name)

    def _missing(self, share: str, schema: str, name: str) -> str:
        return f"{self._item.kind} '{share}.{schema}.{name}' not found"


def checked_location(uri: str) -> str:
    """Return an S3 URI without a slash at its end; raises InvalidParameter."""
    place = Location.parse(uri)
    if place.prefix.rpartition("/")[2] == "_delta_log":
        raise InvalidParameter(f"'{uri}' is the log of a table: name the folder that holds _delta_log")
    scheme = uri.partition("://")[0].lower()
    return f"{scheme}://{place.bucket}/{place.prefix}".rstrip("/")


def checked_access_modes(modes: Sequence[str]) -> tuple[AccessMode, ...]:
    """Return the modes once each, `url` before `dir`; raises InvalidParameter."""
    unknown = [mode for mode in modes if mode not in _ACCESS_MODES]
    if unknown or not modes:
        raise InvalidParameter(f"access modes are 'url' and 'dir', at least one of them; not '{', '.join(unknown)}'")
    return cast("tuple[AccessMode, ...]", tuple(mode for mode in _ACCESS_MODES if mode in modes))


CHECKED: Final[Checks] = {
    "location": checked_location,
    "access_modes": checked_access_modes,
    "storage": names.key,
    "comment": names.check_comment,
}
