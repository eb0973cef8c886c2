"""The commands of `deltaic view`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

import typer
from deltaic.catalog.items import Table, View
from deltaic.errors import InvalidParameter
from deltaic.partition_filters.properties import value_of
from deltaic.storage.locations import Location
from deltaic_datasets.file.schedule import check_schedule
from deltaic_pipeline.view_refresh.catalog_session import holders_by_audience, why_due
from deltaic_pipeline.view_refresh.view_sql import ViewSql

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.jobs import JOB, job_line
from deltaic_ops.cli.jobs.view_updates import ask_for_rows, drop_schedule, keep_schedule
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import HISTORY_HELP, ID_HELP, Column, Ids, Operator, operator, wire
from deltaic_ops.cli.value_parsers import duration_option, refuse_both, table_name, text_of
from deltaic_ops.inspection.view_checks import validate_sql

app = Commands()

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.VIEW", help="Full name of the view.")]
_SQL = (
    "One SELECT over `source` and other shared tables. current_recipient('p') returns the recipient's property p. "
    "With @FILE, the SQL is read from a file."
)
_KEY = "Column that identifies a row among the rows that a recipient sees. Repeat --key if this needs several columns."
_REPLACE = "The given columns replace the stored ones."
_REFRESH = "Schedule (UTC) for the stack's jobs: cron(0 * * * ? *) or rate(1 hour)."
_STALENESS = "A refresh is due when the view is older than this, for example 2h; at most 3653d. [default: 0, no limit]"
_LOCATION = "Folder of the view. [default: next to the source's folder]"


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a view holds
    cli: Operator,
    name: Name,
    source: Annotated[
        str, typer.Option("--from", metavar="SHARE.SCHEMA.TABLE", help="Shared table that the SQL uses as `source`.")
    ],
    sql: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_SQL)],
    key: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=_KEY)] = None,
    refresh: Annotated[str, typer.Option(metavar="EXPRESSION", help=_REFRESH)] = "",
    max_staleness: Annotated[timedelta, duration_option("--max-staleness", _STALENESS)] = timedelta(0),
    location: Annotated[str, typer.Option(metavar="S3-URI", help=_LOCATION)] = "",
    history: Annotated[bool, typer.Option("--history/--no-history", help=HISTORY_HELP)] = False,
    id_: Annotated[str, typer.Option("--id", metavar="UUID", help=ID_HELP)] = "",
) -> None:
    r"""Share the result of SQL as a table. The first refresh writes its rows.

    \b
    deltaic view create s.d.v --from s.d.t --sql @view.sql --key order_id
    deltaic view create s.d.v --from s.d.t --sql "SELECT * FROM source WHERE year > 2024"
    deltaic view create s.d.v --from s.d.t --sql @v.sql --refresh "rate(1 hour)"
    """
    share, schema, view = table_name(name)
    text, when = text_of(sql), _schedule(refresh)
    base = cli.admin.views.source(source)
    read = validate_sql(cli.admin, lambda: cli.schemas, text, base)
    identifier = id_ or str(uuid4())
    created = cli.admin.views.create(
        share,
        schema,
        view,
        location or sibling_location(base.location, view, identifier),
        source=source,
        sql=text,
        properties=sorted(read.properties),
        key=key or (),
        refresh=when,
        max_staleness=int(max_staleness.total_seconds()),
        history=history,
        table_id=identifier,
    )
    messages = [f"created view '{created.title}'", *_promises(read), keep_schedule(cli, created)]
    cli.show(created, "; ".join(part for part in [*messages, f"next: deltaic view refresh {created.title}"] if part))


@app.command("list")
def list_(
    cli: Operator,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="List only the views of this share.")] = "",
    ids: Ids = False,
) -> None:
    r"""List views, when they were refreshed, and which are due.

    \b
    deltaic view list
    deltaic view list sales
    """
    columns: list[Column] = [
        *fields(NAME="title", FROM="source"),
        ("REFRESHED", lambda view: view.refreshed_at or "never"),
        ("VERSION", lambda view: view.last_refresh.get("version", "")),
        ("ROWS", lambda view: f"{view.last_refresh['rows']:,}" if "rows" in view.last_refresh else ""),
        ("RECIPIENTS", lambda view: view.last_refresh.get("recipients", "")),
        ("SCHEDULE", lambda view: view.refresh),
        ("DUE", lambda view: why_due(cli.admin, view)),
        *([("ID", lambda view: view.table_id)] if ids else []),
    ]
    views = cli.admin.views.list(share) if share else cli.admin.views.list_all()
    cli.rows(views, columns, "no views yet; next: deltaic view create <view>")


@app.command()
def show(cli: Operator, name: Name) -> None:
    r"""Show a view, the versions of its sources, and its recipients.

    \b
    deltaic view show sales.europe.orders_for_partners
    """
    view = cli.admin.views.get(*table_name(name))
    table = cli.admin.views.table(view)
    due, partitions = why_due(cli.admin, view), _partitions(cli, view, table)
    if cli.as_json:
        entry = {"location": table.location, "history": table.history}
        entry_of_sql = {"properties": list(table.view_properties or ())}
        cli.json({**wire(view), **entry, **entry_of_sql, "due": due, "partitions": partitions})
        return
    cli.facts(_facts(view, table, due))
    if versions := view.last_refresh.get("versions"):
        cli.table(versions, _VERSIONS)
    if partitions:
        cli.table(partitions, _PARTITIONS)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a view holds
    cli: Operator,
    name: Name,
    sql: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_SQL)] = None,
    key: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=f"{_KEY} {_REPLACE}")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Remove key columns: refreshes compare whole rows.")] = False,
    refresh: Annotated[str | None, typer.Option(metavar="EXPRESSION", help=f'{_REFRESH} "" removes it.')] = None,
    max_staleness: Annotated[timedelta | None, duration_option("--max-staleness", _STALENESS)] = None,
) -> None:
    r"""Change a view; options that you omit keep their values.

    After a change of the SQL, recipients can read the view again once it is refreshed.

    \b
    deltaic view update sales.europe.orders_for_partners --sql @view.sql
    deltaic view update s.d.v --refresh "cron(0 6 * * ? *)" --max-staleness 2d
    """
    refuse_both("key", key, no_key)
    path = table_name(name)
    text = None if sql is None else text_of(sql)
    when = None if refresh is None else _schedule(refresh)
    before = cli.admin.views.get(*path)
    source = cli.admin.views.source
    read = None if text is None else validate_sql(cli.admin, lambda: cli.schemas, text, source(before.source))
    changed = cli.admin.views.update(
        *path,
        sql=text,
        properties=None if read is None else sorted(read.properties),
        key=() if no_key else key or None,
        refresh=when,
        max_staleness=None if max_staleness is None else int(max_staleness.total_seconds()),
    )
    promises = _promises(read) if read else []
    schedule = keep_schedule(cli, changed) if changed.refresh != before.refresh else ""
    cli.updated(f"view '{changed.title}'", before, changed, (), *promises, schedule)
    ask_for_rows(cli, [changed.share], {before.table_id: before.requested_at})


@app.command(context_settings=JOB)
def refresh(ctx: typer.Context) -> None:
    """Refresh views from the latest versions of their sources."""
    line = job_line(ctx.args, "views")
    names: list[str] = line.options.names
    for name in names:
        table_name(name)
    title = names[0] if names else "due" if line.options.due else "all"
    raise typer.Exit(line.run(operator(ctx, line.options.json), title))


@app.command()
def delete(cli: Operator, name: Name) -> None:
    r"""Delete a view; its files and its sources stay.

    \b
    deltaic view delete sales.europe.orders_for_partners
    """
    path = table_name(name)
    view = cli.admin.views.get(*path)
    deleted = cli.admin.views.delete(*path)
    drop_schedule(cli, view)
    cli.show(view, f"deleted view '{view.title}'; its files stay in {deleted.location}")


def sibling_location(source: str, name: str, identifier: str) -> str:
    """Return a folder for a view next to its source's folder, so that maintenance of one never touches the other.

    Raises InvalidParameter if the source is a whole bucket.
    """
    if not Location.parse(source).prefix.strip("/"):
        raise InvalidParameter(f"'{source}' is a whole bucket, so the view needs another location: add --location")
    safe_name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"{source.rstrip('/')}-views/{safe_name}-{identifier[:8]}"


def _schedule(text: str) -> str:
    if not text:
        return ""
    try:
        return check_schedule(text)
    except ValueError as wrong:
        raise InvalidParameter(f"--refresh: {wrong}") from None


def _promises(read: ViewSql) -> list[str]:
    used = ", ".join(f"'{name}'" for name in sorted(read.properties))
    visible = f"recipients without {used} see no rows" if used else "all recipients see the same rows"
    full = f"every refresh computes all rows: {read.why_full}"
    return [visible, full if read.why_full else "refreshes compute only changes"]


def _partitions(cli: Operator, view: View, table: Table) -> list[dict[str, Any]]:
    """Return a view's partitions: one for each set of recipient properties, even if it has no computed rows yet."""
    holders = holders_by_audience(cli.admin, table)
    counts: Mapping[str, int] = view.last_refresh.get("rows_by_policy", {})
    existing = {each.audience: each for each in cli.admin.views.partitions.list(view.share, view.table_id)}
    partitions = []
    for audience in dict.fromkeys([*existing, *holders]):
        recipients, stored = [*holders.get(audience, ())], existing.get(audience)
        names = () if stored else table.view_properties or ()
        partitions.append({
            "audience": audience,
            "values": stored.values if stored else {name: value_of(recipients[0].properties[name]) for name in names},
            "sinceVersion": stored.since_version if stored else None,
            "rows": counts.get(audience) if stored else None,
            "recipients": [recipient.name for recipient in recipients],
        })  # fmt: skip
    return partitions


