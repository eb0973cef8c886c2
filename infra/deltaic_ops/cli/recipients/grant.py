"""The commands of `deltaic grant`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Grant

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.refreshing import ask_for_rows, requests_of
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.limits import Ends, told_end
from deltaic_ops.cli.words import RecipientName, ShareName, text_of

app = Commands()

_FILTER = (
    "The rows that are granted, beside each table's own filter: a condition over columns by which every table of the "
    "share is partitioned. @FILE reads it from a file."
)


@app.command()
def create(
    out: Operator,
    recipient: RecipientName,
    share: ShareName,
    partition_filter: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = "",
    ends: Ends = None,
) -> None:
    r"""Let a recipient read a share, or some rows of all its tables, whose logs are then read.

    \b
    deltaic grant create alice vaccine_share
    deltaic grant create alice sales --partition-filter "region = 'EU' AND year >= 2024"
    deltaic grant create alice trial --ends 2027-02-01
    """
    rows = text_of(partition_filter)
    _check(out, share, rows)
    before = requests_of(out, [out.admin.shares.get(share).name])
    made = out.admin.grants.create(recipient, share, partition_filter=rows, ends_at=ends)
    done = f"'{made.recipient}' may read '{made.share}'; next: deltaic token create {made.recipient}"
    out.show(made, done, _warnings(out, made))
    ask_for_rows(out, [made.share], before)


@app.command("list")
def list_(
    out: Operator,
    recipient: Annotated[str | None, typer.Option(help="Only what this recipient holds.")] = None,
    share: Annotated[str | None, typer.Option(help="Only who holds this share.")] = None,
) -> None:
    r"""List grants: all, those of a recipient, or those of a share.

    \b
    deltaic grant list
    deltaic grant list --recipient alice
    deltaic grant list --share vaccine_share
    """
    if recipient is not None and share is not None:
        raise typer.BadParameter("give --recipient or --share; for both: deltaic grant show RECIPIENT SHARE")
    columns = [
        *fields(RECIPIENT="recipient", SHARE="share"),
        ("ROWS", lambda grant: grant.partition_filter or "all that are shared"),
        ("GRANTED", lambda grant: grant.created_at),
        ("ENDS", lambda grant: told_end(grant.ends_at)),
    ]
    out.rows(_grants(out.admin, recipient, share), columns, "there is no such grant")


@app.command()
def show(out: Operator, recipient: RecipientName, share: ShareName) -> None:
    r"""Show one grant.

    \b
    deltaic grant show alice vaccine_share
    """
    out.show(out.admin.grants.get(recipient, share))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a grant holds
    out: Operator,
    recipient: RecipientName,
    share: ShareName,
    partition_filter: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = None,
    no_partition_filter: Annotated[
        bool, typer.Option("--no-partition-filter", help="Grant all that is shared.")
    ] = False,
    ends: Ends = None,
) -> None:
    r"""Change which rows are granted, or until when; it holds from the next request on.

    URLs that are out live on until they expire.

    \b
    deltaic grant update alice sales --partition-filter "region = 'EU'"
    deltaic grant update alice sales --no-partition-filter
    deltaic grant update alice sales --ends never
    """
    given = (partition_filter is not None) + no_partition_filter
    if given > 1 or (not given and ends is None):
        raise typer.BadParameter("give --partition-filter or --no-partition-filter, one of them, or --ends")
    rows = text_of(partition_filter or "") if given else None
    out.admin.grants.get(recipient, share)
    _check(out, share, rows or "")
    changed = out.admin.grants.update(recipient, share, partition_filter=rows, ends_at=ends)
    out.show(changed, f"changed what '{changed.recipient}' may read of '{changed.share}'", _warnings(out, changed))


@app.command()
def revoke(out: Operator, recipient: RecipientName, share: ShareName) -> None:
    r"""Take a share away from a recipient. URLs that it has already live on until they expire.

    \b
    deltaic grant revoke alice vaccine_share
    """
    gone = out.admin.grants.revoke(recipient, share)
    out.show(gone, f"'{gone.recipient}' may not read '{gone.share}' any more")


app.command("delete", hidden=True, help="The same as revoke.")(revoke)


def _check(out: Operator, share: str, rows: str) -> None:
    if rows.strip():
        from deltaic_ops.inspection.filter_checks import check_grant

        check_grant(rows, out.admin.tables.list(share), out.schemas)


def _warnings(out: Operator, grant: Grant) -> list[str]:
    from deltaic_ops.inspection.filter_checks import warnings

    over = [f"it has ended already: {told_end(grant.ends_at)}"] if grant.has_ended(datetime.now(UTC)) else []
    return [*over, *warnings(out.admin, out.admin.recipients.get(grant.recipient), [grant])]


def _grants(admin: CatalogAdmin, recipient: str | None, share: str | None) -> Iterator[Grant]:
    if share is not None:
        return admin.grants.of_share(share)
    return admin.grants.of_all() if recipient is None else admin.grants.of_recipient(recipient)
