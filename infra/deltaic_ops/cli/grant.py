"""Decides what `deltaic grant` does."""

from collections.abc import Iterator
from typing import Annotated

import typer
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.items import Grant

from deltaic_ops.cli.operator import AsJson, operator

app = typer.Typer(no_args_is_help=True, add_completion=False)

Recipient = Annotated[str, typer.Argument(metavar="RECIPIENT")]
Share = Annotated[str, typer.Argument(metavar="SHARE")]


@app.command()
def create(ctx: typer.Context, recipient: Recipient, share: Share, as_json: AsJson = False) -> None:
    r"""Let a recipient read a share.

    \b
    deltaic grant create alice vaccine_share
    """
    out = operator(ctx, as_json)
    made = out.admin.grants.create(recipient, share)
    out.show(made, f"'{made.recipient}' may read '{made.share}'; next: deltaic token create {made.recipient}")


@app.command("list")
def list_(
    ctx: typer.Context,
    recipient: Annotated[str | None, typer.Option(help="Only what this recipient holds.")] = None,
    share: Annotated[str | None, typer.Option(help="Only who holds this share.")] = None,
    as_json: AsJson = False,
) -> None:
    r"""List grants: all, those of a recipient, or those of a share.

    \b
    deltaic grant list
    deltaic grant list --recipient alice
    deltaic grant list --share vaccine_share
    """
    if recipient is not None and share is not None:
        raise typer.BadParameter("give --recipient or --share; for both: deltaic grant show RECIPIENT SHARE")
    out = operator(ctx, as_json)
    columns = [
        ("RECIPIENT", lambda grant: grant.recipient),
        ("SHARE", lambda grant: grant.share),
        ("GRANTED", lambda grant: grant.created_at),
    ]
    out.rows(_grants(out.admin, recipient, share), columns, "there is no such grant")


@app.command()
def show(ctx: typer.Context, recipient: Recipient, share: Share, as_json: AsJson = False) -> None:
    r"""Show one grant.

    \b
    deltaic grant show alice vaccine_share
    """
    out = operator(ctx, as_json)
    out.show(out.admin.grants.get(recipient, share))


@app.command()
def revoke(ctx: typer.Context, recipient: Recipient, share: Share, as_json: AsJson = False) -> None:
    r"""Take a share away from a recipient. URLs that it has already live on until they expire.

    \b
    deltaic grant revoke alice vaccine_share
    """
    out = operator(ctx, as_json)
    gone = out.admin.grants.revoke(recipient, share)
    out.show(gone, f"'{gone.recipient}' may not read '{gone.share}' any more")


app.command("delete", hidden=True, help="The same as revoke.")(revoke)


def _grants(admin: CatalogAdmin, recipient: str | None, share: str | None) -> Iterator[Grant]:
    if share is not None:
        yield from admin.grants.of_share(share)
    elif recipient is not None:
        yield from admin.grants.of_recipient(recipient)
    else:
        for known in admin.recipients.list():
            yield from admin.grants.of_recipient(known.name)
