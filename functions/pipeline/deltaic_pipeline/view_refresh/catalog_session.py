"""One refresh of a view between catalog and table: whose rows are wanted, and when the catalog says they are there.

A view partition leaves the catalog before its rows leave the table, and enters it after the commit that holds them; so
at any moment, whatever is killed, whoever finds one finds the rows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient, Table, View, ViewPartition, now
from deltaic.errors import DeltaicError, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import audience
from deltaic.partition_filters.properties import value_of
from deltaic.protocol.names import split_table_name

from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.view_sql import read_sql

if TYPE_CHECKING:
    from deltaic_pipeline.view_refresh.refresh import RefreshResult

KEPT_VERSIONS = 20

MOST_COUNTS = 500
"""Rows are counted for each audience while there are no more than these: the entry has its bounds."""


@dataclass(frozen=True, slots=True)
class Task:
    """Whose rows a refresh is about, as the catalog says at its begin."""

    view: View
    table: Table
    wanted: Sequence[Audience]
    known: frozenset[str]
    recipients: int


def begin(admin: CatalogAdmin, view: View) -> Task:
    """Read what a view needs anew, and take the partitions out of the catalog that nobody has a right to any more.

    The caller holds the lease on the view's location. Raises `NotFound`.
    """
    view = admin.views.get(view.share, view.schema_name, view.name)
    table = admin.views.table(view)
    holders = holders_by_audience(admin, table)
    partitions = {partition.audience for partition in admin.views.partitions.list(view.share, view.table_id)}
    admin.views.partitions.remove(view.share, view.table_id, sorted(partitions - set(holders)))
    wanted = [
        Audience(name, {used: value_of(some[0].properties[used]) for used in table.view_properties or ()})
        for name, some in sorted(holders.items())
    ]
    recipients = sum(len(some) for some in holders.values())
    return Task(view, table, wanted, frozenset(partitions & set(holders)), recipients)


def settle(admin: CatalogAdmin, task: Task, refreshed: "RefreshResult", run_id: str, seconds: float) -> View:
    """Say in the catalog that the rows are there, after the commit, and what the refresh did.

    The request that it served is over unless recipients came meanwhile whose rows are not there. Raises `Conflict` when
    the view was changed in between.
    """
    new = [
        ViewPartition(
            table_id=task.view.table_id,
            audience=each.name,
            since_version=refreshed.version,
            values=dict(each.values),
            created_at=now(),
        )
        for each in task.wanted
        if each.name not in task.known
    ]
    admin.views.partitions.put(task.view, new)
    done: dict[str, Any] = {
        **asdict(refreshed),
        "run_id": run_id,
        "rows": sum(refreshed.rows.values()),
        "rows_by_policy": refreshed.rows if len(refreshed.rows) <= MOST_COUNTS else {},
        "recipients": task.recipients,
        "policies": len(task.wanted),
        "milliseconds": round(seconds * 1000),
        "versions": _versions(task.view, refreshed),
    }
    return admin.views.record_refresh(task.view, done, keep_request=bool(lacking(admin, task.table)))


def definition_of(admin: CatalogAdmin, view: View, table: Table) -> Definition:
    """Return what the engine needs to know of a view; raises `NotFound`, `InvalidParameter` with the remedy."""
    read = read_sql(view.sql, view.source)
    if read.properties != frozenset(table.view_properties or ()):
        raise InvalidParameter(
            f"the SQL of '{view.title}' uses other properties than its entry says: give it again by "
            f"`deltaic view update {view.title} --sql ...`"
        )
    return Definition(
        name=view.title,
        location=table.location,
        sql=view.sql,
        source=source_of(admin, view.source),
        others={name: source_of(admin, name) for name in read.tables},
        key=view.key,
    )


def source_of(admin: CatalogAdmin, name: str) -> SourceTable:
    """Return a table that a view reads; raises `NotFound`, `InvalidParameter` with the remedy."""
    try:
        found = admin.views.source(name)
    except NotFound as missing:
        raise NotFound(f"{missing.message}: share it under that name again, or change the view's SQL") from None
    return SourceTable(found.title, found.location)


def holders_by_audience(admin: CatalogAdmin, table: Table) -> dict[str, list[Recipient]]:
    """Return who may read a view, by the audience that their properties make them; who lacks a property has none."""
    holding = {grant.recipient_id for grant in admin.grants.of_share(table.share)}
    holders: dict[str, list[Recipient]] = {}
    for recipient in admin.recipients.list():
        if recipient.id in holding:
            name = audience(table.view_properties or (), recipient.properties)
            if name is not None:
                holders.setdefault(name, []).append(recipient)
    return holders


def lacking(admin: CatalogAdmin, table: Table) -> list[Recipient]:
    """Return who may read a view that has no rows for them."""
    there = {partition.audience for partition in admin.views.partitions.list(table.share, table.id)}
    return [each for name, some in holders_by_audience(admin, table).items() if name not in there for each in some]


def due(admin: CatalogAdmin, view: View) -> str:
    """Say why a view is to be refreshed; empty if it is not."""
    if by_entry := due_by_entry(view, datetime.now(UTC)):
        return by_entry
    try:
        without = lacking(admin, admin.views.table(view))
    except DeltaicError:  # deleted at this moment
        return ""
    return f"{len(without)} recipient(s) lack their rows" if without else ""


def due_by_entry(view: View, moment: datetime) -> str:
    """Say why a view is to be refreshed, as far as its entry alone tells; empty if it does not."""
    if view.requested_at is not None:
        return f"asked for since {view.requested_at:%Y-%m-%d %H:%M} UTC"
    if view.refreshed_at is None and not view.refresh:
        return "never refreshed"
    if stale(view, moment):
        return f"older than {timedelta(seconds=view.max_staleness)}"
    return ""


def stale(view: View, moment: datetime) -> bool:
    """Return whether a view is older than it may be."""
    since = view.refreshed_at or view.created_at
    return bool(view.max_staleness) and moment - since >= timedelta(seconds=view.max_staleness)


def named_views(admin: CatalogAdmin, names: Sequence[str]) -> list[View]:
    """Return views by name, once each; raises `NotFound`, `InvalidParameter`."""
    found = [admin.views.get(*split_table_name(name)) for name in names]
    return list({view.table_id: view for view in found}.values())


def _versions(view: View, refreshed: "RefreshResult") -> list[Mapping[str, Any]]:
    latest = {"version": refreshed.version, "sources": dict(refreshed.sources), "at": round(time.time())}
    before = [each for each in view.last_refresh.get("versions", ()) if each["version"] != refreshed.version]
    return [latest, *before][:KEPT_VERSIONS]
