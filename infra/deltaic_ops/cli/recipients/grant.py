"""The commands of `deltaic grant`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Grant

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.view_updates import ask_for_rows, requests_of
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.limit_options import Ends, end_text
from deltaic_ops.cli.value_parsers import RecipientName, ShareName, text_of

app = Commands()

_FILTER = (
    "Grant only rows that match this condition, in addition to each table's own filter. All tables of the share must "
    "be partitioned by its columns. With @FILE, the condition is read from a file."
)


@app.command()
def create(
    cli: Operator,
    recipient: RecipientName,
    share: ShareName,
    partition_filter: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = "",
    ends: Ends = None,
) -> None:
    r"""Grant a share to a recipient.

    \b
    deltaic grant create alice vaccine_share
    deltaic grant create alice sales --partition-filter "region = 'EU' AND year >= 2024"
    deltaic grant create alice trial --ends 2027-02-01
    """
    rows = text_of(partition_filter)
    _check(cli, share, rows)
    before = requests_of(cli, [cli.admin.shares.get(share).name])
    created = cli.admin.grants.create(recipient, share, partition_filter=rows, ends_at=ends)
    name, ended = created.recipient, end_text(created.ends_at) or "no end date"
    visible = f"rows where {created.partition_filter}" if created.partition_filter else "all rows that are shared"
    done = f"granted share '{created.share}' to '{name}': {visible}, {ended}; next: deltaic token create {name}"
    cli.show(created, done, _warnings(cli, created))
    ask_for_rows(cli, [created.share], before)


@app.command("list")
def list_(
    cli: Operator,
    recipient: Annotated[str | None, typer.Option(metavar="NAME", help="List grants to this recipient.")] = None,
    share: Annotated[str | None, typer.Option(metavar="NAME", help="List grants of this share.")] = None,
) -> None:
    r"""List all grants, or those of one recipient or share.

    \b
    deltaic grant list
    deltaic grant list --recipient alice
    deltaic grant list --share vaccine_share
    """
    if recipient is not None and share is not None:
        raise typer.BadParameter("use --recipient or --share; for both: deltaic grant show RECIPIENT SHARE")
    columns = [
        *fields(RECIPIENT="recipient", SHARE="share"),
        ("ROWS", lambda grant: grant.partition_filter or "all that are shared"),
        ("GRANTED", lambda grant: grant.created_at),
        ("ENDS", lambda grant: end_text(grant.ends_at)),
    ]
    cli.rows(_grants(cli.admin, recipient, share), columns, "no grants")


@app.command()
def show(cli: Operator, recipient: RecipientName, share: ShareName) -> None:
    r"""Show a grant.

    \b
    deltaic grant show alice vaccine_share
    """
    cli.show(cli.admin.grants.get(recipient, share))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a grant holds
    cli: Operator,
    recipient: RecipientName,
    share: ShareName,
    partition_filter: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = None,
    no_partition_filter: Annotated[bool, typer.Option("--no-partition-filter", help="Remove the filter.")] = False,
    ends: Ends = None,
) -> None:
    r"""Change the row filter or the expiry of a grant.

    The change applies from the next request. Signed URLs that the recipient already has work until they expire.

    \b
    deltaic grant update alice sales --partition-filter "region = 'EU'"
    deltaic grant update alice sales --no-partition-filter
    deltaic grant update alice sales --ends never
    """
    filters = (partition_filter is not None) + no_partition_filter
    if filters > 1 or (not filters and ends is None):
        raise typer.BadParameter("use --partition-filter, --no-partition-filter or --ends")
    rows = text_of(partition_filter or "") if filters else None
    before = cli.admin.grants.get(recipient, share)
    _check(cli, share, rows or "")
    changed = cli.admin.grants.update(recipient, share, partition_filter=rows, ends_at=ends)
    title = f"the grant of '{changed.share}' to '{changed.recipient}'"
    cli.updated(title, before, changed, _warnings(cli, changed))


@app.command()
def revoke(cli: Operator, recipient: RecipientName, share: ShareName) -> None:
    r"""Revoke a grant. Signed URLs that the recipient already has work until they expire.

    \b
    deltaic grant revoke alice vaccine_share
    """
    revoked = cli.admin.grants.revoke(recipient, share)
    cli.show(revoked, f"revoked the grant of '{revoked.share}' to '{revoked.recipient}'")


app.command("delete", hidden=True, help="Alias of revoke.")(revoke)


def _check(cli: Operator, share: str, rows: str) -> None:
    if rows.strip():
        from deltaic_ops.inspection.filter_checks import check_grant

        check_grant(rows, cli.admin.tables.list(share), cli.schemas)


def _warnings(cli: Operator, grant: Grant) -> list[str]:
    from deltaic_ops.inspection.filter_checks import warnings

    ended = [f"the grant has already ended: {end_text(grant.ends_at)}"] if grant.has_ended(datetime.now(UTC)) else []
    return [*ended, *warnings(cli.admin, cli.admin.recipients.get(grant.recipient), [grant])]


def _grants(admin: CatalogAdmin, recipient: str | None, share: str | None) -> Iterator[Grant]:
    if share is not None:
        return admin.grants.of_share(share)
    return admin.grants.list_all() if recipient is None else admin.grants.of_recipient(recipient)
