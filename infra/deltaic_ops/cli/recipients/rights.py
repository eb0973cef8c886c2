"""The commands that say what a recipient may: `deltaic access` and `deltaic recipient show`."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.items import Recipient as RecipientEntry
from deltaic.scheduled.endings import Ending
from deltaic.sharing.caller import TableName

from deltaic_ops.cli.listing import Every, fields, first
from deltaic_ops.cli.operator import Column, Operator, told_fields, told_value, wire
from deltaic_ops.cli.recipients.limits import told_end
from deltaic_ops.cli.recipients.used import LastUses, Usage, show_keys, told_ending, told_keys, uses
from deltaic_ops.cli.words import RecipientName, TableTitle, table_name

if TYPE_CHECKING:
    from deltaic.catalog.asset_items import Asset

    from deltaic_ops.rights.access import Counted
    from deltaic_ops.rights.seen import SeenTable

_FROM = "Judge a request from this address too; else one from where the recipient is answered."
_COUNT = "Count the files and rows that there are to read now, by the tables' logs."
Count = Annotated[bool, typer.Option("--count", help=_COUNT)]


def access(
    out: Operator,
    recipient: RecipientName,
    table: TableTitle,
    address: Annotated[str, typer.Option("--from", metavar="ADDRESS", help=_FROM)] = "",
    count: Count = False,
) -> None:
    r"""Say whether a recipient may read a table now, and the rule that says so; the exit code is 1 for no.

    \b
    deltaic access alice sales_share.europe.orders
    deltaic access alice sales_share.europe.orders --from 203.0.113.7 --json
    deltaic access alice sales_share.europe.orders --count
    """
    from deltaic_ops.rights.access import Asked, access_of

    if address and not _is_address(address):
        raise typer.BadParameter(f"'{address}' is no IP address")
    name = TableName(*table_name(table))
    asked = Asked(out.admin.recipients.get(recipient), name, datetime.now(UTC), address)
    found = access_of(out.admin, out.reader, asked, (lambda: out.schemas) if count else None)
    told = told_fields(found)
    if (counts := told.pop("counted")) is not None:
        told |= told_fields(counts)
    if out.as_json:
        out.json(told)
    else:
        out.facts({**told, "allowed": "yes" if found.allowed else "no"})
    if not found.allowed:
        raise typer.Exit(1)


def show_recipient(
    out: Operator,
    name: RecipientName,
    every: Every = False,
    count: Count = False,
    usage: Usage = "",
) -> None:
    r"""Show one recipient: what it may, by which keys it comes, what ends soon, and each table that it sees.

    Keys are those that open the door now. The last use of each is told where the usage table is named.

    \b
    deltaic recipient show alice
    deltaic recipient show alice --count
    deltaic recipient show alice --usage s3://lake/usage
    deltaic recipient show alice --all --json
    """
    from deltaic_ops.rights.access import Counted, counted, why_ended
    from deltaic_ops.rights.seen import SeenTable, ends_soon, keys_of, seen
    from deltaic_ops.usage.usage_report import UsageOf

    def counts_of(one: SeenTable) -> "Counted":
        refused = why_ended(person) if person.has_ended(now) else one.refused
        if refused:
            return Counted(not_counted=refused)
        return counted(out.schemas, one.table, one.rights, one.first_version)

    person, now = out.admin.recipients.get(name), datetime.now(UTC)
    keys = keys_of(out.admin, person, now)
    soon = [] if person.has_ended(now) else ends_soon(out.admin, person, keys, now)
    last = uses(out, usage, UsageOf("recipient_id", person.id), "token_id", [*keys.logged])
    found, more = first(seen(out.admin, out.reader, person), every=every)
    tables = [one for one in found if isinstance(one, SeenTable)]
    assets = [one for one in found if not isinstance(one, SeenTable)]
    counts = {one.name: counts_of(one) for one in tables} if count else {}
    if out.as_json:
        told = [_seen(one) | (told_fields(counts[one.name]) if count else {}) for one in tables]
        beside = [_seen_asset(one) for one in assets]
        held = {"keys": told_keys(keys, last), "endsSoon": list(map(told_ending, soon))}
        used = {} if last is None else {"lastUsedAt": told_value(max(last.values(), default=None))}
        out.json({**wire(person), **held, **used, "tables": told, "assets": beside, "more": more})
        return
    _show_person(out, person, soon, last)
    if person.has_ended(now):
        out.note(f"{why_ended(person)}: nothing is answered to it, and this is what it would see otherwise")
    show_keys(out, person.name, keys, last)
    columns = [*_SEEN, ("COUNTED", lambda one: _counted(counts[one.name]))] if count else _SEEN
    if assets:
        out.table(assets, _SEEN_ASSETS)
    out.some(tables, columns, "" if tables else _sees_nothing(out, person, now), more=more)


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


def _sees_nothing(out: Operator, person: RecipientEntry, now: datetime) -> str:
    for grant in out.admin.grants.of_recipient(person.name):
        if grant.has_ended(now):
            return (
                f"it sees no table; its grant of '{grant.share}' has ended: deltaic grant update {person.name} "
                f"{grant.share} --ends ..."
            )
    return f"it sees no table: deltaic grant create {person.name} SHARE"


def _show_person(out: Operator, person: RecipientEntry, soon: Sequence[Ending], last: LastUses | None) -> None:
    limits_aside = {name: value for name, value in wire(person).items() if value != 0}  # 0: there is no such limit
    out.facts({
        **limits_aside,
        "state": "cut off" if person.cut_off_at is not None else told_end(person.ends_at),
        "ends soon": [" ".join(filter(None, (one.kind, one.what, f"{one.ends_at:%Y-%m-%d %H:%M}"))) for one in soon],
        "last use": max((last or {}).values(), default=None),
    })  # fmt: skip


def _seen(one: "SeenTable") -> dict[str, Any]:
    return {
        "table": one.name,
        "accessModes": list(one.table.access_modes),
        "rowFilters": list(one.row_filters),
        "ownRows": one.table.view_properties is not None,
        "refreshedAt": told_value(one.refreshed_at),
        "hiddenColumns": list(one.table.hidden_columns),
        "lackedProperties": list(one.lacked_properties),
        "refused": one.refused,
        "firstVersion": one.first_version if one.table.history else None,
        "iceberg": one.table.iceberg,
        "endsAt": wire(one.grant)["endsAt"],
    }


def _seen_asset(one: "Asset") -> dict[str, Any]:
    modes = list(getattr(one, "access_modes", ()))  # a model has none: its versions do
    return {"kind": one.kind, "name": one.title, "accessModes": modes}


def _rows(one: "SeenTable") -> str:
    if one.refused:
        return one.refused
    lacking = ", ".join(one.lacked_properties)
    if one.table.view_properties is not None and lacking:
        return f"none; it lacks {lacking}"
    if one.table.view_properties is not None:
        return f"its own, refreshed {one.refreshed_at:%Y-%m-%d %H:%M}" if one.refreshed_at else "its own"
    kept = " and ".join(f"({text})" for text in one.row_filters) or "all"
    return f"{kept}; it lacks {lacking}" if lacking else kept


def _counted(found: "Counted") -> str:
    if found.not_counted:
        return found.not_counted
    rows = "rows untold" if found.rows is None else f"{found.rows:,} rows"
    return f"{rows} in {found.files:,} files of version {found.version}"


_SEEN: list[Column] = [
    ("TABLE", lambda one: one.name),
    ("ACCESS", lambda one: one.access),
    ("ROWS", _rows),
    ("HIDDEN", lambda one: one.table.hidden_columns),
    ("VERSIONS", lambda one: f"from {one.first_version}" if one.table.history else "latest"),
    ("GRANT", lambda one: told_end(one.grant.ends_at)),
]
_SEEN_ASSETS: list[Column] = [
    *fields(KIND="kind", NAME="title"),
    ("ACCESS", lambda one: getattr(one, "access_modes", ())),
]
