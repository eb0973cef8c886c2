"""Stores entries that lie in a folder: their schema and their storage count them, and they are compared with others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltaic.catalog import keys
from deltaic.catalog.admin.filter_rules import Entry, check_folders
from deltaic.catalog.admin.records import Change, Records
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import InSchema
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import ABSENT, Write, Writes
from deltaic.errors import AlreadyExists, NotFound

DECISIVE: Final = frozenset({
    "location", "auxiliary_locations", "access_modes", "storage", "partition_filter", "hidden_columns",
})  # fmt: skip
"""The attributes that decide which rows a recipient can read."""


def enter(  # noqa: PLR0913, PLR0917 -- a transaction
    records: Records,
    key: Key,
    entry: InSchema,
    attributes: Mapping[str, Any],
    parent: tuple[Write, str] | None = None,
    also: Sequence[Write] = (),
) -> None:
    """Write a new entry, which its schema or another `parent` counts, and other items in the same transaction.

    Raises AlreadyExists, NotFound for the parent or the storage, and what `check_folders` raises.
    """
    storage, schema = getattr(entry, "storage", ""), (entry.share, entry.schema_name)
    same = {"share_id": entry.share_id, "state": ABSENT}
    counted, title = parent or (
        records.update(keys.schema(*schema), add={"tables": 1}, expect=same), f"schema '{'.'.join(schema)}'"
    )  # fmt: skip
    writes = [records.put_new(key, attributes), counted, *records.uses(storage, 1), *also]
    try:
        records.transact_checked(writes, lambda: check_folders(records, entry) if isinstance(entry, Entry) else [])
    except ConditionFailed as failed:
        if failed.index == 0:
            raise AlreadyExists(
                f"there is a {entry.kind} '{entry.title}' already: choose another name, or update it"
            ) from None
        what = title if failed.index == 1 else f"storage '{storage}'"
        raise NotFound(f"{what} not found") from None


def change(records: Records, key: Key, missing: str, item: type[InSchema], change: Change) -> Attributes:
    """Change an entry; raises NotFound for it or its new storage, and what `change` and `check_folders` raise."""
    storage = ""

    def moved(before: Attributes, after: Mapping[str, Any]) -> Writes:
        nonlocal storage
        storage = after.get("storage", before.get("storage", ""))
        return records.moves(before.get("storage", ""), storage)

    def check(before: Attributes, after: Mapping[str, Any]) -> Writes:
        entry = item.read({**before, **after})
        is_same = all(after.get(name, before.get(name)) == before.get(name) for name in DECISIVE)
        return [] if is_same or not isinstance(entry, Entry) else check_folders(records, entry)

    try:
        return records.change(key, missing, change, moved, check)
    except ConditionFailed:
        raise NotFound(f"storage '{storage}' not found") from None
