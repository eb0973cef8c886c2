"""Show the credentials of a recipient, their last use, and what expires soon."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from deltaic.catalog.items import Invitation, OAuthClient, Policy, Token
from deltaic.errors import NotFound, Unavailable
from deltaic.scheduled.expirations import Expiration, scan_expirations

from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Column, Operator, json_value, wire
from deltaic_ops.cli.value_parsers import duration_option

if TYPE_CHECKING:
    from deltaic_ops.rights.recipient_view import Keys
    from deltaic_ops.usage.usage_report import UsageFilter

_USAGE = "Location of the usage table, to show last uses (see deltaic usage)."
Usage = Annotated[str, typer.Option(envvar="DELTAIC_USAGE", metavar="S3_URL", help=_USAGE)]

LastUses = Mapping[str, datetime]
_Key = Token | Invitation | OAuthClient | Policy


def uses(
    cli: Operator, location: str, subject: "UsageFilter", by: Literal["token_id", "recipient_id"], ids: Collection[str]
) -> LastUses | None:
    """Return last uses by id in column `by` of the usage table; if unreadable, print a note and return None."""
    from deltaic_ops.usage.usage_report import last_uses

    if not location:
        cli.note("to show last uses, name the usage table with --usage or DELTAIC_USAGE")
        return None
    try:
        return last_uses(location, cli.connection.environment, subject, by, ids)
    except (NotFound, Unavailable) as missing:
        cli.note(f"cannot show last uses: {missing.message}")
        return None


def json_ending(key: Expiration) -> dict[str, Any]:
    """Return what expires soon (a token, grant, invitation or recipient) as a JSON object."""
    return {"endsAt": json_value(key.ends_at), "recipient": key.recipient, "kind": key.kind, "what": key.target}


def json_keys(keys: "Keys", last: LastUses | None) -> dict[str, list[dict[str, Any]]]:
    """Return a recipient's credentials as JSON objects, with their last uses if these are known."""

    def with_uses(keys: Iterable[_Key]) -> list[dict[str, Any]]:
        if last is None:
            return [wire(key) for key in keys]
        return [{**wire(key), "lastUsedAt": json_value(_last(key, last))} for key in keys]

    return {
        "tokens": with_uses(keys.tokens),
        "links": [wire(key) for key in keys.links],
        "clients": with_uses(keys.clients),
        "policies": with_uses(keys.policies),
    }


def show_keys(cli: Operator, name: str, keys: "Keys", last: LastUses | None) -> None:
    """Print a table of a recipient's credentials."""
    all_keys: list[_Key] = [*keys.tokens, *keys.links, *keys.clients, *keys.policies]
    columns: list[Column] = [
        ("KEY", lambda key: _KINDS[type(key)]),
        *fields(ID="id", CREATED="created_at"),
        ("ENDS", lambda key: getattr(key, "expires_at", "")),
        ("COMMENT", lambda key: key.comment),
    ]
    if last is not None:
        columns.insert(4, ("LAST USE", lambda key: _last(key, last) or ""))
    if all_keys:
        cli.table(all_keys, columns)
    else:
        cli.note(f"no valid token, link, client or policy; next: deltaic token create {name}")


def _last(key: _Key, last: LastUses) -> datetime | None:
    from deltaic.sign_in.jwt_bearers import logged_id

    return last.get(logged_id(key) if isinstance(key, OAuthClient | Policy) else key.id)


_KINDS: Mapping[type, str] = {Token: "token", Invitation: "link", OAuthClient: "client", Policy: "policy"}


_WITHIN = timedelta(days=30)


def expiring(
    cli: Operator,
    within: Annotated[timedelta, duration_option("--within", "Time to look ahead. [default: 30d]")] = _WITHIN,
) -> None:
    r"""List tokens, invitations, grants and recipients that expire soon, in order of expiry.

    Recipients that are cut off or have expired are omitted, together with their tokens, invitations and grants.

    \b
    deltaic expiring
    deltaic expiring --within 7d --json
    """
    now = datetime.now(UTC)
    endings = scan_expirations(cli.admin, now, now + within)
    if cli.as_json:
        cli.json(list(map(json_ending, endings)))
    elif endings:
        cli.table(endings, fields(ENDS="ends_at", RECIPIENT="recipient", KIND="kind", ID="target"))
    else:
        cli.note("nothing expires in this time")
