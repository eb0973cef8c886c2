"""The views of the catalog: a table entry, what its rows are made of, and the partitions that there are."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.entry_admin import checked_location
from deltaic.catalog.admin.records import Change, Checks, Records, checked, checked_id
from deltaic.catalog.admin.table_admin import TableAdmin
from deltaic.catalog.admin.view_partitions import AT_ONCE, ViewPartitions
from deltaic.catalog.admin.view_requests import ViewRequests, refresh_request
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Table, View, now
from deltaic.catalog.writes import Writes
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic.protocol import names
from deltaic.storage.locations import Location

LONGEST_STALENESS: Final = timedelta(days=3653)
"""Ten years."""


class ViewSettings(TypedDict, total=False):
    """What of a view is set, beside its SQL; None, as what is left out, keeps what there is."""

    key: Sequence[str] | None
    refresh: str | None
    max_staleness: int | None


class ViewAdmin:
    """Creates, gets, lists, updates and deletes views, and keeps how their refreshes went. Runs no SQL."""

    def __init__(
        self, records: Records, tables: TableAdmin, partitions: ViewPartitions, requests: ViewRequests
    ) -> None:
        self._records = records
        self._tables = tables
        self._requests = requests
        self.partitions = partitions

    def create(  # noqa: PLR0913 -- what a view holds
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
        """Make a view, which has no rows before its first refresh; its schema counts it among its tables.

        `properties` are those of recipients that the SQL uses. Raises NotFound for the schema or the source,
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
            location=_apart(checked_location(location), base),
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
        self._tables.enter(
            table, also=[self._records.put_new(keys.asset("view", share, schema, name), view.attributes())]
        )
        return view

    def source(self, name: str) -> Table:
        """Return the entry of a table that a view may read; raises NotFound, InvalidParameter with the remedy."""
        share, schema, table = names.split_table_name(name)
        entry = self._tables.get(share, schema, table)
        if entry.view_properties is not None:
            raise InvalidParameter(f"'{name}' is a view itself: name the tables that it is made of")
        if entry.storage:
            raise InvalidParameter(
                f"'{name}' lies in the storage '{entry.storage}', which jobs do not reach: "
                "publish it to AWS S3 and name that table"
            )
        return entry

    def get(self, share: str, schema: str, name: str) -> View:
        """Return a view; raises NotFound, also for a table that is none."""
        return View.read(self._records.present(keys.asset("view", share, schema, name), _missing(share, schema, name)))

    def table(self, view: View) -> Table:
        """Return the table entry of a view; raises NotFound."""
        return self._tables.get(view.share, view.schema_name, view.name)

    def list(self, share: str) -> Iterator[View]:
        """Yield the views of a share, in the order of their names; raises NotFound."""
        self._records.share(share)
        return (View.read(item) for item in self._records.all(keys.of_share("view", share)) if "state" not in item)

    def list_all(self) -> Iterator[View]:
        """Yield the views of all shares, share by share: few have any, and most of the catalog is tables."""
        for share in self._records.all(keys.all_of("share")):
            found = self._records.all(keys.of_share("view", share["name"]))
            yield from (View.read(item) for item in found if "state" not in item)

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
        """Change what is given and keep the rest; raises NotFound, InvalidParameter.

        With another SQL, which `properties` go with, nobody reads the view until it is refreshed: what the old one
        showed the new one may hide. The versions from before stay unseen, and the refresh is requested.
        """
        if (sql is None) != (properties is None):
            raise InvalidParameter("another SQL comes with the properties that it uses")
        assign = checked(_CHECKED, {"sql": sql, **changes})
        used = None if properties is None else _checked_properties(properties)

        def other(before: Attributes) -> bool:
            return used is not None and before["sql"] != assign["sql"]

        def without_rows(before: Attributes, _: Mapping[str, Any]) -> Writes:
            if not other(before):
                return []
            audiences = [each.audience for each in self.partitions.list(share, before["table_id"])]
            self.partitions.remove(share, before["table_id"], audiences[AT_ONCE:])
            return [
                self._records.update(keys.asset("table", share, schema, name), assign={"view_properties": used}),
                *self.partitions.removals(share, before["table_id"], audiences[:AT_ONCE]),
            ]

        def change(before: Attributes) -> dict[str, Any]:
            return assign if not other(before) else {**assign, **refresh_request(before)}

        place = keys.asset("view", share, schema, name)
        return View.read(self._records.change(place, _missing(share, schema, name), change, also=without_rows))

    def delete(self, share: str, schema: str, name: str) -> Table:
        """Delete a view with its table entry and its partitions, not what lies in S3; raises NotFound.

        What was interrupted is finished by doing it again.
        """
        table = self._tables.get(share, schema, name)
        if table.view_properties is None:
            raise NotFound(f"'{share}.{schema}.{name}' is a table and no view: deltaic table delete")
        return self._tables.delete(share, schema, name)

    def request_refresh(self, share: str, schema: str, name: str) -> View:
        """Say that a refresh is wanted from now on; raises NotFound."""
        return self._requests.request(share, schema, name)

    def record_refresh(self, view: View, done: Mapping[str, Any], *, keep_request: bool) -> View:
        """Keep what a refresh did that began with `view` as it was read then.

        The request that it served is over, unless another one came meanwhile, the SQL changed, or `keep_request`.
        Raises NotFound when the view is gone, Conflict when another has its name.
        """

        def change(item: Attributes) -> dict[str, Any]:
            stored = View.read(item)
            if stored.table_id != view.table_id:
                raise Conflict(f"'{view.title}' was made anew: refresh it again")
            moment = now()
            assign: dict[str, Any] = {"refreshed_at": moment, "last_refresh": dict(done)}
            if keep_request or stored.sql != view.sql:
                assign["requested_at"] = stored.requested_at or moment
            elif stored.requested_at == view.requested_at:
                assign["requested_at"] = None
            return assign

        return self._change(view, change)

    def record_failure(self, view: View, reason: str) -> View:
        """Keep why a refresh failed beside what the last one did; raises NotFound."""
        failure = {"failure": reason, "failed_at": int(now().timestamp())}
        return self._change(view, lambda item: {"last_refresh": {**item["last_refresh"], **failure}})

    def _change(self, view: View, change: Change) -> View:
        place = (view.share, view.schema_name, view.name)
        return View.read(self._records.change(keys.asset("view", *place), _missing(*place), change))


def _apart(location: str, source: Table) -> str:
    """Return a location apart from the source's, whose upkeep would take the view's files for its own and delete them.

    Raises InvalidParameter.
    """
    here, there = Location.parse(location), Location.parse(source.location)
    if here.contains(there) or there.contains(here):
        raise InvalidParameter(
            f"'{location}' and the source's {source.location} lie one in the other: choose a folder beside it"
        )
    return location


def _checked_sql(sql: str) -> str:
    if not sql.strip():
        raise InvalidParameter("a view has SQL: SELECT ... FROM source")
    return sql.strip()


def _checked_properties(properties: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(properties)))


def checked_key(key: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a view's key, each once; raises InvalidParameter for one without a name."""
    if not all(key):
        raise InvalidParameter("the name of a key column is empty")
    return tuple(dict.fromkeys(key))


def checked_staleness(seconds: int) -> int:
    """Return how many seconds old a view may be; raises InvalidParameter for less than 0 or more than ten years."""
    if not 0 <= seconds <= LONGEST_STALENESS.total_seconds():
        raise InvalidParameter(
            f"a view's maximal staleness is 0 seconds (none) to ten years ({LONGEST_STALENESS.days} days), "
            f"and is {seconds} seconds"
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
