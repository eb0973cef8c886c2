"""The commands of clients: an id and a secret by which a recipient's program gets tokens of minutes."""

from typing import Annotated

import typer
from deltaic.catalog.credentials.oauth_clients import IssuedClient

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.federation import ProfileFile
from deltaic_ops.cli.recipients.handing_over import Endpoint, hand_over, place_of
from deltaic_ops.cli.words import RecipientName
from deltaic_ops.rights.profile_file import client_profile


def client(  # noqa: PLR0913, PLR0917 -- what a client and its profile need
    out: Operator,
    name: RecipientName,
    profile_file: ProfileFile = None,
    scope: Annotated[str, typer.Option(help="What the profile asks for; it is echoed and opens nothing.")] = "",
    comment: Annotated[str, typer.Option(help="A note for yourself.")] = "",
    endpoint: Endpoint = None,
) -> None:
    r"""Make a client of the recipient's: its tokens live for minutes, and it gets new ones by itself.

    Into the profile file; without --profile-file its secret is shown, this once. A stack on AWS gives tokens if its
    parameter ClientCredentials is enabled.

    \b
    deltaic recipient client alice --profile-file alice.share
    deltaic recipient client alice --comment "nightly report"
    """
    with place_of(profile_file) as place:
        server = "" if place is None else out.sharing_endpoint(endpoint)
        issued = out.admin.clients.create(out.admin.recipients.get(name), comment=comment)
        if place is not None:
            made = issued.client
            told = (f"{server}/oauth/token", made.id, issued.secret, scope)
            text = client_profile(server, *told, serves_iceberg=out.connection.serves_iceberg)
            place.write(text, _unusable(issued))
    secret, done = {"clientSecret": issued.secret}, f"made a client of '{issued.client.recipient}'"
    hand_over(out, issued.client, secret, done, _unusable(issued), path=profile_file)


def clients(out: Operator, name: Annotated[str | None, typer.Argument(metavar="[RECIPIENT]")] = None) -> None:
    r"""List the clients of a recipient, or of all.

    \b
    deltaic recipient clients alice
    """
    columns = fields(RECIPIENT="recipient", ID="id", MADE="created_at", COMMENT="comment")
    some = out.admin.clients
    listed = some.of_all() if name is None else some.list(out.admin.recipients.get(name).id)
    out.rows(listed, columns, "there is no client: deltaic recipient client <recipient>")


def revoke_client(
    out: Operator, name: RecipientName, client_id: Annotated[str, typer.Argument(metavar="CLIENT_ID")]
) -> None:
    r"""End a client and the tokens that it was given (servers may remember one for a minute).

    \b
    deltaic recipient revoke-client alice dlc_0123456789abcdef01234567
    """
    gone = out.admin.clients.revoke(out.admin.recipients.get(name), client_id)
    out.show(gone, f"revoked client {gone.id} of '{gone.recipient}'")


def _unusable(issued: IssuedClient) -> str:
    made = issued.client
    return f", but client {made.id} was made: end it with `deltaic recipient revoke-client {made.recipient} {made.id}`"
