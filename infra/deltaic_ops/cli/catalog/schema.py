"""The commands of `deltaic schema`."""

from typing import Annotated

import typer

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.value_parsers import ShareName, schema_name

app = Commands()

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA", help="Full name of the schema.")]
_NOTE = "Note for operators. Recipients do not see it."


@app.command()
def create(
    cli: Operator,
    name: Name,
    comment: Annotated[str, typer.Option(metavar="TEXT", help=_NOTE)] = "",
) -> None:
    r"""Create a schema in a share.

    \b
    deltaic schema create vaccine_share.acme_vaccine_data
    """
    share, schema = schema_name(name)
    created = cli.admin.schemas.create(share, schema, comment=comment)
    title = f"{created.share}.{created.name}"
    cli.show(created, f"created schema '{title}'; next: deltaic table create {title}.<table> --location s3://...")


@app.command("list")
def list_(cli: Operator, share: ShareName) -> None:
    r"""List the schemas of a share.

    \b
    deltaic schema list vaccine_share
    """
    columns = fields(SHARE="share", NAME="name", COMMENT="comment", CREATED="created_at")
    cli.rows(cli.admin.schemas.list(share), columns, f"share '{share}' has no schemas yet")


@app.command()
def show(cli: Operator, name: Name) -> None:
    r"""Show a schema.

    \b
    deltaic schema show vaccine_share.acme_vaccine_data
    """
    share, schema = schema_name(name)
    cli.show(cli.admin.schemas.get(share, schema))


@app.command()
def update(
    cli: Operator,
    name: Name,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help=f'{_NOTE} "" removes it.')] = None,
) -> None:
    r"""Change the comment of a schema.

    \b
    deltaic schema update vaccine_share.acme_vaccine_data --comment "phase 3"
    """
    share, schema = schema_name(name)
    before = cli.admin.schemas.get(share, schema)
    changed = cli.admin.schemas.update(share, schema, comment=comment)
    cli.updated(f"schema '{changed.share}.{changed.name}'", before, changed)


@app.command()
def delete(
    cli: Operator,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Delete its tables, views and other entries too.")] = False,
) -> None:
    r"""Delete a schema; the data stays.

    \b
    deltaic schema delete vaccine_share.acme_vaccine_data
    deltaic schema delete vaccine_share.acme_vaccine_data --force
    """
    share, schema = schema_name(name)
    deleted = cli.admin.schemas.delete(share, schema, force=force)
    cli.show(deleted, f"deleted schema '{deleted.share}.{deleted.name}'")
