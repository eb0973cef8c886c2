"""The command `deltaic verify`: check the endpoint as a recipient would use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import typer
from delta_sharing_conformance.client import SharingClient
from deltaic.errors import InvalidParameter

from deltaic_ops.checks.endpoint_checks import AGENT, TABLES, TIMEOUT_SECONDS
from deltaic_ops.checks.endpoint_checks import verify as verification
from deltaic_ops.cli.operator import Operator
from deltaic_ops.rights.profile_file import read_profile

_ENDPOINT = "Endpoint of the server. [default: that of the profile, or with --as that of the stack]"


def verify(  # noqa: PLR0913, PLR0917 -- options of the check
    cli: Operator,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="Share to check. [default: all granted shares]")] = "",
    as_recipient: Annotated[str, typer.Option("--as", metavar="RECIPIENT", help="Act as this recipient.")] = "",
    profile: Annotated[Path | None, typer.Option(metavar="FILE", help="Use the token of a profile file.")] = None,
    tables: Annotated[int, typer.Option(min=1, metavar="N", help="Tables to read in each share.")] = TABLES,
    endpoint: Annotated[str, typer.Option(metavar="URL", help=_ENDPOINT)] = "",
) -> None:
    r"""Check that a recipient can read what is granted, and nothing else.

    Use --as or --profile. The token of --as expires after the check, within 15 minutes. Its requests do not count as
    usage (see deltaic usage report --checks); those of --profile do. The exit code is 1 if a check fails.

    \b
    deltaic verify --as alice
    deltaic --stack deltaic-prod verify --as alice
    deltaic verify sales_share --profile alice.share --json
    """
    if bool(as_recipient) == (profile is not None):
        raise InvalidParameter("missing recipient: use --as RECIPIENT or --profile FILE")
    with (
        _caller(cli, as_recipient, profile, endpoint) as (server, bearer),
        httpx.Client(timeout=TIMEOUT_SECONDS) as http,
    ):
        strangers = _strangers(cli, as_recipient) if as_recipient else []
        client = SharingClient(http, server, bearer, AGENT)
        checks = verification(client, [share] if share else [], strangers, tables)
        cli.end(cli.findings(checks))


@contextmanager
def _caller(cli: Operator, recipient: str, profile: Path | None, endpoint: str) -> Iterator[tuple[str, str]]:
    """Yield the sharing endpoint and a recipient's token for it; a temporary token is deleted afterwards."""
    if profile is not None:
        profile_endpoint, bearer = read_profile(profile)
        yield (endpoint or profile_endpoint).rstrip("/"), bearer
        return
    server = cli.sharing_endpoint(endpoint)
    with cli.admin.tokens.for_checks(cli.admin.recipients.get(recipient)) as bearer:
        yield server, bearer


def _strangers(cli: Operator, recipient: str) -> list[str]:
    granted = {grant.share.lower() for grant in cli.admin.grants.of_recipient(recipient)}
    return [share.name for share in cli.admin.shares.list() if share.name.lower() not in granted][:1]
