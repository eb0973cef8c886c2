"""Decides what `deltaic conformance` does: the protocol's checks against any server, as a table of what holds."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.text import Text

from deltaic_ops.cli.operator import AsJson, finding_line, operator
from deltaic_ops.conformance.caller import Caller
from deltaic_ops.conformance.run import TABLES, Finding, run
from deltaic_ops.profile import read_profile
from deltaic_ops.verify import TIMEOUT_SECONDS

_STYLES = {"holds": "green", "fails": "bold red", "not tried": "yellow"}


def conformance(
    ctx: typer.Context,
    profile: Annotated[Path, typer.Option(metavar="FILE", help="The profile file of a recipient.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint; else the profile's.")] = "",
    tables: Annotated[int, typer.Option(min=1, help="How many of each share are read.")] = TABLES,
    as_json: AsJson = False,
) -> None:
    r"""Check any Delta Sharing server against the protocol, with what a recipient's profile can see.

    Each line says what holds, what fails, in which section of PROTOCOL.md it stands and what the server must do, or
    why it was not tried. Whole tables are queried, several times: share small ones. The exit code is 1 when anything
    fails.

    \b
    deltaic conformance --profile alice.share
    deltaic conformance https://sharing.example.com/delta-sharing --profile alice.share --tables 5
    deltaic conformance --profile alice.share --json
    """
    out = operator(ctx, as_json)
    told, bearer = read_profile(profile)
    endpoint = (url or told).rstrip("/")
    with httpx.Client(timeout=TIMEOUT_SECONDS) as client:
        found = out.findings(run(Caller(client, endpoint, bearer), most=tables), _line)
    out.note(f"{summary(found)} at {endpoint}")
    if any(finding.result == "fails" for finding in found):
        raise typer.Exit(1)


def summary(found: Iterable[Finding]) -> str:
    """Say how many checks came to what."""
    count = Counter(finding.result for finding in found)
    return f"{count['holds']} hold, {count['fails']} fail, {count['not tried']} not tried"


def _line(finding: Finding) -> Text:
    check = f"{finding.section:<40} {finding.check}"
    remedy = finding.remedy and f"{'':10}must: {finding.remedy}"
    return finding_line(f"{finding.result:<9}", _STYLES[finding.result], check, finding.said, remedy)
