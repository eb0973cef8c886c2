"""The command `deltaic verify`: check the endpoint as a recipient would use it."""

from contextlib import AbstractContextManager, nullcontext
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
    bearers: AbstractContextManager[str]
    if profile is not None:
        profile_endpoint, token = read_profile(profile)
        server, bearers, strangers = (endpoint or profile_endpoint).rstrip("/"), nullcontext(token), []
    else:
        server = cli.sharing_endpoint(endpoint)
        bearers = cli.admin.tokens.for_checks(cli.admin.recipients.get(as_recipient))
        granted = {grant.share.lower() for grant in cli.admin.grants.of_recipient(as_recipient)}
        strangers = [each.name for each in cli.admin.shares.list() if each.name.lower() not in granted][:1]
    cli.note(f"checks {server}")
    with bearers as bearer, httpx.Client(timeout=TIMEOUT_SECONDS) as http:
        client = SharingClient(http, server, bearer, AGENT)
        cli.end(cli.findings(verification(client, [share] if share else [], strangers, tables)))
