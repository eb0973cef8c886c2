"""The commands of `deltaic schema`."""

from typing import Annotated

import typer

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.words import schema_name

app = Commands()

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA")]


@app.command()
def create(
    out: Operator,
    name: Name,
    comment: Annotated[str, typer.Option(help="A note for yourself; recipients do not see it.")] = "",
) -> None:
    r"""Make a schema in a share.

    \b
    deltaic schema create vaccine_share.acme_vaccine_data
    """
    share, schema = schema_name(name)
    made = out.admin.schemas.create(share, schema, comment=comment)
    out.show(
        made,
        f"made schema '{made.share}.{made.name}'; next: "
        f"deltaic table create {made.share}.{made.name}.<table> --location s3://...",
    )


@app.command("list")
def list_(out: Operator, share: Annotated[str, typer.Argument(metavar="SHARE")]) -> None:
    r"""List the schemas of a share.

    \b
    deltaic schema list vaccine_share
    """
    columns = fields(SHARE="share", NAME="name", COMMENT="comment", MADE="created_at")
    out.rows(out.admin.schemas.list(share), columns, f"'{share}' has no schema yet")


@app.command()
def show(out: Operator, name: Name) -> None:
    r"""Show one schema.

    \b
    deltaic schema show vaccine_share.acme_vaccine_data
    """
    share, schema = schema_name(name)
    out.show(out.admin.schemas.get(share, schema))


@app.command()
def update(
    out: Operator,
    name: Name,
    comment: Annotated[str | None, typer.Option(help='A new note; "" removes it.')] = None,
) -> None:
    r"""Change a schema's note; its name stays.

    \b
    deltaic schema update vaccine_share.acme_vaccine_data --comment "phase 3"
    """
    share, schema = schema_name(name)
    changed = out.admin.schemas.update(share, schema, comment=comment)
    out.show(changed, f"changed schema '{changed.share}.{changed.name}'")


@app.command()
def delete(
    out: Operator,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also what it holds.")] = False,
) -> None:
    r"""Delete a schema; no file is touched.

    \b
    deltaic schema delete vaccine_share.acme_vaccine_data
    deltaic schema delete vaccine_share.acme_vaccine_data --force
    """
    share, schema = schema_name(name)
    gone = out.admin.schemas.delete(share, schema, force=force)
    out.show(gone, f"deleted schema '{gone.share}.{gone.name}'")
