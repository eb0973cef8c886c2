"""The commands of `deltaic recipient`."""

from typing import Annotated

import typer
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE
from deltaic.catalog.items import Recipient

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.view_updates import ask_for_rows, requests_of
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import ID, Ids, Operator, Yes, json_properties
from deltaic_ops.cli.recipients.access import show_recipient
from deltaic_ops.cli.recipients.cut_off import cut_off, restore
from deltaic_ops.cli.recipients.federation import client, clients, federate, policies, revoke_client, unfederate
from deltaic_ops.cli.recipients.invite import invite, invites
from deltaic_ops.cli.recipients.limit_options import (
    Address,
    BytesPerDay,
    Ends,
    RemoveAddress,
    RequestsPerMinute,
    end_text,
)
from deltaic_ops.cli.value_parsers import RecipientName, properties

app = Commands()

_PROPERTY = "Property that row filters and views use. Can be repeated; a repeated key gets a list of values."
_REMOVE = "Remove a property. Can be repeated."
_GRANT = "Share to grant to the recipient. Can be repeated."
Property = Annotated[list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help=_PROPERTY)]
RemoveProperty = Annotated[list[str] | None, typer.Option("--remove-property", metavar="KEY", help=_REMOVE)]


@app.command()
def create(
    cli: Operator,
    name: RecipientName,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Note for operators.")] = "",
    property_: Property = None,
    grant: Annotated[list[str] | None, typer.Option("--grant", metavar="SHARE", help=_GRANT)] = None,
) -> None:
    r"""Create a recipient. To read, it also needs a grant and a token.

    \b
    deltaic recipient create alice --grant sales_share
    deltaic recipient create acme --comment "Acme Inc., contract 7" --property country=de
    deltaic recipient create globex --property regions=EU --property regions=US
    """
    values, shares = properties(property_), [cli.admin.shares.get(share).name for share in grant or ()]
    before = requests_of(cli, shares)
    created = cli.admin.recipients.create(name, comment=comment, properties=values)
    grants = [cli.admin.grants.create(created.name, share) for share in shares]
    terms = f"{', '.join(shares)} granted, " * bool(shares) + f"no limits, tokens last {DEFAULT_LIFE.days} days"
    step, lines = f"grant create {created.name} <share>", list[str]()
    if grants:
        from deltaic_ops.inspection.filter_checks import warnings

        step, lines = f"token create {created.name}", warnings(cli.admin, created, grants)
    cli.show(created, f"created recipient '{created.name}': {terms}; next: deltaic {step}", lines)
    ask_for_rows(cli, shares, before)


@app.command("list")
def list_(cli: Operator, ids: Ids = False) -> None:
    r"""List all recipients.

    \b
    deltaic recipient list
    deltaic recipient list --ids
    """
    columns = [
        *fields(NAME="name", COMMENT="comment"),
        ("PROPERTIES", json_properties),
        ("STATE", _state),
        ("CREATED", lambda recipient: recipient.created_at),
        *([ID] if ids else []),
    ]
    cli.rows(cli.admin.recipients.list(), columns, "no recipients yet; next: deltaic recipient create <recipient>")


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a recipient holds
    cli: Operator,
    name: RecipientName,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help='Note for operators; "" removes it.')] = None,
    property_: Property = None,
    remove_property: RemoveProperty = None,
    address: Address = None,
    remove_address: RemoveAddress = None,
    requests_per_minute: RequestsPerMinute = None,
    bytes_per_day: BytesPerDay = None,
    ends: Ends = None,
) -> None:
    r"""Change a recipient; options that you omit keep their values.

    A property replaces its old value, so specify all values of a list. Changes apply from the next request.

    \b
    deltaic recipient update alice --property country=fr --remove-property team
    deltaic recipient update globex --property regions=EU --property regions=APAC
    deltaic recipient update alice --address 203.0.113.0/24 --bytes-per-day 50GB
    deltaic recipient update alice --ends 2027-02-01
    """
    values, old = properties(property_), cli.admin.recipients.get(name)
    shares = [grant.share for grant in cli.admin.grants.of_recipient(name)]
    before = requests_of(cli, shares)
    changed = cli.admin.recipients.update(
        name,
        comment=comment,
        add_properties=values,
        remove_properties=tuple(remove_property or ()),
        add_addresses=address or (),
        remove_addresses=remove_address or (),
        requests_per_minute=requests_per_minute,
        bytes_per_day=bytes_per_day,
        ends_at=ends,
    )
    from deltaic_ops.inspection.filter_checks import warnings

    grants = cli.admin.grants.of_recipient(changed.name)
    cli.updated(f"recipient '{changed.name}'", old, changed, warnings(cli.admin, changed, grants))
    ask_for_rows(cli, shares, before)


@app.command()
def delete(cli: Operator, name: RecipientName, yes: Yes = False) -> None:
    r"""Delete a recipient, its tokens and its grants.

    Servers may accept its tokens for up to one more minute.

    \b
    deltaic recipient delete alice
    deltaic recipient delete alice --yes --json
    """
    cli.confirm(f"Delete recipient '{name}' with its tokens and grants?", yes=yes)
    deleted = cli.admin.recipients.delete(name)
    cli.show(deleted, f"deleted recipient '{deleted.name}', its tokens and its grants")


def _state(recipient: Recipient) -> str:
    return "cut off" if recipient.cut_off_at is not None else end_text(recipient.ends_at)


app.command("show")(show_recipient)
app.command("cut-off")(cut_off)
app.command()(restore)
app.command()(invite)
app.command()(invites)
app.command()(federate)
app.command()(policies)
app.command()(unfederate)
app.command()(client)
app.command()(clients)
app.command()(revoke_client)