def _facts(view: View, table: Table, due: str) -> dict[str, object]:
    last = view.last_refresh
    facts: dict[str, object] = {
        "view": view.title,
        "id": view.table_id,
        "location": table.location,
        "from": view.source,
        "sql": view.sql,
        "properties": table.view_properties,
        "key": view.key,
        "history": "shared" if table.history else "",
        "schedule": f"{view.refresh} (UTC)" if view.refresh else "",
        "maximum staleness": str(timedelta(seconds=view.max_staleness)) if view.max_staleness else "",
        "refreshed": f"{_ago(view.refreshed_at)} in {last['milliseconds'] / 1000:.1f} s"
        if "version" in last
        else "never",
        "due": due or "no",
    }
    if "version" in last:
        computed = f"all rows: {last['full_because']}" if last["full_because"] else "only changes"
        facts |= {
            "computed": f"{computed} (+{last['inserted']:,} ~{last['updated']:,} -{last['deleted']:,})",
            "rows": f"{last['rows']:,} in {last['bytes']:,} bytes",
            "recipients": f"{last['recipients']:,} in {last['policies']:,} audiences",
        }
    if "failure" in last:
        failed_at = datetime.fromtimestamp(last["failed_at"], UTC)
        facts["failed"] = f"{_ago(failed_at)}: {last['failure']}"
    return facts


def _ago(time: datetime | None) -> str:
    if time is None:
        return "never"
    age = timedelta(seconds=round((datetime.now(UTC) - time).total_seconds()))
    return f"{time:%Y-%m-%d %H:%M} UTC ({age} ago)"


_VERSIONS: tuple[Column, ...] = (
    ("VERSION", lambda each: each["version"]),
    ("SOURCES", lambda each: ", ".join(f"{name} {version}" for name, version in each["sources"].items())),
    ("SINCE", lambda each: datetime.fromtimestamp(each["at"], UTC)),
)

_PARTITIONS: tuple[Column, ...] = (
    ("PROPERTIES", lambda each: each["values"]),
    ("ROWS", lambda each: "" if each["rows"] is None else f"{each['rows']:,}"),
    ("FROM VERSION", lambda each: "not yet" if each["sinceVersion"] is None else each["sinceVersion"]),
    ("RECIPIENTS", lambda each: ", ".join(each["recipients"]) or "none"),
    ("AUDIENCE", lambda each: each["audience"]),
)
