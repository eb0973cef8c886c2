"""The commands that show a share or table with its recipients: `deltaic share show`, `deltaic table show`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.admin.follow_admin import Follow
from deltaic.catalog.items import Grant
from deltaic.errors import DeltaicError

from deltaic_ops.cli.list_output import Every, fields, first
from deltaic_ops.cli.operator import Column, Operator, json_fields, json_value, wire
from deltaic_ops.cli.recipients.credential_use import Usage, uses
from deltaic_ops.cli.recipients.limit_options import end_text
from deltaic_ops.cli.value_parsers import ShareName, TableTitle, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltaic.catalog.items import Table as TableEntry

    from deltaic_ops.inspection.table_facts import TableFacts

_READ_LOG = "Read the table's log or metadata with your credentials, to show version, size, columns and clients."

CLIENTS: list[Column] = fields(CLIENTS="clients", CAN_READ="reads", REMARK="remark")
"""Columns of the list of Delta Sharing clients that can read a table."""


def show_share(cli: Operator, name: ShareName, every: Every = False) -> None:
    r"""Show a share, the sources that it follows, and its recipients.

    \b
    deltaic share show vaccine_share
    """
    entry = cli.admin.shares.get(name)
    grants, more = first(_open_grants(cli, entry.name), every=every)
    follows = list(cli.admin.follows.list(entry.name))
    if cli.as_json:
        result = {"follows": list(map(wire, follows)), "recipients": list(map(_grant_json, grants)), "more": more}
        cli.json({**wire(entry), **result})
        return
    columns: list[Column] = [
        ("RECIPIENT", lambda grant: grant.recipient),
        ("ROWS", lambda grant: grant.partition_filter or "all that are shared"),
        ("GRANT", lambda grant: end_text(grant.ends_at)),
    ]
    cli.show(entry)
    if follows:
        cli.table(follows, _FOLLOWS)
    cli.first_page(grants, columns, f"no recipients; next: deltaic grant create RECIPIENT {entry.name}", more=more)


def show_table(
    cli: Operator,
    name: TableTitle,
    read_log: Annotated[bool, typer.Option("--look/--no-look", help=_READ_LOG)] = True,
    every: Every = False,
    usage: Usage = "",
) -> None:
    r"""Show a table, its recipients, and the clients that can read it.

    The last read is shown only with a usage table (--usage).

    \b
    deltaic table show vaccine_share.acme.patients
    deltaic table show vaccine_share.acme.patients --no-look --json
    deltaic table show vaccine_share.acme.patients --usage s3://lake/usage
    """
    from deltaic_ops.inspection.filter_checks import iceberg_warnings, row_filters
    from deltaic_ops.usage.usage_report import UsageFilter

    share, schema, table = table_name(name)
    entry = cli.admin.tables.get(share, schema, table)
    warnings = iceberg_warnings(lambda: cli.schemas, entry) if read_log else []
    latest = _read_log(cli, entry, warnings) if read_log else None
    grants, more = first(_open_grants(cli, entry.share), every=every)
    last = uses(cli, usage, UsageFilter("table_id", entry.id), "recipient_id", [grant.recipient_id for grant in grants])
    if cli.as_json:
        result = {**wire(entry), **({"latest": None if latest is None else _log_json(latest)} if read_log else {})}
        result |= {} if last is None else {"lastReadAt": json_value(max(last.values(), default=None))}
        recipients = [
            {**_grant_json(grant), "rowFilters": row_filters(entry, grant)}
            | ({} if last is None else {"lastReadAt": json_value(last.get(grant.recipient_id))})
            for grant in grants
        ]
        cli.json({**result, "recipients": recipients, "more": more, **({"warnings": warnings} if warnings else {})})
        return
    cli.show(entry, warnings=warnings)
    if latest is not None:
        cli.facts(_facts(latest, entry))
    if last:
        cli.facts({"last read": max(last.values())})
    columns: list[Column] = [
        ("RECIPIENT", lambda grant: grant.recipient),
        ("ROWS", lambda grant: _rows(entry, grant)),
        ("GRANT", lambda grant: end_text(grant.ends_at)),
        *([("LAST READ", lambda grant: last.get(grant.recipient_id, ""))] if last else []),
    ]
    cli.first_page(grants, columns, f"no recipients; next: deltaic grant create RECIPIENT {entry.share}", more=more)
    if latest is not None:
        cli.table(latest.clients, CLIENTS)


def _open_grants(cli: Operator, share: str) -> "Iterator[Grant]":
    now = datetime.now(UTC)
    return (grant for grant in cli.admin.grants.of_share(share) if not grant.has_ended(now))


def _grant_json(grant: Grant) -> dict[str, Any]:
    result = wire(grant)
    return {name: result[name] for name in ("recipient", "partitionFilter", "endsAt")}


def _rows(table: "TableEntry", grant: Grant) -> str:
    from deltaic_ops.inspection.filter_checks import row_filters

    if table.view_properties is not None:
        return "own rows"
    return " and ".join(f"({text})" for text in row_filters(table, grant)) or "all"


def _read_log(cli: Operator, entry: "TableEntry", warnings: list[str]) -> "TableFacts | None":
    """Return facts about a table's latest version; None for Iceberg clients alone, or with a warning if unreadable."""
    from deltaic_ops.inspection.table_facts import read_facts

    if not entry.client_modes:
        return None
    try:
        return read_facts(cli.schemas, entry)
    except DeltaicError as refusal:
        warnings.append(f"cannot read the table with your credentials: {refusal.message}")
        return None


def _facts(latest: "TableFacts", table: "TableEntry") -> dict[str, Any]:
    facts = {name: value for name, value in json_fields(latest).items() if name != "clients"}
    begins = facts.pop("checkpoint")
    if table.format == "iceberg":
        return facts
    return {**facts, "last checkpoint": "none" if begins is None else f"version {begins}"}


def _log_json(latest: "TableFacts") -> dict[str, Any]:
    return {**json_fields(latest), "clients": [json_fields(client) for client in latest.clients]}


def _last_check(follow: Follow) -> str:
    if follow.looked_at is None:
        return "not checked yet"
    when = f"{follow.looked_at:%Y-%m-%d %H:%M} UTC"
    if follow.failure:
        return f"{when}: failed: {follow.failure}"
    counts = ", ".join(f"{count} {action}" for action, count in follow.counts.items() if count)
    return f"{when}: {counts or 'no tables'}"


_FOLLOWS: list[Column] = [
    *fields(SCHEMA="schema_name", FOLLOWS="source", EXCEPT="exclude"),
    ("LAST CHECK", _last_check),
]
