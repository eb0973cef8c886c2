"""The commands of `deltaic share`."""

from typing import Annotated

import typer

from deltaic_ops.cli.catalog.follow import follow
from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import ID, ID_HELP, Ids, Operator
from deltaic_ops.cli.recipients.holders import show_share
from deltaic_ops.cli.value_parsers import ShareName, pairs

app = Commands()

_PROPERTY, _REMOVE = "Set a property. Can be repeated.", "Remove a property. Can be repeated."
Property = Annotated[list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help=_PROPERTY)]
RemoveProperty = Annotated[list[str] | None, typer.Option("--remove-property", metavar="KEY", help=_REMOVE)]


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a share holds
    cli: Operator,
    name: ShareName,
    display_name: Annotated[str, typer.Option(metavar="TEXT", help="Display name, up to 255 characters.")] = "",
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Description, up to 65536 characters.")] = "",
    property_: Property = None,
    id_: Annotated[str | None, typer.Option("--id", metavar="UUID", help=ID_HELP)] = None,
) -> None:
    r"""Create a share.

    \b
    deltaic share create vaccine_share --comment "Trial results"
    deltaic share create vaccine_share --display-name "Vaccines" --property owner=lab
    """
    properties = pairs(property_)
    created = cli.admin.shares.create(
        name, display_name=display_name, comment=comment, properties=properties, share_id=id_
    )
    dotted = "its name contains a period: clients that split share.schema.table at periods cannot read it"
    done = f"created share '{created.name}'; next: deltaic schema create {created.name}.<schema>"
    cli.show(created, done, [dotted] if "." in created.name else [])


@app.command("list")
def list_(cli: Operator, ids: Ids = False) -> None:
    r"""List all shares.

    \b
    deltaic share list
    deltaic share list --json | jq -r '.[].name'
    """
    columns = [
        *fields(NAME="name", DISPLAY_NAME="display_name", COMMENT="comment", CREATED="created_at"),
        *([ID] if ids else []),
    ]
    cli.rows(cli.admin.shares.list(), columns, "no shares yet; next: deltaic share create <share>")


app.command("show")(show_share)
app.command("follow")(follow)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a share holds
    cli: Operator,
    name: ShareName,
    display_name: Annotated[str | None, typer.Option(metavar="TEXT", help='Display name; "" removes it.')] = None,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help='Description; "" removes it.')] = None,
    property_: Property = None,
    remove_property: RemoveProperty = None,
) -> None:
    r"""Change a share; options that you omit keep their values.

    \b
    deltaic share update vaccine_share --comment "Final results" --remove-property owner
    """
    properties, before = pairs(property_), cli.admin.shares.get(name)
    changed = cli.admin.shares.update(
        name,
        display_name=display_name,
        comment=comment,
        add_properties=properties,
        remove_properties=tuple(remove_property or ()),
    )
    cli.updated(f"share '{changed.name}'", before, changed)


@app.command()
def delete(
    cli: Operator,
    name: ShareName,
    force: Annotated[bool, typer.Option("--force", help="Delete its schemas and tables too.")] = False,
) -> None:
    r"""Delete a share and its grants; the data stays.

    \b
    deltaic share delete vaccine_share
    deltaic share delete vaccine_share --force
    """
    deleted = cli.admin.shares.delete(name, force=force)
    cli.show(deleted, f"deleted share '{deleted.name}'")
