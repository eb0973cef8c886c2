"""The commands of `deltaic volume`."""

from typing import Annotated

import typer

from deltaic_ops.cli.catalog import folders
from deltaic_ops.cli.operator import ID, AsJson, Ids, operator
from deltaic_ops.cli.words import asset_name, share_or_schema

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.VOLUME")]


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what an entry holds
    ctx: typer.Context,
    name: Name,
    location: folders.Location,
    access_mode: folders.Modes = None,
    storage: folders.Storage = "",
    comment: folders.Comment = "",
    id_: folders.Id = None,
    unchecked: folders.Unchecked = False,
    as_json: AsJson = False,
) -> None:
    r"""Share a folder of any files under a name; whoever holds the share reads all that lies below it.

    \b
    deltaic volume create vaccine_share.acme_vaccine_data.scans --location s3://bucket/scans
    deltaic volume create s.d.v --location s3://lake/v --access-mode url --comment "Paper forms"
    deltaic volume create s.d.v --location s3://lake/v --storage minio
    """
    share, schema, volume = asset_name(name, "volume")
    out = operator(ctx, as_json)
    warnings = folders.look(out, location, storage, unchecked=unchecked)
    made = out.admin.volumes.create(
        share, schema, volume, location, access_modes=access_mode, storage=storage, comment=comment, asset_id=id_,
    )  # fmt: skip
    out.show(made, folders.shared(made), [*warnings, *folders.overlaps(out, made)])


@app.command("list")
def list_(ctx: typer.Context, name: folders.Within, ids: Ids = False, as_json: AsJson = False) -> None:
    r"""List the volumes of a share, or of one of its schemas.

    \b
    deltaic volume list vaccine_share
    """
    out = operator(ctx, as_json)
    share, schema = share_or_schema(out.admin, name)
    out.rows(
        out.admin.volumes.list(share, schema), [*folders.COLUMNS, *([ID] if ids else [])], f"'{name}' has no volume yet"
    )


@app.command()
def show(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Show one volume's entry.

    \b
    deltaic volume show vaccine_share.acme_vaccine_data.scans
    """
    out = operator(ctx, as_json)
    out.show(out.admin.volumes.get(*asset_name(name, "volume")))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what an entry holds
    ctx: typer.Context,
    name: Name,
    location: folders.NewLocation = None,
    access_mode: folders.Modes = None,
    storage: folders.NewStorage = None,
    comment: folders.NewComment = None,
    unchecked: folders.Unchecked = False,
    as_json: AsJson = False,
) -> None:
    r"""Change what is given and keep the rest; a volume's name and id stay.

    \b
    deltaic volume update s.d.v --location s3://other/place
    deltaic volume update s.d.v --access-mode url
    """
    where = asset_name(name, "volume")
    out = operator(ctx, as_json)
    moved = location is not None or storage is not None
    warnings: list[str] = []
    if moved:
        before = out.admin.volumes.get(*where)
        place = (location or before.location, before.storage if storage is None else storage)
        warnings = folders.look(out, *place, unchecked=unchecked)
    changed = out.admin.volumes.update(
        *where, location=location, access_modes=access_mode, storage=storage, comment=comment
    )
    if moved:
        warnings += folders.overlaps(out, changed)
    out.show(changed, f"changed volume '{changed.title}'", warnings)


@app.command()
def delete(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Stop sharing a volume; its files are not touched.

    \b
    deltaic volume delete vaccine_share.acme_vaccine_data.scans
    """
    out = operator(ctx, as_json)
    gone = out.admin.volumes.delete(*asset_name(name, "volume"))
    out.show(gone, f"deleted volume '{gone.title}'")
