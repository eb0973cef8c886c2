"""The command `deltaic doctor`: one line for each check, and a remedy for each failure."""

from typing import Annotated

import typer

from deltaic_ops.checks.doctor.examination import CheckContext, examine
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.value_parsers import table_name

_ENDPOINT = "Endpoint of the server. [default: the stack's endpoint]"


def doctor(
    cli: Operator,
    table: Annotated[str, typer.Option(metavar="SHARE.SCHEMA.TABLE", help="Read only this table.")] = "",
    endpoint: Annotated[str, typer.Option(metavar="URL", help=_ENDPOINT)] = "",
) -> None:
    r"""Check a stack and its catalog, and suggest fixes.

    The command checks the clock, the stack, its DynamoDB tables, the page-token key, roles, quotas, deployed code and
    buckets. With your credentials, it reads the log of each shared table, checks that filters match the table's
    columns, and looks for the folders of volumes, skills, models and Iceberg tables. Through the endpoint, it reads
    one table of each share with a temporary token. Apart from the temporary token, it changes nothing. Checks that
    your credentials do not allow are reported as such. The exit code is 1 if a check failed.

    \b
    deltaic --stack deltaic-prod doctor
    deltaic doctor --table sales_share.europe.orders
    deltaic doctor --json
    """
    only = table_name(table) if table else None
    cli.end(cli.findings(examine(check_context(cli, endpoint), only)))


def check_context(cli: Operator, endpoint: str) -> CheckContext:
    """Return the AWS clients and settings that the checks use, from the command's connection."""
    connection = cli.connection
    return CheckContext(
        client=connection.client,
        admin=cli.admin,
        schemas=cli.schemas,
        stack=connection.stack,
        catalog_table=connection.catalog_table,
        tokens_table=connection.tokens_table,
        endpoint=(endpoint or connection.sharing_endpoint).rstrip("/"),
        deployed=not connection.has_table_names,
    )
