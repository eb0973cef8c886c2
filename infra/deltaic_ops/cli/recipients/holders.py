"""The commands that say who holds what: `deltaic share show` and `deltaic table show`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.admin.follows import Follow
from deltaic.catalog.items import Grant
from deltaic.errors import DeltaicError

from deltaic_ops.cli.listing import Every, fields, first
from deltaic_ops.cli.operator import Column, Operator, told_fields, told_value, wire
from deltaic_ops.cli.recipients.limits import told_end
from deltaic_ops.cli.recipients.used import Usage, uses
from deltaic_ops.cli.words import ShareName, TableTitle, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltaic.catalog.items import Table as TableEntry

    from deltaic_ops.inspection.table_look import TableLook

_LOOK = "Read its log too, with your credentials: version, size, columns, and which clients can read it."

CLIENTS: list[Column] = fields(CLIENTS="clients", READ_IT="reads", REMARK="remark")
"""Which can read a table (`rights.clients`)."""


def show_share(out: Operator, name: ShareName, every: Every = False) -> None:
    r"""Show one share, what its schemas follow, and who holds it with which rows.

    \b
    deltaic share show vaccine_share
    """
    found = out.admin.shares.get(name)
    held, more = first(_open_grants(out, found.name), every=every)
    follows = list(out.admin.follows.list(found.name))
    if out.as_json:
        told = {"follows": list(map(wire, follows)), "recipients": list(map(_held, held)), "more": more}
        out.json({**wire(found), **told})
        return
    columns: list[Column] = [
        ("RECIPIENT", lambda grant: grant.recipient),
        ("ROWS", lambda grant: grant.partition_filter or "all that are shared"),
        ("GRANT", lambda grant: told_end(grant.ends_at)),
    ]
    out.show(found)
    if follows:
        out.table(follows, _FOLLOWS)
    out.some(held, columns, f"nobody holds it: deltaic grant create RECIPIENT {found.name}", more=more)


def show_table(
    out: Operator,
    name: TableTitle,
    look: Annotated[bool, typer.Option("--look/--no-look", help=_LOOK)] = True,
    every: Every = False,
    usage: Usage = "",
) -> None:
    r"""Show one table: its entry, what its log says of the latest version, who holds it, and which clients read it.

    When it was read last, and by whom, is told where the usage table is named.

    \b
    deltaic table show vaccine_share.acme_vaccine_data.vaccine_patients
    deltaic table show vaccine_share.acme_vaccine_data.vaccine_patients --no-look --json
    deltaic table show vaccine_share.acme_vaccine_data.vaccine_patients --usage s3://lake/usage
    """
    from deltaic_ops.inspection.filter_checks import row_filters, unread_by_iceberg
    from deltaic_ops.usage.usage_report import UsageOf

    share, schema, table = table_name(name)
    found = out.admin.tables.get(share, schema, table)
    warnings = unread_by_iceberg(lambda: out.schemas, found)
    latest = _look(out, found, warnings) if look else None
    held, more = first(_open_grants(out, found.share), every=every)
    last = uses(out, usage, UsageOf("table_id", found.id), "recipient_id", [grant.recipient_id for grant in held])
    if out.as_json:
        told = {**wire(found), **({"latest": None if latest is None else _told_look(latest)} if look else {})}
        told |= {} if last is None else {"lastReadAt": told_value(max(last.values(), default=None))}
        recipients = [
            {**_held(grant), "rowFilters": row_filters(found, grant)}
            | ({} if last is None else {"lastReadAt": told_value(last.get(grant.recipient_id))})
            for grant in held
        ]
        out.json({**told, "recipients": recipients, "more": more, **({"warnings": warnings} if warnings else {})})
        return
    out.show(found, warnings=warnings)
    if latest is not None:
        out.facts(_facts(latest))
    if last:
        out.facts({"last read": max(last.values())})
    columns: list[Column] = [
        ("RECIPIENT", lambda grant: grant.recipient),
        ("ROWS", lambda grant: _rows(found, grant)),
        ("GRANT", lambda grant: told_end(grant.ends_at)),
        *([("LAST READ", lambda grant: last.get(grant.recipient_id, ""))] if last else []),
    ]
    out.some(held, columns, f"nobody holds it: deltaic grant create RECIPIENT {found.share}", more=more)
    if latest is not None:
        out.table(latest.clients, CLIENTS)


def _open_grants(out: Operator, share: str) -> "Iterator[Grant]":
    now = datetime.now(UTC)
    return (grant for grant in out.admin.grants.of_share(share) if not grant.has_ended(now))


def _held(grant: Grant) -> dict[str, Any]:
    told = wire(grant)
    return {name: told[name] for name in ("recipient", "partitionFilter", "endsAt")}


def _rows(table: "TableEntry", grant: Grant) -> str:
    from deltaic_ops.inspection.filter_checks import row_filters

    if table.view_properties is not None:
        return "its own"
    return " and ".join(f"({text})" for text in row_filters(table, grant)) or "all"


def _look(out: Operator, found: "TableEntry", warnings: list[str]) -> "TableLook | None":
    """Return what a table's log says; None for what has no Delta log, or cannot be read, which is warned of."""
    from deltaic_ops.inspection.table_look import look_at

    if found.format == "iceberg":
        return None
    try:
        return look_at(out.schemas, found)
    except DeltaicError as refusal:
        warnings.append(f"its log cannot be read with your credentials: {refusal.message}")
        return None


def _facts(latest: "TableLook") -> dict[str, Any]:
    facts = {name: value for name, value in told_fields(latest).items() if name != "clients"}
    begins = facts.pop("checkpoint")
    return {**facts, "last checkpoint": "none" if begins is None else f"version {begins}"}


def _told_look(latest: "TableLook") -> dict[str, Any]:
    return {**told_fields(latest), "clients": [told_fields(one) for one in latest.clients]}


def _last_look(one: Follow) -> str:
    """Return how the last look went, in a few words."""
    if one.looked_at is None:
        return "not looked at yet"
    when = f"{one.looked_at:%Y-%m-%d %H:%M} UTC"
    if one.failure:
        return f"{when}: failed: {one.failure}"
    came = ", ".join(f"{count} {did}" for did, count in one.came.items() if count)
    return f"{when}: {came or 'no table'}"


_FOLLOWS: list[Column] = [
    *fields(SCHEMA="schema_name", FOLLOWS="source", EXCEPT="exclude"),
    ("LAST LOOK", _last_look),
]
