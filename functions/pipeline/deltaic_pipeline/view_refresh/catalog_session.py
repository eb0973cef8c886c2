"""Read from the catalog which audiences (property values) of a view need rows, and record those with rows.

The catalog's entry for an audience's partition is removed before the rows are deleted, and added after they are
committed. So a partition in the catalog always has its rows, even if a job is killed.
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

MOST_VERSIONS = 20

MOST_COUNTS = 500
"""Maximum number of audiences (property values) whose row counts fit in the view's catalog entry."""


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """View and audiences (combinations of recipient properties) of a refresh, read from the catalog at its start."""

    view: View
    table: Table
    audiences: Sequence[Audience]
    existing: frozenset[str]
    """Names of the audiences whose rows are already in the view's table."""

    recipients: int


def start_task(admin: CatalogAdmin, view: View) -> RefreshTask:
    """Read a view and its audiences (property values of recipients); remove entries of audiences without recipients.

    The caller holds the writer lease of the view's table. Raises `NotFound`.
    """
    view = admin.views.get(view.share, view.schema_name, view.name)
    table = admin.views.table(view)
    holders = holders_by_audience(admin, table)
    partitions = {partition.audience for partition in admin.views.partitions.list(view.share, view.table_id)}
    admin.views.partitions.remove(view.share, view.table_id, sorted(partitions - set(holders)))
    audiences = [
        Audience(name, {key: value_of(members[0].properties[key]) for key in table.view_properties or ()})
        for name, members in sorted(holders.items())
    ]
    recipients = sum(len(members) for members in holders.values())
    return RefreshTask(view, table, audiences, frozenset(partitions & set(holders)), recipients)


def finish_task(
    admin: CatalogAdmin, task: RefreshTask, refreshed: "RefreshResult", run_id: str, seconds: float
) -> View:
    """Record in the catalog, after the commit of a refresh, its result and the audiences that have rows now.

    The request for a refresh stays open if recipients still lack their rows. Raises `Conflict` if the view's catalog
    entry was changed during the refresh.
    """
    new = [
        ViewPartition(
            table_id=task.view.table_id,
            audience=audience_.name,
            since_version=refreshed.version,
            values=dict(audience_.values),
            created_at=now(),
        )
        for audience_ in task.audiences
        if audience_.name not in task.existing
    ]
    admin.views.partitions.put(task.view, new)
    result: dict[str, Any] = {
        **asdict(refreshed),
        "run_id": run_id,
        "rows": sum(refreshed.rows.values()),
        "rows_by_policy": refreshed.rows if len(refreshed.rows) <= MOST_COUNTS else {},
        "recipients": task.recipients,
        "policies": len(task.audiences),
        "milliseconds": round(seconds * 1000),
        "versions": _versions(task.view, refreshed),
    }
    return admin.views.record_refresh(task.view, result, keep_request=bool(recipients_without_rows(admin, task.table)))


def definition_of(admin: CatalogAdmin, view: View, table: Table) -> Definition:
    """Return the definition of a view with its source tables; raises `NotFound` and `InvalidParameter`."""
    parsed = read_sql(view.sql, view.source)
    if parsed.properties != frozenset(table.view_properties or ()):
        raise InvalidParameter(
            f"the SQL of '{view.title}' uses other properties than its catalog entry has. Set it again with "
            f"`deltaic view update {view.title} --sql ...`"
        )
    return Definition(
        name=view.title,
        location=table.location,
        sql=view.sql,
        source=source_table(admin, view.source),
        others={name: source_table(admin, name) for name in parsed.tables},
        key=view.key,
    )


def source_table(admin: CatalogAdmin, name: str) -> SourceTable:
    """Return the shared table with this name, which a view reads; raises `NotFound` and `InvalidParameter`."""
    try:
        table = admin.views.source(name)
    except NotFound as missing:
        raise NotFound(f"{missing.message}: share it under that name again, or change the view's SQL") from None
    return SourceTable(table.title, table.location)


def holders_by_audience(admin: CatalogAdmin, table: Table) -> dict[str, list[Recipient]]:
    """Return a view's recipients by audience (property values), without recipients that lack a requested property."""
    granted = {grant.recipient_id for grant in admin.grants.of_share(table.share)}
    holders: dict[str, list[Recipient]] = {}
    for recipient in admin.recipients.list():
        if recipient.id in granted:
            name = audience(table.view_properties or (), recipient.properties)
            if name is not None:
                holders.setdefault(name, []).append(recipient)
    return holders


def recipients_without_rows(admin: CatalogAdmin, table: Table) -> list[Recipient]:
    """Return the recipients for whose property values (audience) no refresh has computed rows yet."""
    existing = {partition.audience for partition in admin.views.partitions.list(table.share, table.id)}
    holders = holders_by_audience(admin, table)
    return [recipient for name, members in holders.items() if name not in existing for recipient in members]


def why_due(admin: CatalogAdmin, view: View) -> str:
    """Return the reason why a view is due for a refresh; empty if it is not due."""
    if by_entry := why_due_by_entry(view, datetime.now(UTC)):
        return by_entry
    try:
        recipients = recipients_without_rows(admin, admin.views.table(view))
    except DeltaicError:  # deleted at the same time
        return ""
    return f"{len(recipients)} recipient(s) lack their rows" if recipients else ""


def why_due_by_entry(view: View, time: datetime) -> str:
    """Return the reason why a view is due for a refresh, by its catalog entry alone; empty if not due."""
    if view.requested_at is not None:
        return f"requested at {view.requested_at:%Y-%m-%d %H:%M} UTC"
    if view.refreshed_at is None and not view.refresh:
        return "never refreshed"
    if is_stale(view, time):
        return f"older than {timedelta(seconds=view.max_staleness)}"
    return ""


def is_stale(view: View, time: datetime) -> bool:
    """Return whether the last refresh of a view is longer ago than its maximum staleness."""
    since = view.refreshed_at or view.created_at
    return bool(view.max_staleness) and time - since >= timedelta(seconds=view.max_staleness)


def named_views(admin: CatalogAdmin, names: Sequence[str]) -> list[View]:
    """Return the views with these names, without duplicates; raises `NotFound` and `InvalidParameter`."""
    views = [admin.views.get(*split_table_name(name)) for name in names]
    return list({view.table_id: view for view in views}.values())


def _versions(view: View, refreshed: "RefreshResult") -> list[Mapping[str, Any]]:
    latest = {"version": refreshed.version, "sources": dict(refreshed.sources), "at": round(time.time())}
    before = [entry for entry in view.last_refresh.get("versions", ()) if entry["version"] != refreshed.version]
    return [latest, *before][:MOST_VERSIONS]
