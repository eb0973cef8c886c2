"""The command `deltaic verify`: a recipient's round against the endpoint, as a list of what holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import typer
from delta_sharing_conformance.client import SharingClient
from deltaic.errors import InvalidParameter, NotFound

from deltaic_ops.checks.verify import AGENT, TABLES, TIMEOUT_SECONDS
from deltaic_ops.checks.verify import verify as verification
from deltaic_ops.cli.operator import Operator
from deltaic_ops.inspection.findings import NO_ENDPOINT, Finding
from deltaic_ops.localstack.running import deployed
from deltaic_ops.rights.profile_file import read_profile


def verify(  # noqa: PLR0913, PLR0917 -- what a round needs
    out: Operator,
    share: Annotated[str, typer.Argument(metavar="[SHARE]", help="Only this share; else all that are granted.")] = "",
    as_recipient: Annotated[str, typer.Option("--as", metavar="RECIPIENT", help="With a token made for it.")] = "",
    profile: Annotated[Path | None, typer.Option(metavar="FILE", help="With the token of a profile file.")] = None,
    tables: Annotated[int, typer.Option(min=1, help="How many of each share are read.")] = TABLES,
    endpoint: Annotated[str, typer.Option(metavar="URL", help="Else the profile's, or with --as the stack's.")] = "",
) -> None:
    r"""Play a recipient against the endpoint: what is granted can be read, and nothing else.

    The token that --as makes lives for the round and a quarter of an hour at most, and what is asked with it is no use
    of the recipient's (deltaic usage report --checks); with --profile it is. Without either the caller is the reader of
    the stack that `deltaic localstack deploy` has made. The exit code is 1 when anything does not hold.

    \b
    deltaic verify --as alice
    deltaic --stack deltaic-prod verify --as alice
    deltaic verify sales_share --profile alice.share --json
    """
    local = deployed(out.wishes.state)
    if not (as_recipient or profile or endpoint) and local is not None and local.stack == out.wishes.stack_name:
        profile = Path(local.profile)
    if bool(as_recipient) == (profile is not None):
        raise InvalidParameter("say as whom: --as RECIPIENT, or --profile FILE")
    with (
        _caller(out, as_recipient, profile, endpoint) as (where, bearer),
        httpx.Client(timeout=TIMEOUT_SECONDS) as http,
    ):
        strangers = _strangers(out, as_recipient) if as_recipient else []
        client = SharingClient(http, where, bearer, AGENT)
        checks = verification(client, [share] if share else [], strangers, tables)
        findings = out.findings(checks, _as_json, before_remedy="look at ")
    failed = sum(not finding.holds for finding in findings)
    out.note(f"{len(findings) - failed} of {len(findings)} checks hold at {where}")
    if failed:
        raise typer.Exit(1)


@contextmanager
def _caller(out: Operator, recipient: str, profile: Path | None, endpoint: str) -> Iterator[tuple[str, str]]:
    """Give the endpoint and a token for it; one that is made here is deleted when the round is over."""
    if profile is not None:
        told, bearer = read_profile(profile)
        yield (endpoint or told).rstrip("/"), bearer
        return
    where = (endpoint or out.connection.sharing_endpoint).rstrip("/")
    if not where:
        raise NotFound(NO_ENDPOINT)
    with out.admin.tokens.for_checks(out.admin.recipients.get(recipient)) as bearer:
        yield where, bearer


def _strangers(out: Operator, recipient: str) -> list[str]:
    granted = {grant.share.lower() for grant in out.admin.grants.of_recipient(recipient)}
    return [share.name for share in out.admin.shares.list() if share.name.lower() not in granted][:1]


def _as_json(finding: Finding) -> dict[str, object]:
    return {"check": finding.check, "holds": finding.holds, "said": finding.said, "remedy": finding.remedy}
