"""The commands of invitations: a link by which a recipient makes its own token, once, and the list of them."""

from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.credentials.invitations import LIFE, IssuedInvitation
from deltaic.catalog.credentials.token_admin import DEFAULT_LIFE
from deltaic.errors import InvalidParameter
from deltaic_terminal.printing import visible

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator, wire
from deltaic_ops.cli.words import duration
from deltaic_ops.rights.profile_file import profile_place

Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Server in the link and the profile.  [default: $DELTAIC_ENDPOINT, else the stack's]"
    ),
]
Mail = Annotated[
    Path | None, typer.Option("--mail", metavar="FILE.eml", help="Write a mail with the link here, to be sent by you.")
]


def invite(  # noqa: PLR0913, PLR0917 -- what an invitation and its token need
    out: Operator,
    name: Annotated[str, typer.Argument(metavar="RECIPIENT")],
    expires: Annotated[
        timedelta,
        typer.Option(parser=duration, metavar="72h|7d", help="How long the link can be used.", show_default="72h"),
    ] = LIFE,
    token_expires: Annotated[
        timedelta,
        typer.Option(parser=duration, metavar="90d|12h", help="How long its token lives.", show_default="90d"),
    ] = DEFAULT_LIFE,
    note: Annotated[str, typer.Option(help="A note for yourself; the token gets it too.")] = "",
    mail: Mail = None,
    endpoint: Endpoint = None,
    cancel: Annotated[
        str | None, typer.Option(metavar="INVITATION_ID", help="End this link instead of making one.")
    ] = None,
) -> None:
    r"""Make a link by which the recipient makes its own profile, once; nothing secret passes through your hands.

    \b
    deltaic recipient invite alice
    deltaic recipient invite alice --expires 7d --mail alice.eml
    deltaic recipient invite alice --cancel 937d8a9fd33e
    """
    if cancel is not None:
        gone = out.admin.invitations.cancel(out.admin.recipients.get(name), cancel)
        out.show(gone, f"cancelled invitation {gone.id} of '{gone.recipient}'")
        return
    make_link(out, name, endpoint, mail, life=expires, token_life=token_expires, note=note)


def invites(out: Operator, name: Annotated[str | None, typer.Argument(metavar="[RECIPIENT]")] = None) -> None:
    r"""List the invitations of a recipient, or of all; ended ones too, for ninety days after their end.

    \b
    deltaic recipient invites alice
    """
    person = None if name is None else out.admin.recipients.get(name)
    tokens = out.admin.tokens.of_all() if person is None else out.admin.tokens.list(person.id)
    unread = {token.id for token in tokens if token.salt}
    columns = [
        *fields(RECIPIENT="recipient", ID="id"),
        ("STATE", lambda invitation: invitation.state() + ", never read with" * (invitation.token_id in unread)),
        *fields(MADE="created_at", EXPIRES="expires_at", TOKEN="token_id", NOTE="comment"),  # noqa: S106 -- an id
    ]
    some = out.admin.invitations
    listed = some.of_all() if person is None else some.list(person.id)
    out.rows(listed, columns, "there is no invitation: deltaic recipient invite <recipient>")


def make_link(  # noqa: PLR0913 -- what an invitation and its token need
    out: Operator,
    recipient: str,
    endpoint: str | None,
    mail: Path | None = None,
    *,
    token_life: timedelta,
    life: timedelta = LIFE,
    overlap: timedelta | None = None,
    note: str = "",
) -> None:
    """Make an invitation and show its link, this once; the mail's place is taken before."""
    if mail is not None and mail.exists():
        raise InvalidParameter(f"'{mail}' is there already: name another file")
    server = out.sharing_endpoint(endpoint)
    person = out.admin.recipients.get(recipient)
    if mail is None:
        made = out.admin.invitations.create(person, server, life, token_life=token_life, overlap=overlap, comment=note)
    else:
        with profile_place(mail) as place:
            made = out.admin.invitations.create(
                person, server, life, token_life=token_life, overlap=overlap, comment=note
            )
            cancel = f"`deltaic recipient invite {person.name} --cancel {made.invitation.id}`"
            place.write(_mail(made), f", but the link was made: end it with {cancel}")
    if out.as_json:
        out.json({**wire(made.invitation), "link": made.link, **({} if mail is None else {"mail": str(mail)})})
        return
    out.show(made.invitation, f"invited '{person.name}': whoever opens the link first makes the profile")
    if mail is None:
        typer.echo(made.link)
    else:
        out.note(f"wrote {mail}: open it in your mail program, and send it")


def _mail(made: IssuedInvitation) -> str:
    """Return a mail as a draft (`X-Unsent`), which names nobody but the recipient of the data."""
    mail, name = EmailMessage(), visible(made.invitation.recipient)
    mail["Subject"] = f"Data shared with {name}"
    mail["X-Unsent"] = "1"
    mail.set_content(
        f"Data is shared with {name}.\n\n"
        "Open this link to see what it is and to make your profile, the file by which your tools read it:\n\n"
        f"{made.link}\n\n"
        f"It works once, until {made.invitation.expires_at:%Y-%m-%d %H:%M} UTC.\n",
        cte="8bit" if made.link.isascii() and name.isascii() else "base64",
    )
    return mail.as_string()
