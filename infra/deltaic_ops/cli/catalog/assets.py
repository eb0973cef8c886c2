"""The commands of `deltaic volume`, `deltaic skill` and `deltaic model`, with common subcommands defined once."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from deltaic_ops.cli.catalog.folders import (
    Comment,
    Id,
    Location,
    Modes,
    NewComment,
    NewLocation,
    NewStorage,
    Storage,
    Unchecked,
    WholeBucket,
    overlaps,
    read_folder,
    show_shared,
)
from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import ID, Column, Ids, Operator
from deltaic_ops.cli.value_parsers import ShareOrSchema, share_or_schema, table_name

_SHARE = "vaccine_share"
_SCHEMA = f"{_SHARE}.acme_vaccine_data"
_EXAMPLES = {"volume": f"{_SCHEMA}.scans", "skill": f"{_SCHEMA}.read-forms", "model": f"{_SCHEMA}.dosage"}
_NAMES = {
    kind: typer.Argument(metavar=f"SHARE.SCHEMA.{kind.upper()}", help=f"Full name of the {kind}.") for kind in _EXAMPLES
}

Skill = Annotated[str, _NAMES["skill"]]
Model = Annotated[str, _NAMES["model"]]
Version = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="Number of the version.")]

_FOLDER: list[Column] = fields(NAME="title", LOCATION="location", ACCESS="access_modes", STORAGE="storage")
_COMMENT: Column = ("COMMENT", lambda entry: entry.comment)

volume, skill, model, versions = Commands(), Commands(), Commands(), Commands()
model.add_typer(versions, name="version", help="Manage the versions of a model: folders of files.")


def _add_create(app: Commands, kind: str, help_: str) -> None:
    @app.command(help=help_, without="unchecked" if kind == "skill" else "")
    def create(  # noqa: PLR0913, PLR0917 -- what an entry holds
        cli: Operator,
        name: Annotated[str, _NAMES[kind]],
        location: Location,
        access_mode: Modes = None,
        storage: Storage = "",
        comment: Comment = "",
        id_: Id = None,
        unchecked: Unchecked = False,
        whole_bucket: WholeBucket = False,
    ) -> None:
        path = table_name(name, kind)
        facts, warnings = read_folder(cli, kind, path[2], (location, storage), unchecked=unchecked, bucket=whole_bucket)
        created = _admin(cli, kind).create(
            *path, location, access_modes=access_mode, storage=storage, comment=comment, asset_id=id_, facts=facts
        )
        show_shared(cli, created, warnings)


def _add_list_and_show(app: Commands, kind: str, columns: Sequence[Column]) -> None:
    @app.command("list", help=_help(f"List the {kind}s of a share or schema.", f"{kind} list {_SHARE}"))
    def list_(cli: Operator, name: ShareOrSchema, ids: Ids = False) -> None:
        share, schema = share_or_schema(cli.admin, name)
        entries = _admin(cli, kind).list(share, schema)
        cli.rows(entries, [*columns, *([ID] if ids else [])], f"'{name}' has no {kind}s yet")

    @app.command(help=_help(f"Show a {kind}.", f"{kind} show {_EXAMPLES[kind]}"))
    def show(cli: Operator, name: Annotated[str, _NAMES[kind]]) -> None:
        cli.show(_admin(cli, kind).get(*table_name(name, kind)))


def _add_update(app: Commands, kind: str, help_: str) -> None:
    @app.command(help=help_, without="unchecked" if kind == "skill" else "")
    def update(  # noqa: PLR0913, PLR0917 -- what an entry holds
        cli: Operator,
        name: Annotated[str, _NAMES[kind]],
        location: NewLocation = None,
        access_mode: Modes = None,
        storage: NewStorage = None,
        comment: NewComment = None,
        unchecked: Unchecked = False,
        whole_bucket: WholeBucket = False,
    ) -> None:
        path, admin = table_name(name, kind), _admin(cli, kind)
        before, moved = admin.get(*path), location is not None or storage is not None
        facts: dict[str, object] = {}
        warnings: list[str] = []
        if moved:
            folder = (location or before.location, before.storage if storage is None else storage)
            facts, warnings = read_folder(cli, kind, before.name, folder, unchecked=unchecked, bucket=whole_bucket)
        changed = admin.update(
            *path, location=location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
        )
        if moved:
            warnings += overlaps(cli, changed)
        cli.updated(f"{kind} '{changed.title}'", before, changed, warnings)


def _add_delete(app: Commands, kind: str) -> None:
    help_ = _help(f"Stop sharing a {kind}; its files stay.", f"{kind} delete {_EXAMPLES[kind]}")

    @app.command(help=help_)
    def delete(cli: Operator, name: Annotated[str, _NAMES[kind]]) -> None:
        deleted = _admin(cli, kind).delete(*table_name(name, kind))
        cli.show(deleted, f"deleted {kind} '{deleted.title}'")


def _help(text: str, *examples: str) -> str:
    return "\n".join([text, "", "\b", *(f"deltaic {example}" for example in examples)])


def _admin(cli: Operator, kind: str) -> Any:
    return getattr(cli.admin, f"{kind}s")


_add_create(
    volume,
    "volume",
    _help(
        "Share a folder of files. Recipients of the share can read all files in it.",
        f"volume create {_EXAMPLES['volume']} --location s3://bucket/scans",
        'volume create s.d.v --location s3://lake/v --access-mode url --comment "Forms"',
        "volume create s.d.v --location s3://lake/v --storage minio",
    ),
)
_add_create(
    skill,
    "skill",
    _help(
        "Share an agent skill (agentskills.io). Its description, license and metadata come from its SKILL.md.\n\n"
        "The skill, its folder and SKILL.md must have the same name.",
        f"skill create {_EXAMPLES['skill']} --location s3://bucket/read-forms",
    ),
)


@model.command("create")
def create_model(cli: Operator, name: Model, comment: Comment = "", id_: Id = None) -> None:
    r"""Create a model. Add versions with `deltaic model version add`.

    \b
    deltaic model create vaccine_share.acme.dosage --comment "Doses by weight"
    """
    created = cli.admin.models.create(*table_name(name, "model"), comment=comment, asset_id=id_)
    title = created.title
    cli.show(created, f"created model '{title}'; next: deltaic model version add {title} 1 --location s3://...")


_add_list_and_show(volume, "volume", [*_FOLDER, _COMMENT])
_add_list_and_show(skill, "skill", [*_FOLDER, ("DESCRIPTION", lambda entry: entry.description)])
_add_list_and_show(model, "model", [_FOLDER[0], _COMMENT, ("CREATED", lambda entry: entry.created_at)])


_add_update(
    volume,
    "volume",
    _help(
        "Change a volume; options that you omit keep their values.",
        "volume update s.d.v --location s3://other/place",
        "volume update s.d.v --access-mode url",
    ),
)
_add_update(
    skill,
    "skill",
    _help(
        "Change a skill; options that you omit keep their values.\n\n"
        "With a new location, description, license and metadata are read from its SKILL.md again.",
        "skill update s.d.read-forms --location s3://other/skills/read-forms",
    ),
)


@model.command("update")
def update_model(cli: Operator, name: Model, comment: NewComment = None) -> None:
    r"""Change the comment of a model.

    \b
    deltaic model update vaccine_share.acme.dosage --comment "Doses by weight and age"
    """
    path = table_name(name, "model")
    before = cli.admin.models.get(*path)
    changed = cli.admin.models.update(*path, comment=comment)
    cli.updated(f"model '{changed.title}'", before, changed)


@skill.command()
def refresh(cli: Operator, name: Skill) -> None:
    r"""Update the description and metadata of a skill from its SKILL.md.

    \b
    deltaic skill refresh vaccine_share.acme_vaccine_data.read-forms
    """
    path = table_name(name, "skill")
    before = cli.admin.skills.get(*path)
    facts, warnings = read_folder(cli, "skill", before.name, (before.location, before.storage), bucket=True)
    changed = cli.admin.skills.update(*path, facts=facts)
    cli.updated(f"skill '{changed.title}'", before, changed, warnings)


_add_delete(volume, "volume")
_add_delete(skill, "skill")


@model.command("delete")
def delete_model(
    cli: Operator, name: Model, force: Annotated[bool, typer.Option("--force", help="Delete its versions too.")] = False
) -> None:
    r"""Stop sharing a model; its files stay.

    \b
    deltaic model delete vaccine_share.acme_vaccine_data.dosage --force
    """
    deleted = cli.admin.models.delete(*table_name(name, "model"), force=force)
    cli.show(deleted, f"deleted model '{deleted.title}'")


@versions.command()
def add(  # noqa: PLR0913, PLR0917 -- what an entry holds
    cli: Operator,
    name: Model,
    version: Version,
    location: Location,
    access_mode: Modes = None,
    storage: Storage = "",
    comment: Comment = "",
    run_id: Annotated[str | None, typer.Option(metavar="ID", help="MLflow run id. [default: from MLmodel]")] = None,
    source: Annotated[str | None, typer.Option(metavar="TEXT", help="Model source. [default: from MLmodel]")] = None,
    unchecked: Unchecked = False,
    whole_bucket: WholeBucket = False,
) -> None:
    r"""Add a version to a model. Run and source come from the folder's MLmodel file, if it has one.

    \b
    deltaic model version add vaccine_share.acme.dosage 3 --location s3://bucket/mlflow/3
    """
    path = table_name(name, "model")
    facts, warnings = read_folder(cli, "model", path[2], (location, storage), unchecked=unchecked, bucket=whole_bucket)
    facts |= {key: value for key, value in (("run_id", run_id), ("source", source)) if value is not None}
    created = cli.admin.models.add_version(
        *path, version, location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
    )
    show_shared(cli, created, warnings)


@versions.command("list")
def list_versions(cli: Operator, name: Model) -> None:
    r"""List the versions of a model.

    \b
    deltaic model version list vaccine_share.acme_vaccine_data.dosage
    """
    columns = [("VERSION", lambda entry: entry.version), *_FOLDER[1:], _COMMENT, ("RUN", lambda entry: entry.run_id)]
    cli.rows(cli.admin.models.versions(*table_name(name, "model")), columns, f"model '{name}' has no versions yet")


@versions.command("show")
def show_version(cli: Operator, name: Model, version: Version) -> None:
    r"""Show a version of a model.

    \b
    deltaic model version show vaccine_share.acme_vaccine_data.dosage 3
    """
    cli.show(cli.admin.models.version(*table_name(name, "model"), version))


@versions.command()
def remove(cli: Operator, name: Model, version: Version) -> None:
    r"""Stop sharing a version of a model; its files stay.

    \b
    deltaic model version remove vaccine_share.acme_vaccine_data.dosage 3
    """
    deleted = cli.admin.models.remove_version(*table_name(name, "model"), version)
    cli.show(deleted, f"removed version '{deleted.title}'")
