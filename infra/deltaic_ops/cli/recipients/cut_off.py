"""The commands that end all access of a recipient at once, and restore it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from deltaic.settings import Settings
from deltaic.storage.sessions import SESSION_SECONDS

from deltaic_ops.cli.aws_selection import Connection
from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.cli.value_parsers import RecipientName
from deltaic_ops.rights.credential_denial import RoleResult, deny_in_roles, roles_of


def cut_off(cli: Operator, name: RecipientName, yes: Yes = False) -> None:
    r"""Block a recipient and its signed URLs at once.

    Its storage credentials stop working too, and its tokens are revoked. Warnings name URLs that cannot be revoked.
    Its links, OAuth clients and federation policies stop working until it is restored.

    \b
    deltaic recipient cut-off alice
    deltaic recipient cut-off alice --yes --json
    """
    cli.confirm(f"Cut off recipient '{name}', revoke its tokens and end its signed URLs?", yes=yes)
    marked = cli.admin.cut_off(name)
    roles, keyed = roles_of(_signing_role(cli.connection), cli.admin.storages.list())
    done = deny_in_roles(cli.connection.client("iam"), roles, cli.admin.recipients.list())
    cli.show(
        marked,
        f"cut off '{marked.name}': its requests are refused, its tokens are revoked, and its sessions are denied in "
        f"{sum(not change.failure for change in done)} of {len(roles)} signing roles",
        _remaining_access(cli, keyed, done),
    )


def restore(cli: Operator, name: RecipientName) -> None:
    r"""Restore a recipient that was cut off. Its tokens stay revoked: create a new one.

    \b
    deltaic recipient restore alice
    """
    recipient = cli.admin.recipients.get(name)
    roles, _ = roles_of(_signing_role(cli.connection), cli.admin.storages.list())
    # First the roles: a mark without a Deny is safe, but a Deny without a mark leaves tables unreadable.
    done = deny_in_roles(cli.connection.client("iam"), roles, cli.admin.recipients.list(), recipient.id)
    restored = cli.admin.recipients.restore(name)
    cli.show(
        restored,
        f"restored '{restored.name}'; its tokens stay revoked; next: deltaic token create {restored.name}",
        [f"could not remove the Deny from role {change.role}: {change.failure}" for change in done if change.failure],
    )


def _remaining_access(cli: Operator, keyed: Sequence[str], done: Sequence[RoleResult]) -> list[str]:
    """Return warnings about signed URLs and credentials that still work, and until when."""
    warnings = [f"could not change role {change.role}: {change.failure}" for change in done if change.failure]
    if not done:
        warnings.append(
            "no signing role is known (stack output SigningRoleArn): URLs that the functions signed with their own "
            "credentials work until those credentials expire"
        )
    if any(change.failure for change in done):
        ends = datetime.now(UTC) + timedelta(seconds=SESSION_SECONDS)
        warnings.append(f"URLs and credentials of those roles work until {ends:%Y-%m-%d %H:%M} UTC at the latest")
    if keyed:
        life = timedelta(seconds=_url_ttl_seconds(cli.connection))
        warnings.append(
            f"URLs of storages with static keys ({', '.join(keyed)}) cannot be revoked: they work until "
            f"{datetime.now(UTC) + life:%Y-%m-%d %H:%M} UTC at the latest, unless you replace the keys"
        )
    return warnings


def _signing_role(connection: Connection) -> str:
    """Return the IAM role that signs URLs; empty if the functions sign with their own roles."""
    stack = connection.outputs
    return connection.environment.get("SIGNING_ROLE_ARN", "") if stack is None else stack.signing_role_arn


def _url_ttl_seconds(connection: Connection) -> int:
    stack = connection.outputs
    return Settings.read(connection.environment).url_ttl_seconds if stack is None else stack.url_ttl_seconds
