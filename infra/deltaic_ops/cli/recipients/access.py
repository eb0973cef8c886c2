"""The commands that show what a recipient can read: `deltaic access` and `deltaic recipient show`."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.items import Recipient as RecipientEntry
from deltaic.scheduled.expirations import Expiration
from deltaic.sharing.caller import RequestedTable

from deltaic_ops.cli.list_output import Every, fields, first
from deltaic_ops.cli.operator import Column, Operator, json_fields, json_value, wire
from deltaic_ops.cli.recipients.credential_use import LastUses, Usage, json_ending, json_keys, show_keys, uses
from deltaic_ops.cli.recipients.limit_options import end_text
from deltaic_ops.cli.value_parsers import RecipientName, TableTitle, table_name

if TYPE_CHECKING:
    from deltaic.catalog.asset_items import Asset

    from deltaic_ops.rights.access_report import ResultSize
    from deltaic_ops.rights.recipient_view import VisibleTable

_FROM = "IP address of the request. [default: an address that is allowed]"
_COUNT = "Count the visible files and rows from the Delta log."
Count = Annotated[bool, typer.Option("--count", help=_COUNT)]


def access(
    cli: Operator,
    recipient: RecipientName,
    table: TableTitle,
    address: Annotated[str, typer.Option("--from", metavar="ADDRESS", help=_FROM)] = "",
    count: Count = False,
) -> None:
    r"""Show whether a recipient can read a table, and which rule decides.

    The exit code is 1 if it cannot.

    \b
    deltaic access alice sales_share.europe.orders
    deltaic access alice sales_share.europe.orders --from 203.0.113.7 --json
    deltaic access alice sales_share.europe.orders --count
    """
    from deltaic_ops.rights.access_report import AccessRequest, access_of

    if address and not _is_address(address):
        raise typer.BadParameter(f"'{address}' is not an IP address")
    name = RequestedTable(*table_name(table))
    request = AccessRequest(cli.admin.recipients.get(recipient), name, datetime.now(UTC), address)
    decision = access_of(cli.admin, cli.reader, request, (lambda: cli.schemas) if count else None)
    facts = json_fields(decision)
    if (counts := facts.pop("counted")) is not None:
        facts |= json_fields(counts)
    if cli.as_json:
        cli.json(facts)
    else:
        cli.facts({**facts, "allowed": "yes" if decision.allowed else "no"})
    if not decision.allowed:
        raise typer.Exit(1)


def show_recipient(
    cli: Operator,
    name: RecipientName,
    every: Every = False,
    count: Count = False,
    usage: Usage = "",
) -> None:
    r"""Show a recipient, its credentials, and what it can read.

    Only valid credentials are listed. Their last use is shown only with a usage table (--usage).

    \b
    deltaic recipient show alice
    deltaic recipient show alice --count
    deltaic recipient show alice --usage s3://lake/usage
    deltaic recipient show alice --all --json
    """
    from deltaic_ops.rights.access_report import ResultSize, count_result, why_ended
    from deltaic_ops.rights.recipient_view import VisibleTable, ends_soon, keys_of, visible_entries
    from deltaic_ops.usage.usage_report import UsageFilter

    def counts_of(entry: VisibleTable) -> "ResultSize":
        error = why_ended(recipient) if recipient.has_ended(now) else entry.error
        if error:
            return ResultSize(not_counted=error)
        return count_result(cli.schemas, entry.table, entry.rights, entry.first_version)

    recipient, now = cli.admin.recipients.get(name), datetime.now(UTC)
    keys = keys_of(cli.admin, recipient, now)
    soon = [] if recipient.has_ended(now) else ends_soon(cli.admin, recipient, keys, now)
    last = uses(cli, usage, UsageFilter("recipient_id", recipient.id), "token_id", [*keys.logged])
    entries, more = first(visible_entries(cli.admin, cli.reader, recipient), every=every)
    tables = [entry for entry in entries if isinstance(entry, VisibleTable)]
    assets = [entry for entry in entries if not isinstance(entry, VisibleTable)]
    counts = {entry.name: counts_of(entry) for entry in tables} if count else {}
    if cli.as_json:
        result = {**wire(recipient), "keys": json_keys(keys, last), "endsSoon": list(map(json_ending, soon))}
        if last is not None:
            result["lastUsedAt"] = json_value(max(last.values(), default=None))
        result["tables"] = [_table_json(each) | (json_fields(counts[each.name]) if count else {}) for each in tables]
        cli.json({**result, "assets": list(map(_asset_json, assets)), "more": more})
        return
    _show_facts(cli, recipient, soon, last)
    if recipient.has_ended(now):
        cli.note(f"{why_ended(recipient)}: its requests are rejected; this is what it could read otherwise")
    show_keys(cli, recipient.name, keys, last)
    columns = [*_TABLE_COLUMNS, ("COUNTED", lambda entry: _counted(counts[entry.name]))] if count else _TABLE_COLUMNS
    if assets:
        cli.table(assets, _ASSET_COLUMNS)
    cli.first_page(tables, columns, "" if tables else _sees_nothing(cli, recipient, now), more=more)


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


def _sees_nothing(cli: Operator, recipient: RecipientEntry, now: datetime) -> str:
    name = recipient.name
    for grant in cli.admin.grants.of_recipient(name):
        if grant.has_ended(now):
            share = grant.share
            return f"no tables: its grant of '{share}' has ended; next: deltaic grant update {name} {share} --ends ..."
    return f"no tables; next: deltaic grant create {name} SHARE"


def _show_facts(cli: Operator, recipient: RecipientEntry, soon: Sequence[Expiration], last: LastUses | None) -> None:
    set_fields = {name: value for name, value in wire(recipient).items() if value != 0}  # 0: no limit
    ends = [" ".join(filter(None, (each.kind, each.target, f"{each.ends_at:%Y-%m-%d %H:%M}"))) for each in soon]
    cli.facts({
        **set_fields,
        "state": "cut off" if recipient.cut_off_at is not None else end_text(recipient.ends_at),
        "ends soon": ends,
        "last use": max((last or {}).values(), default=None),
    })  # fmt: skip


def _table_json(entry: "VisibleTable") -> dict[str, Any]:
    return {
        "table": entry.name,
        "accessModes": list(entry.table.access_modes),
        "rowFilters": list(entry.row_filters),
        "ownRows": entry.table.view_properties is not None,
        "refreshedAt": json_value(entry.refreshed_at),
        "hiddenColumns": list(entry.table.hidden_columns),
        "lackedProperties": list(entry.missing_properties),
        "refused": entry.error,
        "firstVersion": entry.first_version if entry.table.history else None,
        "iceberg": entry.table.iceberg,
        "endsAt": wire(entry.grant)["endsAt"],
    }


def _asset_json(entry: "Asset") -> dict[str, Any]:
    modes = list(getattr(entry, "access_modes", ()))  # a model has none: its versions do
    return {"kind": entry.kind, "name": entry.title, "accessModes": modes}


def _rows(entry: "VisibleTable") -> str:
    if entry.error:
        return entry.error
    missing = ", ".join(entry.missing_properties)
    if entry.table.view_properties is not None and missing:
        return f"none; missing properties: {missing}"
    if entry.table.view_properties is not None:
        return f"own rows, refreshed {entry.refreshed_at:%Y-%m-%d %H:%M}" if entry.refreshed_at else "own rows"
    rows = " and ".join(f"({text})" for text in entry.row_filters) or "all"
    return f"{rows}; missing properties: {missing}" if missing else rows


def _counted(counts: "ResultSize") -> str:
    if counts.not_counted:
        return counts.not_counted
    rows = "unknown number of rows" if counts.rows is None else f"{counts.rows:,} rows"
    return f"{rows} in {counts.files:,} files of version {counts.version}"


_TABLE_COLUMNS: list[Column] = [
    ("TABLE", lambda entry: entry.name),
    ("ACCESS", lambda entry: entry.access),
    ("ROWS", _rows),
    ("HIDDEN", lambda entry: entry.table.hidden_columns),
    ("VERSIONS", lambda entry: f"from {entry.first_version}" if entry.table.history else "latest"),
    ("GRANT", lambda entry: end_text(entry.grant.ends_at)),
]
_ASSET_COLUMNS: list[Column] = [
    *fields(KIND="kind", NAME="title"),
    ("ACCESS", lambda entry: getattr(entry, "access_modes", ())),
]
