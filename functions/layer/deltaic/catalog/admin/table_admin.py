"""The table entries of the catalog: where a shared table lies and what may be done with it."""

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
_WHOLE: Final = {
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
"""What an entry of a whole table does not store: the role of jobs may name none of it."""

Validate = Callable[[Table, Table | None], Table]
"""From an entry that is about to be stored, and what it was before, to the entry as it may be: only its hidden columns
may be spelled otherwise. Raises DeltaicError for one that may not be."""


class TableSettings(TypedDict, total=False):
    """What of a table entry is set, beside its location; None, as what is left out, keeps what there is."""

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
    """What of a table entry an update changes."""

    location: str | None


def _as_it_is(wanted: Table, _before: Table | None) -> Table:
    return wanted


class TableAdmin(EntryAdmin[Table]):
    """Creates, gets, lists, updates and deletes table entries. The tables themselves are never touched.

    A schema counts its tables and a storage those that lie in it, so that each knows when it may go.
    """

    def __init__(self, records: Records, partitions: ViewPartitions) -> None:
        super().__init__(records, Table)
        self._partitions = partitions

    def create(  # noqa: PLR0913 -- what a table entry holds
        self,
        share: str,
        schema: str,
        name: str,
        location: str,
        *,
        table_id: str | None = None,
        validate: Validate = _as_it_is,
        **settings: Unpack[TableSettings],
    ) -> Table:
        """Make a table entry; raises NotFound for the schema or the storage, AlreadyExists, InvalidParameter.

        `validate` compares the filter and the hidden columns with the table's log. If it raises, nothing is stored.
        """
        table = Table.read(
            {
                **self._named(share, schema, name, table_id),
                **checked(_CHECKED, {"location": location, **settings}),
            }
        )
        check_iceberg(table)
        check_access(table.access_modes, table.partition_filter, table.hidden_columns)
        return self.enter(validate(table, None))

    def enter(self, table: Table, also: Sequence[Write] = ()) -> Table:
        """Write an entry that is complete, and other items in the same transaction; raises as `create` does."""
        return self._enter(table, to_item(table), also)

    def update(
        self, share: str, schema: str, name: str, *, validate: Validate = _as_it_is, **changes: Unpack[TableChanges]
    ) -> Table:
        """Change what is given and keep the rest, the id above all; raises NotFound, InvalidParameter.

        Filter and hidden columns of a view cannot be changed. `validate` is as in `create`.
        """
        assign = checked(_CHECKED, changes)

        def checked_change(before: Attributes) -> Mapping[str, Any]:
            after = Table.read({**before, **assign})
            if after.view_properties is not None and assign.keys() & DECISIVE:
                raise InvalidParameter(
                    f"'{share}.{schema}.{name}' is a view, whose SQL says what is shared: change the view by "
                    "`deltaic view update`, or make another elsewhere"
                )
            check_iceberg(after)
            check_access(after.access_modes, after.partition_filter, after.hidden_columns)
            hidden = validate(after, Table.read(before)).hidden_columns
            return {**assign, "hidden_columns": hidden} if "hidden_columns" in assign else assign

        return self._change(share, schema, name, checked_change)

    def find_many(self, share: str, schema: str, wanted: Iterable[str]) -> dict[str, Table]:
        """Return those of the tables of a schema that there are, by the keys of their names."""
        found = self._records.several(keys.asset("table", share, schema, name) for name in wanted)
        return {table.key: table for table in map(Table.read, found.values())}

    def set_listed(self, table: Table, unlisted: str) -> None:
        """Take a followed table out of what recipients see, for a reason, or (for none) bring it back.

        Nothing happens to one that was changed meanwhile: who looks again sees what became of it.
        """
        key, same = keys.asset("table", table.share, table.schema_name, table.name), {"id": table.id, "followed": True}
        place = {"location": table.location, "storage": table.storage}
        expect = {**same, **place}
        self._records.attempt([
            self._records.update(key, assign={"unlisted": unlisted or None}, add={"revision": 1}, expect=expect)
        ])  # fmt: skip

    def list_filtered(self) -> Iterator[Table]:
        """Yield every table of which not all is shared, the views among them."""
        return (one for one in entries_of(self._records) if isinstance(one, Table) and one.is_filtered)

    @property
    def overlaps(self) -> Overlaps:
        """Compares the folders of the catalog."""
        return Overlaps(self._records)

    def _remove(self, table: Table, also: Sequence[Write] = ()) -> bool:
        """Delete an entry as it was read, and what else there is of a view."""
        if table.view_properties is not None:
            self._partitions.end(table)
            view = keys.asset("view", table.share, table.schema_name, table.name)
            also = [*also, self._records.delete(view, present=False)]
        return super()._remove(table, also)


def to_item(table: Table) -> dict[str, Any]:
    """Return how an entry is stored."""
    return {name: value for name, value in table.attributes().items() if _WHOLE.get(name, ABSENT) != value}


def _checked_iceberg(access: str) -> IcebergAccess:
    if access not in _ICEBERG:
        raise InvalidParameter(f"Iceberg clients read by 'vended' or 'signed', or not at all (''); not '{access}'")
    return cast("IcebergAccess", access)


def _checked_format(text: str) -> TableFormat:
    if text not in {"delta", "iceberg"}:
        raise InvalidParameter(f"a table's format is 'delta' or 'iceberg', not '{text}'")
    return cast("TableFormat", text)


def checked_metadata(place: str) -> str:
    """Return where an Iceberg table's metadata is named, or "" for nowhere, else raise InvalidParameter."""
    known = not place or re.fullmatch(r"s3[an]?://[^/]+/.+\.metadata\.json|glue://[^/]+/[^/]+", place)
    if not known:
        raise InvalidParameter(
            f"'{place}' names no Iceberg metadata: write s3://bucket/folder/metadata/....metadata.json, or "
            "glue://database/table"
        )
    return place


def _checked_version(version: int) -> int:
    if not 0 <= version <= _LATEST_LONG:
        raise InvalidParameter(f"the start version must be 0 or more, and is {version}")
    return version


_CHECKED: Final[Checks] = {
    "location": checked_location,
    "auxiliary_locations": lambda locations: [checked_location(one) for one in locations],
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
