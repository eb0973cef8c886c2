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
from deltaic_pipeline.view_refresh.catalog import due, holders_by_audience
from deltaic_pipeline.view_refresh.sql import ViewSql

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.jobs import JOB, job_line
from deltaic_ops.cli.jobs.refreshing import ask_for_rows, drop_schedule, keep_schedule
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Column, Ids, Operator, operator, wire
from deltaic_ops.cli.words import duration, table_name, text_of
from deltaic_ops.inspection.view_checks import checked_sql

app = Commands()

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.VIEW")]
_SQL = "One SELECT over `source` and other shared tables; current_recipient('p') is a property of who reads. Or @FILE."
_KEY = "A column that, with the others given, names a row of what one recipient sees. Can be repeated."
_REFRESH = "When it is refreshed by the stack's jobs, in UTC: cron(0 * * * ? *), rate(1 hour)."
_STALENESS = "From this age on it is due whatever its schedule says; at most ten years, 0 for never."


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a view holds
    out: Operator,
    name: Name,
    source: Annotated[str, typer.Option("--from", metavar="SHARE.SCHEMA.TABLE", help="What the SQL calls `source`.")],
    sql: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_SQL)],
    key: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=_KEY)] = None,
    refresh: Annotated[str, typer.Option(metavar="EXPRESSION", help=_REFRESH)] = "",
    max_staleness: Annotated[
        timedelta, typer.Option(parser=duration, metavar="1h|30m|2d", help=_STALENESS, show_default="0")
    ] = timedelta(0),
    location: Annotated[
        str, typer.Option(metavar="S3-URI", help="Its folder (default: one beside the source's).")
    ] = "",
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Share its earlier versions and its change feed too.")
    ] = False,
    id_: Annotated[str, typer.Option("--id", metavar="UUID", help="The id it had elsewhere.")] = "",
) -> None:
    r"""Share what a SQL shows of a table to each recipient. Rows come with the first refresh.

    \b
    deltaic view create sales.europe.orders_for_partners --from sales.europe.orders --sql @view.sql --key order_id
    deltaic view create s.d.mine --from s.d.visits --sql "SELECT * FROM source WHERE site = current_recipient('site')"
    deltaic view create s.d.v --from s.d.t --sql @v.sql --refresh "rate(1 hour)" --max-staleness 2h --history
    """
    share, schema, view = table_name(name)
    text, when = text_of(sql), _schedule(refresh)
    base = out.admin.views.source(source)
    read = checked_sql(out.admin, lambda: out.schemas, text, base)
    identifier = id_ or str(uuid4())
    made = out.admin.views.create(
        share,
        schema,
        view,
        location or beside(base.location, view, identifier),
        source=source,
        sql=text,
        properties=sorted(read.properties),
        key=key or (),
        refresh=when,
        max_staleness=int(max_staleness.total_seconds()),
        history=history,
        table_id=identifier,
    )
    told = [f"made view '{made.title}'", *_promises(read), keep_schedule(out, made)]
    out.show(made, "; ".join(part for part in [*told, f"next: deltaic view refresh {made.title}"] if part))


@app.command("list")
def list_(
    out: Operator,
    share: Annotated[str, typer.Argument(metavar="[SHARE]", help="Only the views of this share.")] = "",
    ids: Ids = False,
) -> None:
    r"""List the views: what they are made of, how fresh they are, and which are due.

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
        ("DUE", lambda view: due(out.admin, view)),
        *([("ID", lambda view: view.table_id)] if ids else []),
    ]
    views = out.admin.views.list(share) if share else out.admin.views.of_all()
    out.rows(views, columns, "there is no view yet: deltaic view create")


@app.command()
def show(out: Operator, name: Name) -> None:
    r"""Show a view: what it is made of, which version shows which of its sources, and who has rows of it.

    \b
    deltaic view show sales.europe.orders_for_partners
    """
    view = out.admin.views.get(*table_name(name))
    table = out.admin.views.table(view)
    why, partitions = due(out.admin, view), _partitions(out, view, table)
    if out.as_json:
        entry = {"location": table.location, "history": table.history}
        entry_of_sql = {"properties": list(table.view_properties or ())}
        out.json({**wire(view), **entry, **entry_of_sql, "due": why, "partitions": partitions})
        return
    out.facts(_facts(view, table, why))
    if versions := view.last_refresh.get("versions"):
        out.table(versions, _VERSIONS)
    if partitions:
        out.table(partitions, _PARTITIONS)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a view holds
    out: Operator,
    name: Name,
    sql: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_SQL)] = None,
    key: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=f"{_KEY} Replaces all.")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Compare rows as a whole.")] = False,
    refresh: Annotated[str | None, typer.Option(metavar="EXPRESSION", help=f'{_REFRESH} "" for none.')] = None,
    max_staleness: Annotated[
        timedelta | None, typer.Option(parser=duration, metavar="1h|30m|2d", help=_STALENESS)
    ] = None,
) -> None:
    r"""Change what is given and keep the rest. With another SQL nobody reads the view until it is refreshed.

    \b
    deltaic view update sales.europe.orders_for_partners --sql @view.sql
    deltaic view update sales.europe.orders_for_partners --refresh "cron(0 6 * * ? *)" --max-staleness 2d
    """
    if key and no_key:
        raise typer.BadParameter("give --key or --no-key, not both")
    place = table_name(name)
    text = None if sql is None else text_of(sql)
    when = None if refresh is None else _schedule(refresh)
    before = out.admin.views.get(*place)
    source = out.admin.views.source
    read = None if text is None else checked_sql(out.admin, lambda: out.schemas, text, source(before.source))
    changed = out.admin.views.update(
        *place,
        sql=text,
        properties=None if read is None else sorted(read.properties),
        key=() if no_key else key or None,
        refresh=when,
        max_staleness=None if max_staleness is None else int(max_staleness.total_seconds()),
    )
    told = [f"changed view '{changed.title}'", *(_promises(read) if read else [])]
    if changed.refresh != before.refresh:
        told.append(keep_schedule(out, changed))
    out.show(changed, "; ".join(part for part in told if part))
    ask_for_rows(out, [changed.share], {before.table_id: before.requested_at})


@app.command(context_settings=JOB)
def refresh(ctx: typer.Context) -> None:
    """Bring views to the latest version of what they are made of, on this machine or on EMR Serverless."""
    line = job_line(ctx.args, "views")
    names: list[str] = line.options.names
    for name in names:
        table_name(name)
    title = names[0] if names else "due" if line.options.due else "all"
    raise typer.Exit(line.run(operator(ctx, line.options.json), title))


@app.command()
def delete(out: Operator, name: Name) -> None:
    r"""Stop sharing a view, and forget what it is made of; its files stay in S3.

    \b
    deltaic view delete sales.europe.orders_for_partners
    """
    place = table_name(name)
    view = out.admin.views.get(*place)
    gone = out.admin.views.delete(*place)
    drop_schedule(out, view)
    out.show(view, f"deleted view '{view.title}'; its files stay in {gone.location}")


def beside(source: str, name: str, identifier: str) -> str:
    """Return a folder beside a source's, whose upkeep must never meet it; raises InvalidParameter for a bucket."""
    place = Location.parse(source)
    if not place.prefix.strip("/"):
        raise InvalidParameter(f"'{source}' is a whole bucket, which has nothing beside it: give --location")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"{source.rstrip('/')}-views/{plain}-{identifier[:8]}"


