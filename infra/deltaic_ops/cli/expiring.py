"""The command `deltaic expiring`: what ends soon, so that it is renewed before a recipient asks why."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer
from deltaic.catalog.admin import CatalogAdmin

from deltaic_ops.cli.operator import AsJson, operator
from deltaic_ops.cli.words import duration

_WITHIN = timedelta(days=30)


class Ending(NamedTuple):
    """Something that ends."""

    ends_at: datetime
    recipient: str
    kind: str
    what: str
    """An id or the name of a share; empty: the recipient itself."""


def expiring(
    ctx: typer.Context,
    within: Annotated[
        timedelta, typer.Option(parser=duration, metavar="30d", help="How soon.", show_default="30d")
    ] = _WITHIN,
    as_json: AsJson = False,
) -> None:
    r"""List which tokens, open links, grants and recipients end soon, the first to end first.

    What ends for a recipient that is cut off or has ended is not listed.

    \b
    deltaic expiring
    deltaic expiring --within 7d --json
    """
    out = operator(ctx, as_json)
    now = datetime.now(UTC)
    found = sorted(one for one in _endings(out.admin, now) if now < one.ends_at <= now + within)
    if as_json:
        out.json(
            [
                {"endsAt": f"{ends_at:%Y-%m-%dT%H:%M:%SZ}", "recipient": recipient, "kind": kind, "what": what}
                for ends_at, recipient, kind, what in found
            ]
        )
    elif found:
        out.table(
            found,
            [
                ("ENDS", lambda one: one.ends_at),
                ("RECIPIENT", lambda one: one.recipient),
                ("WHAT", lambda one: one.kind),
                ("ID", lambda one: one.what),
            ],
        )
    else:
        out.note("nothing ends in that time")


def _endings(admin: CatalogAdmin, now: datetime) -> Iterator[Ending]:
    for person in admin.recipients.list():
        if person.has_ended(now):
            continue
        if person.ends_at is not None:
            yield Ending(person.ends_at, person.name, "recipient", "")
        for token in admin.tokens.list(person.id):
            if token.state(now) == "live":
                yield Ending(token.expires_at, person.name, "token", token.id)
        for link in admin.invitations.list(person.id):
            if link.state(now) == "open":
                yield Ending(link.expires_at, person.name, "link", link.id)
        for grant in admin.grants.of_recipient(person.name):
            if grant.ends_at is not None:
                yield Ending(grant.ends_at, person.name, "grant", grant.share)
