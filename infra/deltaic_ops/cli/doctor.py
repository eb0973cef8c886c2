"""The command `deltaic doctor`: a line for everything that was looked at, and what to do where it is wrong."""

from typing import Annotated

import typer

from deltaic_ops.checks.doctor.examination import Examined, examine
from deltaic_ops.cli.operator import VERDICTS, AsJson, operator
from deltaic_ops.cli.words import table_name


def doctor(
    ctx: typer.Context,
    table: Annotated[str, typer.Option(metavar="SHARE.SCHEMA.TABLE", help="Read this one, not one a share.")] = "",
    endpoint: Annotated[str, typer.Option(envvar="DELTAIC_ENDPOINT", metavar="URL", help="Else the stack's.")] = "",
    as_json: AsJson = False,
) -> None:
    r"""Look for what is wrong with a stack: one line for each finding, and what to do.

    Looked at are the clock, the stack, both tables, the key of page tokens, roles, quotas, the deployed code, buckets,
    the log of each shared table with your credentials, filters beside the columns of their tables, and of each share
    one table, which is read through the endpoint with a token that ends with the command. Nothing else is changed.
    What this caller may not ask is told. The exit code is 1 when anything failed.

    \b
    deltaic --stack deltaic-prod doctor
    deltaic doctor --table sales_share.europe.orders
    deltaic doctor --json
    """
    out = operator(ctx, as_json)
    only = table_name(table) if table else None
    where, schemas = out.connection, out.schemas
    examined = Examined(
        client=where.client,
        admin=out.admin,
        read=lambda table: schemas.read(table.location, table.storage),
        stack=where.stack,
        region=where.region,
        catalog_table=where.catalog_table,
        tokens_table=where.tokens_table,
        endpoint=(endpoint or where.sharing_endpoint).rstrip("/"),
        deployed=not where.tables_are_told,
    )
    found = out.findings(examine(examined, only))
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    out.note(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts["failed"]:
        raise typer.Exit(1)
