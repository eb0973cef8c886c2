"""The commands of `deltaic token`: secrets are shown once, and profile files are written for one pair of eyes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE, IssuedToken
from deltaic.catalog.items import Token
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.handing_over import Endpoint, hand_over, place_of
from deltaic_ops.cli.recipients.invite import make_link
from deltaic_ops.cli.words import RecipientName, duration
from deltaic_ops.rights.profile_file import unusable

app = Commands()

TokenId = Annotated[str, typer.Argument(metavar="TOKEN_ID")]
Expires = Annotated[
    timedelta,
    typer.Option("--expires", parser=duration, metavar="90d|12h|30m", help="How long it lives.", show_default="90d"),
]
ProfileFile = Annotated[Path | None, typer.Option("--profile", metavar="FILE", help="Write the profile file here.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a profile file that is there.")]
Comment = Annotated[str, typer.Option(help="A note for yourself.")]
Link = Annotated[
    bool, typer.Option("--link", help="Make a link by which the recipient makes the token itself, within 72 hours.")
]


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a token and its profile need
    out: Operator,
    recipient: RecipientName,
    profile: ProfileFile = None,
    expires: Expires = DEFAULT_LIFE,
    endpoint: Endpoint = None,
    force: Force = False,
    comment: Comment = "",
    link: Link = False,
) -> None:
    r"""Issue a token: into the profile file that the recipient opens; without --profile it is shown, this once.

    \b
    deltaic token create alice --profile alice.share
    deltaic token create alice --link
    deltaic token create alice --profile alice.share --expires 12h --endpoint https://shares.example.org/delta-sharing
    """
    if link:
        _refuse_profile(profile)
        make_link(out, recipient, endpoint, token_life=expires, note=comment)
        return
    with _profile(out, profile, endpoint, force=force) as hand:
        hand(out.admin.tokens.create(out.admin.recipients.get(recipient), expires, comment=comment))


@app.command()
def rotate(  # noqa: PLR0913, PLR0917 -- what a token and its profile need
    out: Operator,
    recipient: RecipientName,
    profile: ProfileFile = None,
    overlap: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            metavar="24h",
            help="How long the old one still works; 0 revokes it at once.",
            show_default="1d",
        ),
    ] = timedelta(days=1),
    expires: Expires = DEFAULT_LIFE,
    endpoint: Endpoint = None,
    force: Force = False,
    comment: Comment = "",
    link: Link = False,
) -> None:
    r"""Issue a new token and let the old one end soon; an expiry is never put off.

    \b
    deltaic token rotate alice --profile alice.share --force
    deltaic token rotate alice --overlap 0
    deltaic token rotate alice --link
    """
    if link:
        _refuse_profile(profile)
        make_link(out, recipient, endpoint, token_life=expires, overlap=overlap, note=comment)
        return
    with _profile(out, profile, endpoint, force=force) as hand:
        hand(out.admin.tokens.create(out.admin.recipients.get(recipient), expires, overlap=overlap, comment=comment))


@app.command("list")
def list_(
    out: Operator,
    recipient: Annotated[str | None, typer.Argument(metavar="[RECIPIENT]")] = None,
    ends_within: Annotated[
        timedelta | None, typer.Option(parser=duration, metavar="30d", help="Live ones alone that end so soon.")
    ] = None,
) -> None:
    r"""List the tokens of a recipient, or of all in no order; dead ones too, for ninety days after their end.

    \b
    deltaic token list alice
    deltaic token list --ends-within 30d
    """
    columns = [
        *fields(RECIPIENT="recipient", ID="id"),
        ("STATE", lambda token: token.state()),
        *fields(MADE="created_at", EXPIRES="expires_at", COMMENT="comment"),
    ]
    tokens = _tokens(out, recipient)
    if ends_within is not None:
        now = datetime.now(UTC)
        tokens = (one for one in tokens if one.state(now) == "live" and one.expires_at <= now + ends_within)
    nothing = "there is no token: deltaic token create <recipient>" if ends_within is None else "none ends in that time"
    out.rows(tokens, columns, nothing)


@app.command()
def show(out: Operator, recipient: RecipientName, token_id: TokenId) -> None:
    r"""Show one token, without its secret. A token's id begins the SHA-256 of its secret.

    \b
    deltaic token show alice 937d8a9fd33e
    """
    out.show(out.admin.tokens.get(out.admin.recipients.get(recipient), token_id))


@app.command()
def revoke(out: Operator, recipient: RecipientName, token_id: TokenId) -> None:
    r"""End a token at once (servers may remember it for a minute).

    \b
    deltaic token revoke alice 937d8a9fd33e
    """
    gone = out.admin.tokens.revoke(out.admin.recipients.get(recipient), token_id)
    out.show(gone, f"revoked token {gone.id} of '{gone.recipient}'")


app.command("delete", hidden=True, help="The same as revoke.")(revoke)


def _refuse_profile(profile: Path | None) -> None:
    if profile is not None:
        raise InvalidParameter("--link and --profile cannot go together: with a link the recipient gets the profile")


def _tokens(out: Operator, recipient: str | None) -> Iterator[Token]:
    if recipient is None:
        return out.admin.tokens.of_all()
    return iter(out.admin.tokens.list(out.admin.recipients.get(recipient).id))


@contextmanager
def _profile(
    out: Operator, path: Path | None, endpoint: str | None, *, force: bool
) -> Iterator[Callable[[IssuedToken], None]]:
    """Take, before a token is made, the place of its profile; yields what writes and shows the token."""
    with place_of(path, force=force) as place:
        server = "" if place is None else out.sharing_endpoint(endpoint)

        def hand(issued: IssuedToken) -> None:
            if place is not None:
                place.write_profile(server, issued, serves_iceberg=out.connection.serves_iceberg)
            secret, done = {"bearerToken": issued.secret}, f"issued a token to '{issued.token.recipient}'"
            hand_over(out, issued.token, secret, done, unusable(issued.token), path=path, server=server)

        yield hand
