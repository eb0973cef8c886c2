"""Decides what `deltaic usage` does: both access logs into one table, and what that table says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from deltaic.errors import DeltaicError, InvalidParameter

from deltaic_ops.cli.jobs import Detach, Memory, On, RunId, ShowValues, Wait, run_job
from deltaic_ops.cli.operator import AsJson, Operator, operator, wire
from deltaic_ops.local.access_logs import FETCHES, FOLDER, REQUESTS
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.usage_page import page
from deltaic_ops.usage_report import Use
from deltaic_ops.usage_report import report as read

app = typer.Typer(no_args_is_help=True, add_completion=False)

HERE = f"s3://{DATA_BUCKET}/usage"
"""Where the usage table of the embedded AWS lies, unless something else is said."""


@app.command()
def collect(  # noqa: PLR0913, PLR0917 -- the job's own arguments
    ctx: typer.Context,
    requests: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="The functions' log: a file, folder or glob. Repeatable.")
    ] = None,
    fetches: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="S3's access logs: the same. Repeatable.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", envvar="DELTAIC_USAGE", metavar="S3_URL", help="Location of the usage table.")
    ] = "",
    table: Annotated[str, typer.Option(metavar="SHARE.SCHEMA.TABLE", help="Share it under this name.")] = "",
    create_share: Annotated[bool, typer.Option("--create-share", help="Make the share if there is none.")] = False,
    run_id: RunId = "",
    wait: Wait = 0.0,
    memory: Memory = "",
    show_values: ShowValues = False,
    on: On = "local",
    detach: Detach = False,
    as_json: AsJson = False,
) -> None:
    r"""Lead what S3 saw being fetched back to who asked for it, on this machine or on EMR Serverless.

    Without paths it reads the logs that `deltaic serve` keeps in the state folder. Logs may overlap and come late.
    Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 4 another writer has the table or took it: run again,
    5 the rows are written, and what belongs behind them is not done: run again.

    \b
    deltaic usage collect
    deltaic usage collect --requests 's3://logs/endpoints/*/*' --fetches 's3://logs/s3/2026-11-2*' \
        --to s3://lake/usage --table audit.usage.accesses --create-share
    """
    out = operator(ctx, as_json)
    kept = out.state.absolute() / FOLDER
    local = requests is None and fetches is None
    if local and (kept / REQUESTS).exists():
        requests, fetches, to = [f"{kept / REQUESTS}*"], [f"{kept / FETCHES}*"], to or HERE
    if not (requests and fetches and to):
        raise InvalidParameter(
            "say where the logs are and where the table is: --requests, --fetches and --to; without them the logs that "
            f"`deltaic serve` keeps are read, of which {kept} has none"
        )
    given = [f"--to={to}", f"--wait={wait}", *([f"--table={table}"] if table else []), *["--json"] * as_json]
    given += ["--show-values"] * show_values + ["--create-share"] * create_share
    given += ["--requests", *requests, "--fetches", *fetches]
    raise typer.Exit(run_job(out, "usage", to, given, on=on, detach=detach, run_id=run_id, memory=memory))


@app.command()
def report(  # noqa: PLR0913, PLR0917 -- which days and whose use, and the ways to show them
    ctx: typer.Context,
    source: Annotated[
        str, typer.Option("--from", envvar="DELTAIC_USAGE", metavar="S3_URL", help="Location of the usage table.")
    ] = HERE,
    days: Annotated[int, typer.Option(min=1, max=3653, help="The last days, today among them.")] = 30,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML file with plots.")] = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="Instead what `verify` and `doctor` asked in recipients' names.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    r"""Show who read what: for each recipient and table the requests, the files and the bytes.

    What `deltaic verify --as` and `deltaic doctor` asked is no recipient's use, and left out.

    \b
    deltaic usage report --days 7
    deltaic usage report --html usage.html
    """
    out = operator(ctx, as_json)
    today = datetime.now(UTC).date()
    found = read(source, days, out.connection.environment, lambda: _names(out), today, checks=checks)
    if html is not None:
        html.write_text(page(found, today), encoding="utf-8")
        out.note(f"{html} is written")
    if as_json:
        out.json({
            "since": str(found.since),
            "uses": [wire(use) for use in found.uses],
            "days": {str(day): sent for day, sent in sorted(found.days.items())},
        })  # fmt: skip
        return
    _show(out, found.uses)


def _names(out: Operator) -> list[str]:
    """Return what the catalog has; nothing where it may not be asked, which is said."""
    try:
        shares = [share.name for share in out.admin.shares.list()]
        schemas = [f"{share}.{schema.name}" for share in shares for schema in out.admin.schemas.list(share)]
        tables = (table for share in shares for table in out.admin.tables.list(share))
        return [*shares, *schemas, *(f"{table.share}.{table.schema_name}.{table.name}" for table in tables)]
    except DeltaicError as refusal:
        out.note(f"what refused requests named is not told, as the catalog cannot be asked: {refusal.message}")
        return []


def _show(out: Operator, uses: list[Use]) -> None:
    out.rows(
        uses,
        [
            ("recipient", lambda use: use.recipient),
            ("table", lambda use: use.table),
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
