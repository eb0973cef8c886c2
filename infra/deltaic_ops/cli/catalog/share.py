"""The commands of `deltaic share`."""

from typing import Annotated

import typer

from deltaic_ops.cli.catalog.follow import follow
from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import ID, Ids, Operator
from deltaic_ops.cli.recipients.holders import show_share
from deltaic_ops.cli.words import ShareName, pairs

app = Commands()

Property = Annotated[list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Can be repeated.")]
RemoveProperty = Annotated[list[str] | None, typer.Option("--remove-property", metavar="KEY", help="Can be repeated.")]


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a share holds
    out: Operator,
    name: ShareName,
    display_name: Annotated[str, typer.Option(help="A name for people, up to 255 characters.")] = "",
    comment: Annotated[str, typer.Option(help="A description, up to 65536 characters.")] = "",
    property_: Property = None,
    id_: Annotated[str | None, typer.Option("--id", metavar="UUID", help="The id it had elsewhere.")] = None,
) -> None:
    r"""Make a share.

    \b
    deltaic share create vaccine_share --comment "Trial results"
    deltaic share create vaccine_share --display-name "Vaccines" --property owner=lab --property tier=gold
    """
    properties = pairs(property_)
    made = out.admin.shares.create(
        name, display_name=display_name, comment=comment, properties=properties, share_id=id_
    )
    dotted = "clients that take share.schema.table for a table cannot read it, by the period in its name"
    done = f"made share '{made.name}'; next: deltaic schema create {made.name}.<schema>"
    out.show(made, done, [dotted] if "." in made.name else [])


@app.command("list")
def list_(out: Operator, ids: Ids = False) -> None:
    r"""List all shares.

    \b
    deltaic share list
    deltaic share list --json | jq -r '.[].name'
    """
    columns = [
        *fields(NAME="name", DISPLAY_NAME="display_name", COMMENT="comment", MADE="created_at"),
        *([ID] if ids else []),
    ]
    out.rows(out.admin.shares.list(), columns, "there is no share yet: deltaic share create <share>")


app.command("show")(show_share)
app.command("follow")(follow)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a share holds
    out: Operator,
    name: ShareName,
    display_name: Annotated[str | None, typer.Option(help='A new name for people; "" removes it.')] = None,
    comment: Annotated[str | None, typer.Option(help='A new description; "" removes it.')] = None,
    property_: Property = None,
    remove_property: RemoveProperty = None,
) -> None:
    r"""Change what is given and keep the rest; a share's name and id stay.

    \b
    deltaic share update vaccine_share --comment "Final results" --property tier=silver --remove-property owner
    """
    properties = pairs(property_)
    changed = out.admin.shares.update(
        name,
        display_name=display_name,
        comment=comment,
        add_properties=properties,
        remove_properties=tuple(remove_property or ()),
    )
    out.show(changed, f"changed share '{changed.name}'")


@app.command()
def delete(
    out: Operator,
    name: ShareName,
    force: Annotated[bool, typer.Option("--force", help="Also its schemas and tables.")] = False,
) -> None:
    r"""Delete a share and its grants; the Delta tables themselves are not touched.

    \b
    deltaic share delete vaccine_share
    deltaic share delete vaccine_share --force
    """
    gone = out.admin.shares.delete(name, force=force)
    out.show(gone, f"deleted share '{gone.name}'")
