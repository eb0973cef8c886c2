"""Administration of views, which consist of a table entry, a definition with SQL and settings, and partitions."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.entry_admin import checked_location
from deltaic.catalog.admin.records import Change, Checks, Records, checked, checked_id
from deltaic.catalog.admin.table_admin import TableAdmin
from deltaic.catalog.admin.view_partitions import BATCH_SIZE, ViewPartitions
from deltaic.catalog.admin.view_requests import refresh_request
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Table, View, now
from deltaic.catalog.writes import Writes
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic.protocol import names
from deltaic.storage.locations import Location

LONGEST_STALENESS: Final = timedelta(days=3653)  # ten years


class ViewSettings(TypedDict, total=False):
    """Settings of a view except its SQL; None keeps the current value."""

    key: Sequence[str] | None
    refresh: str | None
    max_staleness: int | None


class ViewAdmin:
    """Create, get, list, update and delete views, and store the results of refreshes; runs no SQL."""

    def __init__(self, records: Records, tables: TableAdmin, partitions: ViewPartitions) -> None:
        self._records = records
        self._tables = tables
        self.partitions = partitions

    def create(  # noqa: PLR0913 -- the attributes of a view
        self,
        share: str,
        schema: str,
        name: str,
        location: str,
        *,
        source: str,
        sql: str,
        properties: Sequence[str],
        history: bool = False,
        table_id: str | None = None,
        **settings: Unpack[ViewSettings],
    ) -> View:
        """Create a view without rows; it is counted as a table of its schema.

        `properties` are the recipient properties that the SQL uses. Raises NotFound for the schema or the source,
        AlreadyExists, InvalidParameter.
        """
        names.check_name("table", name)
        parent = self._records.schema(share, schema)
        base = self.source(source)
        table = Table(
            name=name,
            schema_name=parent.name,
            share=parent.share,
            id=str(uuid4()) if table_id is None else checked_id(table_id),
            share_id=parent.share_id,
            location=_check_separate(checked_location(location), base),
            history=history,
            hidden_columns=(AUDIENCE_COLUMN,),
            view_properties=_checked_properties(properties),
            created_at=now(),
        )
        view = View(
            share=table.share,
            schema_name=table.schema_name,
            name=name,
            table_id=table.id,
            source=base.title,
            **checked(_CHECKED, {"sql": sql, **settings}),
            created_at=table.created_at,
        )
        self._tables.add(
            table, also=[self._records.put_new(keys.asset("view", share, schema, name), view.attributes())]
        )
        return view

    def source(self, name: str) -> Table:
        """Return the table entry with this full name; raises NotFound, or InvalidParameter if views cannot read it."""
        share, schema, table = names.split_table_name(name)
        entry = self._tables.get(share, schema, table)
        if entry.view_properties is not None:
            raise InvalidParameter(f"'{name}' is a view, and a view cannot read another view: name its source tables")
        if entry.storage:
            raise InvalidParameter(
                f"'{name}' is in storage '{entry.storage}', which jobs cannot read: publish it to AWS S3, and name "
                "that table"
            )
        return entry

    def get(self, share: str, schema: str, name: str) -> View:
        """Return a view; raises NotFound, also for a table that is not a view."""
        return View.read(self._records.get(keys.asset("view", share, schema, name), _missing(share, schema, name)))

    def table(self, view: View) -> Table:
        """Return the table entry of a view; raises NotFound."""
        return self._tables.get(view.share, view.schema_name, view.name)

    def list(self, share: str) -> Iterator[View]:
        """Yield the views of a share, sorted by name; raises NotFound."""
        self._records.share(share)
        return (View.read(item) for item in self._records.all(keys.of_share("view", share)) if "state" not in item)

    def list_all(self) -> Iterator[View]:
        """Yield the views of all shares, share by share."""
        for share in self._records.all(keys.all_of("share")):
            items = self._records.all(keys.of_share("view", share["name"]))
            yield from (View.read(item) for item in items if "state" not in item)

    def update(
        self,
        share: str,
        schema: str,
        name: str,
        *,
        sql: str | None = None,
        properties: Sequence[str] | None = None,
        **changes: Unpack[ViewSettings],
    ) -> View:
        """Change the given settings of a view, and keep the others; raises NotFound, InvalidParameter.

        `sql` requires `properties`. New SQL removes all partitions and requests a refresh, because it may hide rows
        that the old SQL selected. Until then, no recipient can read the view; its older versions stay hidden.
        """
        if (sql is None) != (properties is None):
            raise InvalidParameter("SQL and properties belong together: give both, or neither")
        assign = checked(_CHECKED, {"sql": sql, **changes})
        view_properties = None if properties is None else _checked_properties(properties)

        def changes_sql(before: Attributes) -> bool:
            return view_properties is not None and before["sql"] != assign["sql"]

        def remove_partitions(before: Attributes, _: Mapping[str, Any]) -> Writes:
            if not changes_sql(before):
                return []
            audiences = [partition.audience for partition in self.partitions.list(share, before["table_id"])]
            self.partitions.remove(share, before["table_id"], audiences[BATCH_SIZE:])
            table_key = keys.asset("table", share, schema, name)
            return [
                self._records.update(table_key, assign={"view_properties": view_properties}),
                *self.partitions.removals(share, before["table_id"], audiences[:BATCH_SIZE]),
            ]

        def change(before: Attributes) -> dict[str, Any]:
            return assign if not changes_sql(before) else {**assign, **refresh_request(before)}

        key = keys.asset("view", share, schema, name)
        return View.read(self._records.change(key, _missing(share, schema, name), change, also=remove_partitions))

    def delete(self, share: str, schema: str, name: str) -> Table:
        """Delete a view with its table entry and its partitions, but not its files; raises NotFound.

        If the call is interrupted, repeat it.
        """
        table = self._tables.get(share, schema, name)
        if table.view_properties is None:
            raise NotFound(f"'{share}.{schema}.{name}' is a table, not a view: use deltaic table delete")
        return self._tables.delete(share, schema, name)

    def record_refresh(self, view: View, result: Mapping[str, Any], *, keep_request: bool) -> View:
        """Store the result of a refresh; `view` is the definition that the refresh read at its start.

        Removes the request for the refresh, unless `keep_request` is set, a newer request exists, or the SQL has
        changed. Raises NotFound if the view was deleted, and Conflict if a new view has the same name.
        """

        def change(item: Attributes) -> dict[str, Any]:
            stored = View.read(item)
            if stored.table_id != view.table_id:
                raise Conflict(f"'{view.title}' was deleted and created again: refresh it again")
            refreshed_at = now()
            assign: dict[str, Any] = {"refreshed_at": refreshed_at, "last_refresh": dict(result)}
            if keep_request or stored.sql != view.sql:
                assign["requested_at"] = stored.requested_at or refreshed_at
            elif stored.requested_at == view.requested_at:
                assign["requested_at"] = None
            return assign

        return self._change(view, change)

    def record_failure(self, view: View, reason: str) -> View:
        """Store why a refresh failed, in addition to the result of the last successful one; raises NotFound."""
        failure = {"failure": reason, "failed_at": int(now().timestamp())}
        return self._change(view, lambda item: {"last_refresh": {**item["last_refresh"], **failure}})

    def _change(self, view: View, change: Change) -> View:
        path = (view.share, view.schema_name, view.name)
        return View.read(self._records.change(keys.asset("view", *path), _missing(*path), change))


def _check_separate(location: str, source: Table) -> str:
    """Return the location of a view; raises InvalidParameter if it overlaps with the folder of its source.

    If they overlapped, maintenance of the source would delete the view's files.
    """
    view_folder, source_folder = Location.parse(location), Location.parse(source.location)
    if view_folder.contains(source_folder) or source_folder.contains(view_folder):
        raise InvalidParameter(
            f"'{location}' overlaps with the source's folder {source.location}: choose a separate folder"
        )
    return location


def _checked_sql(sql: str) -> str:
    if not sql.strip():
        raise InvalidParameter("the SQL of the view is empty: write SELECT ... FROM source")
    return sql.strip()


def _checked_properties(properties: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(properties)))


def checked_key(key: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a view's key columns without duplicates; raises InvalidParameter for an empty name."""
    if not all(key):
        raise InvalidParameter("the name of a key column is empty: name columns of the view")
    return tuple(dict.fromkeys(key))


def checked_staleness(seconds: int) -> int:
    """Return the maximum staleness of a view in seconds; raises InvalidParameter below 0 or above ten years."""
    if not 0 <= seconds <= LONGEST_STALENESS.total_seconds():
        raise InvalidParameter(
            f"a maximum staleness of {seconds} seconds is out of range: choose 0 seconds (none) to ten years "
            f"({LONGEST_STALENESS.days} days)"
        )
    return seconds


_CHECKED: Final[Checks] = {
    "sql": _checked_sql,
    "key": checked_key,
    "refresh": str,
    "max_staleness": checked_staleness,
}


def _missing(share: str, schema: str, name: str) -> str:
    return f"view '{share}.{schema}.{name}' not found"
