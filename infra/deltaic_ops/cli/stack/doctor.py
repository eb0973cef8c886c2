"""The command `deltaic doctor`: a line for everything that was looked at, and what to do where it is wrong."""

from typing import Annotated

import typer

from deltaic_ops.checks.doctor.examination import Examined, examine
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.words import table_name


def doctor(
    out: Operator,
    table: Annotated[str, typer.Option(metavar="SHARE.SCHEMA.TABLE", help="Read this one, not one a share.")] = "",
    endpoint: Annotated[str, typer.Option(metavar="URL", help="Else the stack's.")] = "",
) -> None:
    r"""Look for what is wrong with a stack: one line for each finding, and what to do.

    Looked at are the clock, the stack, both tables, the key of page tokens, roles, quotas, the deployed code, buckets,
    the log of each shared table with your credentials, and whether volumes, skills, models and Iceberg tables are where
    their entries say; filters beside the columns of their tables, and of each share
    one table, which is read through the endpoint with a token that ends with the command. Nothing else is changed.
    What this caller may not ask is told. The exit code is 1 when anything failed.

    \b
    deltaic --stack deltaic-prod doctor
    deltaic doctor --table sales_share.europe.orders
    deltaic doctor --json
    """
    only = table_name(table) if table else None
    found = out.findings(examine(examined(out, endpoint), only))
    out.end(found)


def examined(out: Operator, endpoint: str) -> Examined:
    """Return what the command's connection leads to."""
    where = out.connection
    return Examined(
        client=where.client,
        admin=out.admin,
        schemas=out.schemas,
        stack=where.stack,
        region=where.region,
        catalog_table=where.catalog_table,
        tokens_table=where.tokens_table,
        endpoint=(endpoint or where.sharing_endpoint).rstrip("/"),
        deployed=not where.tables_are_told,
    )
