"""The commands of `deltaic model`, and of its versions."""

from typing import Annotated

import typer

from deltaic_ops.cli.catalog import folders
from deltaic_ops.cli.operator import ID, AsJson, Ids, operator
from deltaic_ops.cli.words import asset_name, share_or_schema

app = typer.Typer(no_args_is_help=True, add_completion=False)
versions = typer.Typer(no_args_is_help=True, add_completion=False)
app.add_typer(versions, name="version")

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.MODEL")]
Version = Annotated[int, typer.Argument(metavar="VERSION", min=1)]


@versions.callback()
def _versions() -> None:
    r"""Versions of models: folders of files.

    \b
    deltaic model version add sales_share.ml.churn 3 --location s3://models/churn/3
    """


@app.command()
def create(
    ctx: typer.Context,
    name: Name,
    comment: folders.Comment = "",
    id_: folders.Id = None,
    as_json: AsJson = False,
) -> None:
    r"""Make a model, to which versions are added.

    \b
    deltaic model create vaccine_share.acme_vaccine_data.dosage --comment "Doses by weight"
    """
    out = operator(ctx, as_json)
    made = out.admin.models.create(*asset_name(name, "model"), comment=comment, asset_id=id_)
    out.show(made, f"made model '{made.title}'; next: deltaic model version add {made.title} 1 --location s3://...")


@app.command("list")
def list_(ctx: typer.Context, name: folders.Within, ids: Ids = False, as_json: AsJson = False) -> None:
    r"""List the models of a share, or of one of its schemas.

    \b
    deltaic model list vaccine_share
    """
    out = operator(ctx, as_json)
    share, schema = share_or_schema(out.admin, name)
    columns = [
        ("NAME", lambda model: model.title),
        ("COMMENT", lambda model: model.comment),
        ("MADE", lambda model: model.created_at),
        *([ID] if ids else []),
    ]
    out.rows(out.admin.models.list(share, schema), columns, f"'{name}' has no model yet")


@app.command()
def show(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Show one model.

    \b
    deltaic model show vaccine_share.acme_vaccine_data.dosage
    """
    out = operator(ctx, as_json)
    out.show(out.admin.models.get(*asset_name(name, "model")))


@app.command()
def update(ctx: typer.Context, name: Name, comment: folders.NewComment = None, as_json: AsJson = False) -> None:
    r"""Change a model's comment; its name and id stay.

    \b
    deltaic model update vaccine_share.acme_vaccine_data.dosage --comment "Doses by weight and age"
    """
    out = operator(ctx, as_json)
    changed = out.admin.models.update(*asset_name(name, "model"), comment=comment)
    out.show(changed, f"changed model '{changed.title}'")


@app.command()
def delete(
    ctx: typer.Context,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also its versions.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Stop sharing a model; its files are not touched.

    \b
    deltaic model delete vaccine_share.acme_vaccine_data.dosage --force
    """
    out = operator(ctx, as_json)
    gone = out.admin.models.delete(*asset_name(name, "model"), force=force)
    out.show(gone, f"deleted model '{gone.title}'")


@versions.command()
def add(  # noqa: PLR0913, PLR0917 -- what an entry holds
    ctx: typer.Context,
    name: Name,
    version: Version,
    location: folders.Location,
    access_mode: folders.Modes = None,
    storage: folders.Storage = "",
    comment: folders.Comment = "",
    run_id: Annotated[str | None, typer.Option(help="The run that made it; else what MLflow's file says.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it came from; else what MLflow's file says.")] = None,
    unchecked: folders.Unchecked = False,
    as_json: AsJson = False,
) -> None:
    r"""Add a version to a model: a folder of files. Where MLflow left its MLmodel, run and source are read from it.

    \b
    deltaic model version add vaccine_share.acme_vaccine_data.dosage 3 --location s3://bucket/mlflow/3/artifacts/model
    """
    from deltaic_ops.inspection.folder_contents import version_facts

    where = asset_name(name, "model")
    out = operator(ctx, as_json)
    warnings = folders.look(out, location, storage, unchecked=unchecked)
    facts = {} if unchecked else version_facts(out.schemas, location, storage)
    facts |= {key: value for key, value in (("run_id", run_id), ("source", source)) if value is not None}
    made = out.admin.models.add_version(
        *where, version, location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
    )
    out.show(made, folders.shared(made), [*warnings, *folders.overlaps(out, made)])


@versions.command("list")
def list_versions(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""List the versions of a model.

    \b
    deltaic model version list vaccine_share.acme_vaccine_data.dosage
    """
    out = operator(ctx, as_json)
    columns = [("VERSION", lambda entry: entry.version), *folders.COLUMNS[1:], ("RUN", lambda entry: entry.run_id)]
    out.rows(out.admin.models.versions(*asset_name(name, "model")), columns, f"'{name}' has no version yet")


@versions.command("show")
def show_version(ctx: typer.Context, name: Name, version: Version, as_json: AsJson = False) -> None:
    r"""Show one version's entry.

    \b
    deltaic model version show vaccine_share.acme_vaccine_data.dosage 3
    """
    out = operator(ctx, as_json)
    out.show(out.admin.models.version(*asset_name(name, "model"), version))


@versions.command()
def remove(ctx: typer.Context, name: Name, version: Version, as_json: AsJson = False) -> None:
    r"""Stop sharing a version; its files are not touched.

    \b
    deltaic model version remove vaccine_share.acme_vaccine_data.dosage 3
    """
    out = operator(ctx, as_json)
    gone = out.admin.models.remove_version(*asset_name(name, "model"), version)
    out.show(gone, f"removed '{gone.title}'")
