"""The command `deltaic lint`: what recipients of a table would run into, before it is shared."""

from typing import Annotated

import typer
from deltaic.errors import DeltaicError

from deltaic_ops.cli.holders import CLIENTS
from deltaic_ops.cli.operator import AsJson, operator
from deltaic_ops.cli.words import table_name


def lint(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(metavar="S3-URI|SHARE.SCHEMA.TABLE")],
    storage: Annotated[str, typer.Option(metavar="NAME", help="The storage of the folder; else AWS S3.")] = "",
    as_json: AsJson = False,
) -> None:
    r"""Read a Delta table's log, and say what recipients would run into: formats, statistics, sizes, history, clients.

    The exit code is 1 where it cannot be shared; warnings are of what some cannot read, or read slowly.

    \b
    deltaic lint s3://lake/sales/orders
    deltaic lint sales_share.europe.orders --json
    """
    from deltaic_ops.checks.lint import lint as findings
    from deltaic_ops.checks.lint import lint_iceberg, unreadable
    from deltaic_ops.checks.survey import survey

    out, entry = operator(ctx, as_json), None
    if "://" not in target:
        entry = out.admin.tables.get(*table_name(target))
        target, storage = entry.location, entry.storage
        if entry.format == "iceberg":
            out.end(out.findings([lint_iceberg(out.schemas, entry)]))
            return
    try:
        found = survey(out.schemas, target, storage, entry)
    except DeltaicError as refusal:
        out.end(out.findings([unreadable(refusal)]))
        return
    shown = out.findings(findings(found, out.admin.tables, target, storage))
    if not as_json:
        out.table(found.latest.clients, CLIENTS)
    out.end(shown)
