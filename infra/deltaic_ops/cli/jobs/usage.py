"""The commands of `deltaic usage`: merge access logs into the usage table, and report from it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from deltaic.errors import DeltaicError, InvalidParameter

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.extras import missing_extra
from deltaic_ops.cli.jobs.jobs import JOB, job_line
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator, operator, wire
from deltaic_ops.local.access_logs import FETCHES, FOLDER, REQUESTS
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.usage.plots import page
from deltaic_ops.usage.usage_report import Names, Use, names_in
from deltaic_ops.usage.usage_report import report as read

app = Commands()

_FROM = "Location of the usage table (not a date; see --days)."
HERE = f"s3://{DATA_BUCKET}/usage"
"""Default location of the usage table, in the built-in AWS emulator."""


@app.command(context_settings=JOB)
def collect(ctx: typer.Context) -> None:
    """Collect access logs into the usage table."""
    line = job_line(ctx.args, "usage")
    cli = operator(ctx, line.options.json)
    folder = cli.options.state.absolute() / FOLDER
    if not (line.options.requests or line.options.fetches) and (folder / REQUESTS).exists():
        logs = [f"--requests={folder / REQUESTS}*", f"--fetches={folder / FETCHES}*"]
        line = job_line([*ctx.args, *logs, *([] if line.options.to else [f"--to={HERE}"])], "usage")
    if not (line.options.requests and line.options.fetches and line.options.to):
        raise InvalidParameter(
            "missing locations: use --requests, --fetches and --to. Without them, the command reads the logs of "
            f"`deltaic serve`, and {folder} has none"
        )
    if line.options.on == "local" and not line.options.spark and (remedy := missing_extra("load")):
        raise InvalidParameter(f"{remedy}, or use --spark")
    raise typer.Exit(line.run(cli, line.options.to))


@app.command()
def report(
    cli: Operator,
    source: Annotated[str, typer.Option("--from", envvar="DELTAIC_USAGE", metavar="S3_URL", help=_FROM)] = HERE,
    days: Annotated[int, typer.Option(min=1, max=3653, metavar="N", help="Days to report, including today.")] = 30,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")] = None,
    checks: Annotated[bool, typer.Option("--checks", help="Report only requests of `verify` and `doctor`.")] = False,
) -> None:
    r"""Report requests, files and bytes by recipient and table.

    Requests of `deltaic verify --as` and `deltaic doctor` are left out, because no recipient made them.

    \b
    deltaic usage report --days 7
    deltaic usage report --html usage.html
    """
    today = datetime.now(UTC).date()
    usage = read(source, days, cli.connection.environment, _names(cli), today, checks=checks)
    if html is not None:
        html.write_text(page(usage, today), encoding="utf-8")
        cli.note(f"wrote {html}")
    if cli.as_json:
        cli.json({
            "since": str(usage.since),
            "uses": [wire(use) for use in usage.uses],
            "days": {str(day): sent for day, sent in sorted(usage.bytes_by_day.items())},
        })  # fmt: skip
        return
    _show(cli, usage.uses)


def _names(cli: Operator) -> Names:
    def names(share: str) -> list[str]:
        try:
            return names_in(cli.admin, share)
        except DeltaicError as refusal:
            cli.note(
                f"cannot show the tables of rejected requests, because the catalog cannot be read: {refusal.message}"
            )
            return []

    return names


def _show(cli: Operator, uses: list[Use]) -> None:
    cli.rows(
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
        "no requests in this period",
    )