def _schedule(text: str) -> str:
    if not text:
        return ""
    try:
        return check_schedule(text)
    except ValueError as wrong:
        raise InvalidParameter(f"--refresh: {wrong}") from None


def _promises(read: ViewSql) -> list[str]:
    used = ", ".join(f"'{name}'" for name in sorted(read.properties))
    whose = f"who lacks {used} sees no rows" if used else "all recipients see the same rows"
    return [whose, f"every refresh computes all rows: {read.why_full}" if read.why_full else "refreshes follow changes"]


def _partitions(out: Operator, view: View, table: Table) -> list[dict[str, Any]]:
    """Return the partitions that there are, and those whose rows are missing: each is of the rows of one audience."""
    holders = holders_by_audience(out.admin, table)
    counts: Mapping[str, int] = view.last_refresh.get("rows_by_policy", {})
    there = {each.audience: each for each in out.admin.views.partitions.list(view.share, view.table_id)}
    shown = []
    for audience in dict.fromkeys([*there, *holders]):
        some, found = [*holders.get(audience, ())], there.get(audience)
        own = {} if found else {name: value_of(some[0].properties[name]) for name in table.view_properties or ()}
        shown.append({
            "audience": audience,
            "values": found.values if found else own,
            "sinceVersion": found.since_version if found else None,
            "rows": counts.get(audience) if found else None,
            "recipients": [recipient.name for recipient in some],
        })  # fmt: skip
    return shown


def _facts(view: View, table: Table, why: str) -> dict[str, object]:
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
        "maximal staleness": str(timedelta(seconds=view.max_staleness)) if view.max_staleness else "",
        "refreshed": f"{_ago(view.refreshed_at)} in {last['milliseconds'] / 1000:.1f} s"
        if "version" in last
        else "never",
        "due": why or "no",
    }
    if "version" in last:
        computed = f"all rows: {last['full_because']}" if last["full_because"] else "what changed"
        facts |= {
            "computed": f"{computed} (+{last['inserted']:,} ~{last['updated']:,} -{last['deleted']:,})",
            "rows": f"{last['rows']:,} in {last['bytes']:,} bytes",
            "recipients": f"{last['recipients']:,}, of {last['policies']:,} audiences",
        }
    if "failure" in last:
        failed_at = datetime.fromtimestamp(last["failed_at"], UTC)
        facts["failed"] = f"{_ago(failed_at)}: {last['failure']}"
    return facts


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    age = timedelta(seconds=round((datetime.now(UTC) - moment).total_seconds()))
    return f"{moment:%Y-%m-%d %H:%M} UTC ({age} ago)"


_VERSIONS: tuple[Column, ...] = (
    ("VERSION", lambda each: each["version"]),
    ("OF", lambda each: ", ".join(f"{name} {version}" for name, version in each["sources"].items())),
    ("SINCE", lambda each: datetime.fromtimestamp(each["at"], UTC)),
)

_PARTITIONS: tuple[Column, ...] = (
    ("PROPERTIES", lambda each: each["values"]),
    ("ROWS", lambda each: "" if each["rows"] is None else f"{each['rows']:,}"),
    ("FROM VERSION", lambda each: "not yet" if each["sinceVersion"] is None else each["sinceVersion"]),
    ("RECIPIENTS", lambda each: ", ".join(each["recipients"]) or "nobody any more"),
    ("AUDIENCE", lambda each: each["audience"]),
)
