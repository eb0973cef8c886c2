"""The commands of `deltaic token`: print secrets once, and write profile files that only their owner can read."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.invite import make_link
from deltaic_ops.cli.recipients.secret_output import Endpoint, hand_over, place_of
from deltaic_ops.cli.value_parsers import OptionalRecipient, RecipientName, duration_option
from deltaic_ops.rights.profile_file import revoke_hint

app = Commands()

TokenId = Annotated[str, typer.Argument(metavar="TOKEN_ID", help="Id of the token (see deltaic token list).")]
_OVERLAP = "Time that old tokens still work, for example 24h; 0 revokes them at once. [default: 1d]"
_EXPIRES = "Token lifetime, for example 90d, 12h or 30m. [default: 90d]"
Expires = Annotated[timedelta, duration_option("--expires", _EXPIRES)]
ProfileFile = Annotated[Path | None, typer.Option("--profile", metavar="FILE", help="Write this profile file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing profile file.")]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="Note for operators.")]
_LINK = "Do not create a token. Print a link that the recipient can use within 72 hours to create it."
Link = Annotated[bool, typer.Option("--link", help=_LINK)]


def _add_command(verb: str, help_: str, without: str, default_overlap: timedelta | None) -> None:
    @app.command(verb, help=help_, without=without)
    def issue(  # noqa: PLR0913, PLR0917 -- what a token and its profile need
        cli: Operator,
        recipient: RecipientName,
        profile: ProfileFile = None,
        overlap: Annotated[timedelta | None, duration_option("--overlap", _OVERLAP)] = default_overlap,
        expires: Expires = DEFAULT_LIFE,
        endpoint: Endpoint = None,
        force: Force = False,
        comment: Comment = "",
        link: Link = False,
    ) -> None:
        if link and profile is not None:
            raise InvalidParameter(
                "use --link or --profile, not both: with a link, the recipient downloads the profile"
            )
        if link:
            make_link(cli, recipient, endpoint, token_life=expires, overlap=overlap, note=comment)
            return
        with place_of(profile, force=force) as file:
            server = "" if file is None else cli.sharing_endpoint(endpoint)
            owner = cli.admin.recipients.get(recipient)
            issued = cli.admin.tokens.create(owner, expires, overlap=overlap, comment=comment)
            if file is not None:
                file.write_profile(server, issued, serves_iceberg=cli.connection.serves_iceberg)
            token, secret = issued.token, {"bearerToken": issued.secret}
            until = f"valid until {token.expires_at:%Y-%m-%d %H:%M} UTC"
            done = f"created token {token.id} for '{token.recipient}', {until}"
            hand_over(cli, token, secret, done, revoke_hint(token), path=profile, server=server)


_CREATE = r"""Create a token for a recipient.

With --profile, the token is written to a profile file for the recipient. Without --profile and --link, it is
printed once.

\b
deltaic token create alice --profile alice.share
deltaic token create alice --link
deltaic token create alice --profile alice.share --expires 12h
"""
_ROTATE = r"""Replace a recipient's tokens with a new one. Old tokens expire after --overlap, or earlier.

\b
deltaic token rotate alice --profile alice.share --force
deltaic token rotate alice --overlap 0
deltaic token rotate alice --link
"""
_add_command("create", _CREATE, "overlap", None)
_add_command("rotate", _ROTATE, "", timedelta(days=1))


@app.command("list")
def list_(cli: Operator, recipient: OptionalRecipient = None) -> None:
    r"""List tokens. Expired and revoked ones are listed for 90 days.

    \b
    deltaic token list alice
    """
    columns = [
        *fields(RECIPIENT="recipient", ID="id"),
        ("STATE", lambda token: token.state()),
        *fields(CREATED="created_at", EXPIRES="expires_at", COMMENT="comment"),
    ]
    tokens = cli.of_recipient(cli.admin.tokens, recipient)
    cli.rows(tokens, columns, "no tokens; next: deltaic token create <recipient>")


@app.command()
def show(cli: Operator, recipient: RecipientName, token_id: TokenId) -> None:
    r"""Show a token, without its secret. The id is the beginning of the secret's SHA-256.

    \b
    deltaic token show alice 937d8a9fd33e
    """
    cli.show(cli.admin.tokens.get(cli.admin.recipients.get(recipient), token_id))


@app.command()
def revoke(cli: Operator, recipient: RecipientName, token_id: TokenId) -> None:
    r"""Revoke a token. Servers may accept it for up to one more minute.

    \b
    deltaic token revoke alice 937d8a9fd33e
    """
    revoked = cli.admin.tokens.revoke(cli.admin.recipients.get(recipient), token_id)
    cli.show(revoked, f"revoked token {revoked.id} of '{revoked.recipient}'")


app.command("delete", hidden=True, help="Alias of revoke.")(revoke)
