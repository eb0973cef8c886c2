"""The command `deltaic prove`: check what the page "The first hour on AWS" lists, and write a report."""

from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer
from delta_sharing_conformance.client import SharingClient

from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.cli.stack.doctor import check_context
from deltaic_ops.inspection.findings import Finding, Verdict

if TYPE_CHECKING:
    from deltaic_ops.checks.prove.prove_rows import RowResult

_FILES = "Number of files that the longest response lists."
_ENCRYPTED = "S3 folder in a bucket with SSE-KMS, for one more table."
_VERDICTS: dict[str, Verdict] = {"holds": "ok", "fails": "failed", "not tried": "not asked"}


def prove(  # noqa: PLR0913, PLR0917 -- options of the trial
    cli: Operator,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="S3 folder for the trial's tables.")],
    report: Annotated[Path, typer.Option(metavar="FILE", help="Report, without .html and .json.")] = Path("prove"),
    files: Annotated[int, typer.Option(min=1, metavar="N", help=_FILES)] = 100_000,
    encrypted_location: Annotated[str, typer.Option(metavar="LOCATION", help=_ENCRYPTED)] = "",
    yes: Yes = False,
) -> None:
    r"""Check what only a real deployment shows, row by row, and write a report.

    The rows are those of the page "The first hour on AWS". The command creates tables below LOCATION, a share and a
    recipient. It runs the checks of `doctor` and `verify` and some more, and removes what it created. After an
    interruption, run it again with the same report: it removes what is left and continues. The report contains
    no secrets. The exit code is 1 if a row fails.

    \b
    deltaic --stack deltaic-dev prove s3://lake/prove
    deltaic prove s3://lake/prove --encrypted-location s3://vault/prove
    """
    from deltaic.storage.endpoints import is_aws

    from deltaic_ops.checks.doctor.examination import examine
    from deltaic_ops.checks.endpoint_checks import AGENT, TIMEOUT_SECONDS, verify
    from deltaic_ops.checks.prove.probes import Trial, latencies
    from deltaic_ops.checks.prove.prove_report import read_results, write_report
    from deltaic_ops.checks.prove.prove_rows import results
    from deltaic_ops.checks.prove.trial_catalog import PLAIN, SCHEMA, SHARE, TrialCatalog, trial_folder
    from deltaic_ops.deploy.deployed_stack import read_stack

    context = check_context(cli, cli.sharing_endpoint(None))
    encrypted, storage = trial_folder(encrypted_location) if encrypted_location else "", cli.connection.storage_options
    catalog = TrialCatalog(cli.admin, context.client("s3"), storage, trial_folder(location), encrypted, files)
    stack = read_stack(context.client("cloudformation"), context.stack)
    on_aws = is_aws(context.client("sts").meta.endpoint_url)
    cli.note(f"writes {files * 150 // 1_000_000 + 5} MB to {catalog.location}, and deletes it at the end")
    cli.note(f"sends about 1,000 requests to {stack.name}: takes three minutes, costs less than 0.10 USD")
    cli.confirm(f"Prove stack {stack.name}?", yes=yes)
    about: dict[str, Any] = {"stack": stack.name, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "complete": False}
    known, made = read_results(report, stack.name), []
    with (
        catalog.created() as recipient,
        cli.admin.tokens.for_checks(recipient) as bearer,
        httpx.Client(timeout=TIMEOUT_SECONDS) as http,
    ):
        client = SharingClient(http, context.endpoint, bearer, AGENT)
        trial = Trial(context, stack, catalog, recipient, client, on_aws)
        with suppress(httpx.HTTPError):  # the rows report an endpoint that does not respond
            about["seconds"] = latencies(trial)
        checks = verify(client, [SHARE], [], 3 if encrypted else 2)
        for result in results(trial, [*examine(context, (SHARE, SCHEMA, PLAIN)), *checks], known):
            made.append(result)
            write_report(report, about, made)
            if not cli.as_json:
                cli.findings([_finding(result)])
    write_report(report, {**about, "complete": True}, made)
    if cli.as_json:
        cli.json([asdict(result) for result in made])
    cli.note(f"wrote {report.with_suffix('.html')} and {report.with_suffix('.json')}")
    cli.end([_finding(result) for result in made])


def _finding(result: "RowResult") -> Finding:
    return Finding(result.row, _VERDICTS[result.outcome], result.seen, result.remedy)
