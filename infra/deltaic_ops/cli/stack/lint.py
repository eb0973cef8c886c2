"""The command `deltaic lint`: what recipients of a table would run into, before it is shared."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import DeltaicError

from deltaic_ops.cli.operator import Operator, told_fields
from deltaic_ops.cli.recipients.holders import CLIENTS
from deltaic_ops.cli.words import table_name

if TYPE_CHECKING:
    from deltaic.catalog.items import Table

    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.table_look import ClientReads


def lint(
    out: Operator,
    target: Annotated[str, typer.Argument(metavar="S3-URI|SHARE.SCHEMA.TABLE")],
    storage: Annotated[str, typer.Option(metavar="NAME", help="The storage of the folder; else AWS S3.")] = "",
) -> None:
    r"""Read a Delta table's log, and say what recipients would run into: formats, statistics, sizes, history, clients.

    The exit code is 1 where it cannot be shared; warnings are of what some cannot read, or read slowly.

    \b
    deltaic lint s3://lake/sales/orders
    deltaic lint sales_share.europe.orders --json
    """
    entry = None
    if "://" not in target:
        entry = out.admin.tables.get(*table_name(target))
        target, storage = entry.location, entry.storage
    found, clients = _looked(out, target, storage, entry)
    if out.as_json:
        out.json({"findings": list(map(asdict, found)), "clients": list(map(told_fields, clients))})
    else:
        out.findings(found)
        if clients:
            out.table(clients, CLIENTS)
    out.end(found)


def _looked(
    out: Operator, target: str, storage: str, entry: "Table | None"
) -> tuple[list["Finding"], Sequence["ClientReads"]]:
    """Return what is found of a table, and who can read it: nobody where it cannot be shared."""
    from deltaic_ops.inspection.lint import lint as findings
    from deltaic_ops.inspection.lint import lint_iceberg, unreadable
    from deltaic_ops.inspection.survey import survey

    if entry is not None and entry.format == "iceberg":
        return [lint_iceberg(out.schemas, entry)], ()
    try:
        seen = survey(out.schemas, target, storage, entry)
    except DeltaicError as refusal:
        return [unreadable(refusal)], ()
    found = list(findings(seen, out.admin.tables, target, storage))
    return found, () if any(one.verdict == "failed" for one in found) else seen.latest.clients
