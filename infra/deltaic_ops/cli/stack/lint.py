"""The command `deltaic lint`: check a table for problems that recipients would hit."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import DeltaicError

from deltaic_ops.cli.operator import Operator, json_fields
from deltaic_ops.cli.recipients.holders import CLIENTS
from deltaic_ops.cli.value_parsers import table_name

if TYPE_CHECKING:
    from deltaic.catalog.items import Table

    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.table_facts import ClientReads


def lint(
    cli: Operator,
    target: Annotated[str, typer.Argument(metavar="S3-URI|SHARE.SCHEMA.TABLE", help="Delta table to check.")],
    storage: Annotated[str, typer.Option(metavar="NAME", help="Storage of the folder. [default: AWS S3]")] = "",
) -> None:
    r"""Check a Delta table for problems that recipients would hit.

    The command reads the table's log and checks formats, statistics, file sizes, history and client compatibility.
    Warnings mean that some clients cannot read the table, or that reads are slow. The exit code is 1 if the table
    cannot be shared.

    \b
    deltaic lint s3://lake/sales/orders
    deltaic lint sales_share.europe.orders --json
    """
    entry = None
    if "://" not in target:
        entry = cli.admin.tables.get(*table_name(target))
        target, storage = entry.location, entry.storage
    findings, clients = _examine(cli, target, storage, entry)
    if cli.as_json:
        cli.json({"findings": list(map(asdict, findings)), "clients": list(map(json_fields, clients))})
    else:
        cli.findings(findings)
        if clients:
            cli.table(clients, CLIENTS)
    cli.end(findings)


def _examine(
    cli: Operator, target: str, storage: str, entry: "Table | None"
) -> tuple[list["Finding"], Sequence["ClientReads"]]:
    """Return the findings of a table, and the clients that can read it; no clients if it cannot be shared."""
    from deltaic_ops.inspection.survey import survey
    from deltaic_ops.inspection.table_lint import lint as lint_delta
    from deltaic_ops.inspection.table_lint import lint_iceberg, unreadable_log

    if entry is not None and entry.format == "iceberg":
        return [lint_iceberg(cli.schemas, entry)], ()
    try:
        result = survey(cli.schemas, target, storage, entry)
    except DeltaicError as refusal:
        return [unreadable_log(refusal)], ()
    findings = list(lint_delta(result, cli.admin.tables, target, storage))
    return findings, () if any(finding.verdict == "failed" for finding in findings) else result.latest.clients
