"""The commands that end all that a recipient has at once, and that give it back."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from deltaic.settings import Settings
from deltaic.storage.sessions import SESSION_SECONDS

from deltaic_ops.cli.connection import Connection
from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.cli.words import RecipientName
from deltaic_ops.rights.cut_off import Done, in_each, roles_of


def cut_off(out: Operator, name: RecipientName, yes: Yes = False) -> None:
    r"""Refuse a recipient from its next request on, and end every URL and credential that it has, within seconds.

    Its tokens are revoked. Links and other keys of it do nothing for as long as it is cut off.

    \b
    deltaic recipient cut-off alice
    deltaic recipient cut-off alice --yes --json
    """
    out.confirm(f"Cut off recipient '{name}', revoke its tokens and end the URLs that it has?", yes=yes)
    marked = out.admin.cut_off(name)
    roles, keyed = roles_of(_signing_role(out.connection), out.admin.storages.list())
    done = in_each(out.connection.client("iam"), roles, out.admin.recipients.list())
    out.show(
        marked,
        f"cut off '{marked.name}': its next request is refused, its tokens are revoked, its sessions are denied in "
        f"{sum(not one.failure for one in done)} of {len(roles)} roles that sign",
        _living(out, keyed, done),
    )


def restore(out: Operator, name: RecipientName) -> None:
    r"""Answer a recipient again that was cut off. Its tokens stay revoked: make a new one, or send a link.

    \b
    deltaic recipient restore alice
    """
    known = out.admin.recipients.get(name)
    roles, _ = roles_of(_signing_role(out.connection), out.admin.storages.list())
    # First the roles: a mark without a Deny is safe, a Deny without a mark is a table that cannot be read.
    done = in_each(out.connection.client("iam"), roles, out.admin.recipients.list(), known.id)
    restored = out.admin.recipients.restore(name)
    out.show(
        restored,
        f"restored '{restored.name}'; its tokens stay revoked: deltaic token create {restored.name}",
        [f"the Deny of {one.where} was not taken away: {one.failure}" for one in done if one.failure],
    )


def _living(out: Operator, keyed: Sequence[str], done: Sequence[Done]) -> list[str]:
    """Return what lives on, and until when."""
    told = [f"the role {one.where} was not changed: {one.failure}" for one in done if one.failure]
    if not done:
        told.append(
            "no role is known that signs (a stack's output SigningRoleArn): what the functions' own credentials "
            "signed lives as long as those"
        )
    if any(one.failure for one in done):
        ends = datetime.now(UTC) + timedelta(seconds=SESSION_SECONDS)
        told.append(f"URLs and credentials of those roles live until {ends:%Y-%m-%d %H:%M} UTC at the latest")
    if keyed:
        life = timedelta(seconds=_url_ttl_seconds(out.connection))
        told.append(
            f"URLs of storages with static keys ({', '.join(keyed)}) cannot be ended: they live until "
            f"{datetime.now(UTC) + life:%Y-%m-%d %H:%M} UTC at the latest, unless the keys are replaced"
        )
    return told


def _signing_role(connection: Connection) -> str:
    """Return the role whose sessions sign; empty where none is told, and the functions' own credentials do."""
    stack = connection.outputs
    return connection.environment.get("SIGNING_ROLE_ARN", "") if stack is None else stack.signing_role_arn


def _url_ttl_seconds(connection: Connection) -> int:
    stack = connection.outputs
    return Settings.read(connection.environment).url_ttl_seconds if stack is None else stack.url_ttl_seconds
