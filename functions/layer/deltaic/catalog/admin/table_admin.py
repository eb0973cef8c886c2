"""Administration of table entries: the location of each shared table, and what recipients may read."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack, cast

from deltaic.catalog import keys
from deltaic.catalog.admin.entry_admin import DECISIVE, EntryAdmin, checked_access_modes, checked_location
from deltaic.catalog.admin.filter_rules import (
    Overlaps,
    check_access,
    check_iceberg,
    checked_columns,
    checked_filter,
    entries_of,
)
from deltaic.catalog.admin.records import Checks, Records, checked
from deltaic.catalog.admin.view_partitions import ViewPartitions
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import IcebergAccess, Table, TableFormat
from deltaic.catalog.writes import ABSENT, Write
from deltaic.errors import InvalidParameter
from deltaic.protocol import names

_ICEBERG: Final = ("", "vended", "signed")
_LATEST_LONG: Final = 2**63 - 1
_METADATA_LOCATION: Final = (
    r"s3[an]?://[^/]+/.+\.metadata\.json|glue://[^/]+/[^/]+|s3tables://arn:aws[a-z-]*:s3tables:[^/]+/[^/]+/[^/]+/[^/]+"
)
_DEFAULTS: Final = {
    "auxiliary_locations": (),
    "access_modes": ("url",),
    "partition_filter": "",
    "hidden_columns": (),
    "iceberg": "",
    "format": "delta",
    "metadata_location": "",
    "followed": False,
    "unlisted": "",
}
"""Default values of a table entry, which are not stored because the IAM role of jobs may not write them."""

Validate = Callable[[Table, Table | None], Table]
"""Compares a new entry with the table's log; also gets the stored entry, if any. Returns the new entry, with the names
of hidden columns in the same case as in the log. Raises DeltaicError for an invalid entry."""


class TableSettings(TypedDict, total=False):
    """Settings of a table entry, except its location; None keeps the current value."""

    auxiliary_locations: Sequence[str] | None
    access_modes: Sequence[str] | None
    history: bool | None
    start_version: int | None
    storage: str | None
    checkpoint: bool | None
    partition_filter: str | None
    hidden_columns: Sequence[str] | None
    iceberg: str | None
    format: str | None
    metadata_location: str | None
    followed: bool | None


class TableChanges(TableSettings, total=False):
    """Settings of a table entry that an update can change."""

    location: str | None


def _accept(new: Table, _before: Table | None) -> Table:
    return new


class TableAdmin(EntryAdmin[Table]):
    """Create, get, list, update and delete table entries; the tables themselves are never changed.

    Schemas and storages store the number of their tables, so that only empty ones can be deleted.
    """

    def __init__(self, records: Records, partitions: ViewPartitions) -> None:
        super().__init__(records, Table)
        self._partitions = partitions

    def create(  # noqa: PLR0913 -- the attributes of a table entry
        self,
        share: str,
        schema: str,
        name: str,
        location: str,
        *,
        table_id: str | None = None,
        validate: Validate = _accept,
        **settings: Unpack[TableSettings],
    ) -> Table:
        """Create a table entry; raises NotFound for the schema or the storage, AlreadyExists, InvalidParameter.

        `validate` compares the filter and the hidden columns with the table's log. If it raises, nothing is stored.
        """
        table = Table.read(
            {
                **self._common_attributes(share, schema, name, table_id),
                **checked(_CHECKED, {"location": location, **settings}),
            }
        )
        check_iceberg(table)
        check_access(table.access_modes, table.partition_filter, table.hidden_columns)
        return self.add(validate(table, None))

    def add(self, table: Table, also: Sequence[Write] = ()) -> Table:
        """Write a complete table entry and the writes `also` in one transaction; raises the errors of `create`."""
        return self._insert(table, to_item(table), also)

    def update(
        self, share: str, schema: str, name: str, *, validate: Validate = _accept, **changes: Unpack[TableChanges]
    ) -> Table:
        """Change the given settings of a table entry, and keep the others; raises NotFound, InvalidParameter.

        Location, filter and similar settings of a view cannot change. `validate` compares the new entry with the log.
        """
        assign = checked(_CHECKED, changes)

        def change(before: Attributes) -> Mapping[str, Any]:
            after = Table.read({**before, **assign})
            if after.view_properties is not None and assign.keys() & DECISIVE:
                raise InvalidParameter(
                    f"'{share}.{schema}.{name}' is a view, so its SQL selects the shared rows: change the SQL with "
                    "`deltaic view update`, or create another view"
                )
            check_iceberg(after)
            check_access(after.access_modes, after.partition_filter, after.hidden_columns)
            hidden = validate(after, Table.read(before)).hidden_columns
            return {**assign, "hidden_columns": hidden} if "hidden_columns" in assign else assign

        return self._change(share, schema, name, change)

    def find_many(self, share: str, schema: str, table_names: Iterable[str]) -> dict[str, Table]:
        """Return the existing tables of a schema with the given names, in a dict by `Table.key`."""
        items = self._records.find_many(keys.asset("table", share, schema, name) for name in table_names)
        return {table.key: table for table in map(Table.read, items.values())}

    def set_listed(self, table: Table, hidden_reason: str) -> None:
        """Hide a table of a followed source from recipients, or show it again if `hidden_reason` is empty.

        Does nothing if the entry has changed since it was read; the next check of the source reads it again.
        """
        key = keys.asset("table", table.share, table.schema_name, table.name)
        expect = {"id": table.id, "followed": True, "location": table.location, "storage": table.storage}
        self._records.attempt([
            self._records.update(key, assign={"unlisted": hidden_reason or None}, add={"revision": 1}, expect=expect)
        ])  # fmt: skip

    def list_filtered(self) -> Iterator[Table]:
        """Yield every table with a filter or hidden columns, including views."""
        return (entry for entry in entries_of(self._records) if isinstance(entry, Table) and entry.is_filtered)

    @property
    def overlaps(self) -> Overlaps:
        """Comparison of the folders of all entries of the catalog."""
        return Overlaps(self._records)

    def _remove(self, table: Table, also: Sequence[Write] = ()) -> bool:
        """Delete a table entry and, for a view, its definition and partitions; return False if the entry changed."""
        if table.view_properties is not None:
            self._partitions.remove_all(table)
            view = keys.asset("view", table.share, table.schema_name, table.name)
            also = [*also, self._records.delete(view, present=False)]
        return super()._remove(table, also)


def to_item(table: Table) -> dict[str, Any]:
    """Return the attributes of a table entry that are stored: those without a default value in `_DEFAULTS`."""
    return {name: value for name, value in table.attributes().items() if _DEFAULTS.get(name, ABSENT) != value}


def _checked_iceberg(access: str) -> IcebergAccess:
    if access not in _ICEBERG:
        raise InvalidParameter(f"'{access}' is not an Iceberg access mode: use 'vended', 'signed' or '' (none)")
    return cast("IcebergAccess", access)


def _checked_format(text: str) -> TableFormat:
    if text not in {"delta", "iceberg"}:
        raise InvalidParameter(f"'{text}' is not a table format: use 'delta' or 'iceberg'")
    return cast("TableFormat", text)


def checked_metadata(location: str) -> str:
    """Return a valid location of Iceberg metadata, or "" for none; raises InvalidParameter."""
    if location and not re.fullmatch(_METADATA_LOCATION, location):
        raise InvalidParameter(
            f"'{location}' is not a location of Iceberg metadata: write "
            "s3://bucket/folder/metadata/....metadata.json, glue://database/table, or "
            "s3tables://arn:aws:s3tables:region:account:bucket/name/namespace/table"
        )
    return location


def _checked_version(version: int) -> int:
    if not 0 <= version <= _LATEST_LONG:
        raise InvalidParameter(f"start version {version} is out of range: write a number from 0 to {_LATEST_LONG}")
    return version


_CHECKED: Final[Checks] = {
    "location": checked_location,
    "auxiliary_locations": lambda locations: [checked_location(location) for location in locations],
    "access_modes": checked_access_modes,
    "history": bool,
    "start_version": _checked_version,
    "storage": names.key,
    "checkpoint": bool,
    "partition_filter": checked_filter,
    "hidden_columns": checked_columns,
    "iceberg": _checked_iceberg,
    "format": _checked_format,
    "metadata_location": checked_metadata,
    "followed": bool,
}
