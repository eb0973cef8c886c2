"""The commands of `deltaic usage`: both access logs into one table, and what that table says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from deltaic.errors import DeltaicError, InvalidParameter

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.jobs import JOB, job_line
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator, operator, wire
from deltaic_ops.local.access_logs import FETCHES, FOLDER, REQUESTS
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.usage.plots import page
from deltaic_ops.usage.usage_report import Names, Use, names_in
from deltaic_ops.usage.usage_report import report as read

app = Commands()

HERE = f"s3://{DATA_BUCKET}/usage"
"""Where the usage table of the embedded AWS lies, unless something else is said."""


@app.command(context_settings=JOB)
def collect(ctx: typer.Context) -> None:
    """Lead what S3 saw being fetched back to who asked for it, on this machine or on EMR Serverless."""
    line = job_line(ctx.args, "usage")
    out = operator(ctx, line.options.json)
    folder = out.wishes.state.absolute() / FOLDER
    if not (line.options.requests or line.options.fetches) and (folder / REQUESTS).exists():
        logs = [f"--requests={folder / REQUESTS}*", f"--fetches={folder / FETCHES}*"]
        line = job_line([*ctx.args, *logs, *([] if line.options.to else [f"--to={HERE}"])], "usage")
    if not (line.options.requests and line.options.fetches and line.options.to):
        raise InvalidParameter(
            "say where the logs are and where the table is: --requests, --fetches and --to; without them the logs that "
            f"`deltaic serve` keeps are read, of which {folder} has none"
        )
    raise typer.Exit(line.run(out, line.options.to))


@app.command()
def report(
    out: Operator,
    source: Annotated[
        str, typer.Option("--from", envvar="DELTAIC_USAGE", metavar="S3_URL", help="Location of the usage table.")
    ] = HERE,
    days: Annotated[int, typer.Option(min=1, max=3653, help="The last days, today among them.")] = 30,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML file with plots.")] = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="Instead what `verify` and `doctor` asked in recipients' names.")
    ] = False,
) -> None:
    r"""Show who read what: for each recipient and table the requests, the files and the bytes.

    What `deltaic verify --as` and `deltaic doctor` asked is no recipient's use, and left out.

    \b
    deltaic usage report --days 7
    deltaic usage report --html usage.html
    """
    today = datetime.now(UTC).date()
    usage = read(source, days, out.connection.environment, _names(out), today, checks=checks)
    if html is not None:
        html.write_text(page(usage, today), encoding="utf-8")
        out.note(f"{html} is written")
    if out.as_json:
        out.json({
            "since": str(usage.since),
            "uses": [wire(use) for use in usage.uses],
            "days": {str(day): sent for day, sent in sorted(usage.days.items())},
        })  # fmt: skip
        return
    _show(out, usage.uses)


def _names(out: Operator) -> Names:
    def names(share: str) -> list[str]:
        try:
            return names_in(out.admin, share)
        except DeltaicError as refusal:
            out.note(f"what refused requests named is not told, as the catalog cannot be asked: {refusal.message}")
            return []

    return names


def _show(out: Operator, uses: list[Use]) -> None:
    out.rows(
        uses,
        [
            *fields(recipient="recipient", table="table"),
            ("requests", lambda use: f"{use.requests:,}"),
            ("refused", lambda use: f"{use.refused:,}"),
            ("files signed", lambda use: f"{use.files_signed:,}"),
            ("fetches", lambda use: f"{use.fetches:,}"),
            ("bytes sent", lambda use: f"{use.bytes_sent:,}"),
            ("unexplained", lambda use: f"{use.unexplained:,}"),
            ("last", lambda use: use.last_at),
        ],
        "nobody asked for anything in these days",
    )
