"""By which keys a recipient comes, what was used last, what ends soon: how `show` and `expiring` say it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from deltaic.catalog.items import Invitation, OAuthClient, Policy, Token
from deltaic.errors import NotFound, Unavailable
from deltaic.scheduled.endings import Ending, endings_of_all

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Column, Operator, told_value, wire
from deltaic_ops.cli.words import duration

if TYPE_CHECKING:
    from deltaic_ops.rights.seen import Keys
    from deltaic_ops.usage.usage_report import UsageOf

_USAGE = "Location of the usage table (deltaic usage): tells last uses, of the last 30 days."
Usage = Annotated[str, typer.Option(envvar="DELTAIC_USAGE", metavar="S3_URL", help=_USAGE)]

LastUses = Mapping[str, datetime]
_Key = Token | Invitation | OAuthClient | Policy


def uses(
    out: Operator, location: str, of: "UsageOf", by: Literal["token_id", "recipient_id"], wanted: Collection[str]
) -> LastUses | None:
    """Return what `last_uses` does; None where no usage table is named, or none can be read, which is said."""
    from deltaic_ops.usage.usage_report import last_uses

    if not location:
        out.note("last uses are told where the usage table is named (--usage, DELTAIC_USAGE)")
        return None
    try:
        return last_uses(location, out.connection.environment, of, by, wanted)
    except (NotFound, Unavailable) as missing:
        out.note(f"last uses are not told: {missing.message}")
        return None


def told_ending(one: Ending) -> dict[str, Any]:
    """Return what ends soon as scripts see it."""
    return {"endsAt": told_value(one.ends_at), "recipient": one.recipient, "kind": one.kind, "what": one.what}


def told_keys(keys: "Keys", last: LastUses | None) -> dict[str, list[dict[str, Any]]]:
    """Return keys as scripts see them."""

    def with_uses(some: Iterable[_Key]) -> list[dict[str, Any]]:
        if last is None:
            return [wire(one) for one in some]
        return [{**wire(one), "lastUsedAt": told_value(_last(one, last))} for one in some]

    return {
        "tokens": with_uses(keys.tokens),
        "links": [wire(one) for one in keys.links],
        "clients": with_uses(keys.clients),
        "policies": with_uses(keys.policies),
    }


def show_keys(out: Operator, name: str, keys: "Keys", last: LastUses | None) -> None:
    """Show people the keys of a recipient, a line each."""
    some: list[_Key] = [*keys.tokens, *keys.links, *keys.clients, *keys.policies]
    columns: list[Column] = [
        ("KEY", lambda one: _KINDS[type(one)]),
        *fields(ID="id", MADE="created_at"),
        ("ENDS", lambda one: getattr(one, "expires_at", "")),
        ("COMMENT", lambda one: one.comment),
    ]
    if last is not None:
        columns.insert(4, ("LAST USE", lambda one: _last(one, last) or ""))
    if some:
        out.table(some, columns)
    else:
        out.note(f"no key opens its door: deltaic token create {name}")


def _last(key: _Key, last: LastUses) -> datetime | None:
    from deltaic.sign_in.jwt_bearers import logged_id

    return last.get(logged_id(key) if isinstance(key, OAuthClient | Policy) else key.id)


_KINDS: Mapping[type, str] = {Token: "token", Invitation: "link", OAuthClient: "client", Policy: "policy"}


_WITHIN = timedelta(days=30)


def expiring(
    out: Operator,
    within: Annotated[
        timedelta, typer.Option(parser=duration, metavar="30d", help="How soon.", show_default="30d")
    ] = _WITHIN,
) -> None:
    r"""List which tokens, open links, grants and recipients end soon, the first to end first.

    What ends for a recipient that is cut off or has ended is not listed.

    \b
    deltaic expiring
    deltaic expiring --within 7d --json
    """
    now = datetime.now(UTC)
    found = endings_of_all(out.admin, now, now + within)
    if out.as_json:
        out.json(list(map(told_ending, found)))
    elif found:
        out.table(
            found,
            fields(ENDS="ends_at", RECIPIENT="recipient", WHAT="kind", ID="what"),
        )
    else:
        out.note("nothing ends in that time")
