"""The commands of invitations: links that a recipient can use once to create its own token."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from deltaic.catalog.credentials.invitations import LIFE
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE, LIVE_TOKENS
from deltaic.catalog.items import Recipient

from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.secret_output import Endpoint
from deltaic_ops.cli.value_parsers import OptionalRecipient, RecipientName, duration_option

_EXPIRES, _TOKEN_EXPIRES = "Lifetime of the link. [default: 72h]", "Lifetime of the token. [default: 90d]"


def invite(  # noqa: PLR0913, PLR0917 -- what an invitation and its token need
    cli: Operator,
    name: RecipientName,
    expires: Annotated[timedelta, duration_option("--expires", _EXPIRES)] = LIFE,
    token_expires: Annotated[timedelta, duration_option("--token-expires", _TOKEN_EXPIRES)] = DEFAULT_LIFE,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Note for operators, also stored with the token.")] = "",
    endpoint: Endpoint = None,
    cancel: Annotated[str | None, typer.Option(metavar="INVITATION_ID", help="Cancel this invitation.")] = None,
) -> None:
    r"""Create a link for a recipient to download its profile.

    The link works once. It creates the recipient's token, which you never see.

    \b
    deltaic recipient invite alice
    deltaic recipient invite alice --expires 7d
    deltaic recipient invite alice --cancel 937d8a9fd33e
    """
    if cancel is not None:
        cancelled = cli.admin.invitations.cancel(cli.admin.recipients.get(name), cancel)
        cli.show(cancelled, f"cancelled invitation {cancelled.id} of '{cancelled.recipient}'")
        return
    make_link(cli, name, endpoint, life=expires, token_life=token_expires, note=note)


def invites(cli: Operator, name: OptionalRecipient = None) -> None:
    r"""List invitations. Used, expired and cancelled ones are listed for 90 days.

    \b
    deltaic recipient invites alice
    """
    recipient = None if name is None else cli.admin.recipients.get(name)
    tokens = cli.admin.tokens.list_all() if recipient is None else cli.admin.tokens.list(recipient.id)
    unread = {token.id for token in tokens if token.salt}
    columns = [
        *fields(RECIPIENT="recipient", ID="id"),
        ("STATE", lambda invitation: invitation.state() + ", token never used" * (invitation.token_id in unread)),
        *fields(CREATED="created_at", EXPIRES="expires_at", TOKEN="token_id", NOTE="comment"),  # noqa: S106 -- an id
    ]
    invitations = cli.admin.invitations
    entries = invitations.list_all() if recipient is None else invitations.list(recipient.id)
    cli.rows(entries, columns, "no invitations; next: deltaic recipient invite <recipient>")


def make_link(  # noqa: PLR0913 -- what an invitation and its token need
    cli: Operator,
    name: str,
    endpoint: str | None,
    *,
    token_life: timedelta,
    life: timedelta = LIFE,
    overlap: timedelta | None = None,
    note: str = "",
) -> None:
    """Create an invitation and print its link once."""
    server = cli.sharing_endpoint(endpoint)
    recipient = cli.admin.recipients.get(name)
    created = cli.admin.invitations.create(
        recipient, server, life, token_life=token_life, overlap=overlap, comment=note
    )
    invitation = created.invitation
    done = f"created invitation {invitation.id} for '{recipient.name}', valid until "
    done += f"{invitation.expires_at:%Y-%m-%d %H:%M} UTC; the first person who opens its link gets the profile"
    cli.show(invitation, done, _warnings(cli, recipient, overlap), link=created.link)
    if not cli.as_json:
        typer.echo(created.link)


def _warnings(cli: Operator, recipient: Recipient, overlap: timedelta | None) -> list[str]:
    """Return why the recipient could not use the link, or would see nothing with its token."""
    name, now, tokens = recipient.name, datetime.now(UTC), cli.admin.tokens.list(recipient.id)
    is_full = overlap != timedelta(0) and sum(token.state(now) == "live" for token in tokens) >= LIVE_TOKENS
    sees_nothing = all(grant.has_ended(now) for grant in cli.admin.grants.of_recipient(name))
    remedy = f"revoke one (deltaic token list {name}), or use `deltaic token rotate {name} --link --overlap 0`"
    return [
        *[f"'{name}' has {LIVE_TOKENS} valid tokens, so the link cannot create another: {remedy}"] * is_full,
        *[f"'{name}' has no share to read; next: deltaic grant create {name} <share>"] * sees_nothing,
    ]
