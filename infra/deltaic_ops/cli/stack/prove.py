"""The command `deltaic prove`: check what the page "The first hour on AWS" lists, and write a report."""

from pathlib import Path
from typing import Annotated

import typer

from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.cli.stack.doctor import check_context

_FILES = "Number of files that the longest response lists."
_ENCRYPTED = "S3 folder in a bucket with SSE-KMS, for one more table."


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
    interruption, run it again with the same report: it removes the leftovers and continues. The report contains
    no secrets. The exit code is 1 if a row fails. The script `prove` of a release does this with a throw-away stack.

    \b
    deltaic --stack deltaic-dev prove s3://lake/prove
    deltaic prove s3://lake/prove --encrypted-location s3://vault/prove
    """
    from deltaic_ops.checks.prove.probes import MOST_USD
    from deltaic_ops.checks.prove.prove_report import check_rows
    from deltaic_ops.checks.prove.trial_catalog import TrialCatalog, trial_folder

    context = check_context(cli, cli.sharing_endpoint(None))
    encrypted, storage = trial_folder(encrypted_location) if encrypted_location else "", cli.connection.storage_options
    catalog = TrialCatalog(cli.admin, context.client("s3"), storage, trial_folder(location), encrypted, files)
    cli.note(f"writes {files * 250 // 1_000_000 + 8} MB to {catalog.location}, and deletes it at the end")
    cli.note(f"sends about 1,000 requests to {context.stack}: takes three minutes, costs less than {MOST_USD:.2f} USD")
    cli.confirm(f"Prove stack {context.stack}?", yes=yes)
    results = cli.findings(check_rows(context, catalog, report))
    cli.note(f"wrote {report.with_suffix('.html')} and {report.with_suffix('.json')}")
    cli.end(results)
