"""The commands of `deltaic recipient`."""

from typing import Annotated

import typer
from deltaic.catalog.items import Recipient

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.refreshing import ask_for_rows, requests_of
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import ID, Ids, Operator, Yes, told_properties
from deltaic_ops.cli.recipients.cut_off import cut_off, restore
from deltaic_ops.cli.recipients.federation import client, clients, federate, policies, revoke_client, unfederate
from deltaic_ops.cli.recipients.invite import invite, invites
from deltaic_ops.cli.recipients.limits import Address, BytesPerDay, Ends, RemoveAddress, RequestsPerMinute, told_end
from deltaic_ops.cli.recipients.rights import show_recipient
from deltaic_ops.cli.words import RecipientName, properties

app = Commands()

_PROPERTY = "What filters and views may ask for. Can be repeated; a key that is given again has a list of values."
Property = Annotated[list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help=_PROPERTY)]
RemoveProperty = Annotated[list[str] | None, typer.Option("--remove-property", metavar="KEY", help="Can be repeated.")]


@app.command()
def create(
    out: Operator,
    name: RecipientName,
    comment: Annotated[str, typer.Option(help="A note for yourself.")] = "",
    property_: Property = None,
) -> None:
    r"""Make a recipient. It reads nothing until it has a grant and a token.

    \b
    deltaic recipient create alice
    deltaic recipient create acme --comment "Acme Inc., contract 7" --property country=de
    deltaic recipient create globex --property regions=EU --property regions=US
    """
    held = properties(property_)
    made = out.admin.recipients.create(name, comment=comment, properties=held)
    out.show(made, f"made recipient '{made.name}'; next: deltaic grant create {made.name} <share>")


@app.command("list")
def list_(out: Operator, ids: Ids = False) -> None:
    r"""List all recipients.

    \b
    deltaic recipient list
    deltaic recipient list --ids
    """
    columns = [
        *fields(NAME="name", COMMENT="comment"),
        ("PROPERTIES", told_properties),
        ("STATE", _state),
        ("MADE", lambda recipient: recipient.created_at),
        *([ID] if ids else []),
    ]
    out.rows(out.admin.recipients.list(), columns, "there is no recipient yet: deltaic recipient create <recipient>")


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a recipient holds
    out: Operator,
    name: RecipientName,
    comment: Annotated[str | None, typer.Option(help='A new note; "" removes it.')] = None,
    property_: Property = None,
    remove_property: RemoveProperty = None,
    address: Address = None,
    remove_address: RemoveAddress = None,
    requests_per_minute: RequestsPerMinute = None,
    bytes_per_day: BytesPerDay = None,
    ends: Ends = None,
) -> None:
    r"""Change what is given and keep the rest; a recipient's name and id stay.

    A property takes the place of the one it had: a list is given as a whole. What it opens and closes holds from the
    next request on.

    \b
    deltaic recipient update alice --property country=fr --remove-property team
    deltaic recipient update globex --property regions=EU --property regions=APAC
    deltaic recipient update alice --address 203.0.113.0/24 --requests-per-minute 60 --bytes-per-day 50GB
    deltaic recipient update alice --ends 2027-02-01
    """
    held = properties(property_)
    shares = [grant.share for grant in out.admin.grants.of_recipient(name)]
    before = requests_of(out, shares)
    changed = out.admin.recipients.update(
        name,
        comment=comment,
        add_properties=held,
        remove_properties=tuple(remove_property or ()),
        add_addresses=address or (),
        remove_addresses=remove_address or (),
        requests_per_minute=requests_per_minute,
        bytes_per_day=bytes_per_day,
        ends_at=ends,
    )
    from deltaic_ops.inspection.filter_checks import warnings

    grants = out.admin.grants.of_recipient(changed.name)
    out.show(changed, f"changed recipient '{changed.name}'", warnings(out.admin, changed, grants))
    ask_for_rows(out, shares, before)


@app.command()
def delete(out: Operator, name: RecipientName, yes: Yes = False) -> None:
    r"""Delete a recipient with its tokens and grants: it is locked out at once (but for a minute of caching).

    \b
    deltaic recipient delete alice
    deltaic recipient delete alice --yes --json
    """
    out.confirm(f"Delete recipient '{name}' with its tokens and grants?", yes=yes)
    gone = out.admin.recipients.delete(name)
    out.show(gone, f"deleted recipient '{gone.name}', its tokens and its grants")


def _state(recipient: Recipient) -> str:
    return "cut off" if recipient.cut_off_at is not None else told_end(recipient.ends_at)


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
