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
    Within,
    look,
    overlaps,
    show_shared,
)
from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import ID, Column, Ids, Operator
from deltaic_ops.cli.words import asset_name, share_or_schema

_SHARE = "vaccine_share"
_SCHEMA = f"{_SHARE}.acme_vaccine_data"
_EXAMPLES = {"volume": f"{_SCHEMA}.scans", "skill": f"{_SCHEMA}.read-forms", "model": f"{_SCHEMA}.dosage"}
_NAMES = {kind: typer.Argument(metavar=f"SHARE.SCHEMA.{kind.upper()}") for kind in _EXAMPLES}

Skill = Annotated[str, _NAMES["skill"]]
Model = Annotated[str, _NAMES["model"]]
Version = Annotated[int, typer.Argument(metavar="VERSION", min=1)]

_FOLDER: list[Column] = fields(NAME="title", LOCATION="location", ACCESS="access_modes", STORAGE="storage")
_COMMENT: Column = ("COMMENT", lambda entry: entry.comment)

volume, skill, model, versions = Commands(), Commands(), Commands(), Commands()
model.add_typer(versions, name="version")


def _add_create(app: Commands, kind: str, help_: str) -> None:
    @app.command(help=help_, without="unchecked" if kind == "skill" else "")
    def create(  # noqa: PLR0913, PLR0917 -- what an entry holds
        out: Operator,
        name: Annotated[str, _NAMES[kind]],
        location: Location,
        access_mode: Modes = None,
        storage: Storage = "",
        comment: Comment = "",
        id_: Id = None,
        unchecked: Unchecked = False,
    ) -> None:
        where = asset_name(name, kind)
        facts, warnings = look(out, kind, where[2], (location, storage), unchecked=unchecked)
        made = _admin(out, kind).create(
            *where, location, access_modes=access_mode, storage=storage, comment=comment, asset_id=id_, facts=facts
        )
        show_shared(out, made, warnings)


def _add_list_and_show(app: Commands, kind: str, columns: Sequence[Column], shown: str) -> None:
    @app.command("list", help=_help(f"List the {kind}s of a share, or of one of its schemas.", f"{kind} list {_SHARE}"))
    def list_(out: Operator, name: Within, ids: Ids = False) -> None:
        share, schema = share_or_schema(out.admin, name)
        listed = _admin(out, kind).list(share, schema)
        out.rows(listed, [*columns, *([ID] if ids else [])], f"'{name}' has no {kind} yet")

    @app.command(help=_help(f"Show one {shown}.", f"{kind} show {_EXAMPLES[kind]}"))
    def show(out: Operator, name: Annotated[str, _NAMES[kind]]) -> None:
        out.show(_admin(out, kind).get(*asset_name(name, kind)))


def _add_update(app: Commands, kind: str, help_: str) -> None:
    @app.command(help=help_, without="unchecked" if kind == "skill" else "")
    def update(  # noqa: PLR0913, PLR0917 -- what an entry holds
        out: Operator,
        name: Annotated[str, _NAMES[kind]],
        location: NewLocation = None,
        access_mode: Modes = None,
        storage: NewStorage = None,
        comment: NewComment = None,
        unchecked: Unchecked = False,
    ) -> None:
        where, admin = asset_name(name, kind), _admin(out, kind)
        moved = location is not None or storage is not None
        facts: dict[str, object] = {}
        warnings: list[str] = []
        if moved:
            before = admin.get(*where)
            place = (location or before.location, before.storage if storage is None else storage)
            facts, warnings = look(out, kind, before.name, place, unchecked=unchecked)
        changed = admin.update(
            *where, location=location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
        )
        if moved:
            warnings += overlaps(out, changed)
        out.show(changed, f"changed {kind} '{changed.title}'", warnings)


def _add_delete(app: Commands, kind: str) -> None:
    help_ = _help(f"Stop sharing a {kind}; its files are not touched.", f"{kind} delete {_EXAMPLES[kind]}")

    @app.command(help=help_)
    def delete(out: Operator, name: Annotated[str, _NAMES[kind]]) -> None:
        gone = _admin(out, kind).delete(*asset_name(name, kind))
        out.show(gone, f"deleted {kind} '{gone.title}'")


def _help(text: str, *examples: str) -> str:
    return "\n".join([text, "", "\b", *(f"deltaic {example}" for example in examples)])


def _admin(out: Operator, kind: str) -> Any:
    return getattr(out.admin, f"{kind}s")


_add_create(
    volume,
    "volume",
    _help(
        "Share a folder of any files under a name. Recipients of the share can read all files in it.",
        f"volume create {_EXAMPLES['volume']} --location s3://bucket/scans",
        'volume create s.d.v --location s3://lake/v --access-mode url --comment "Paper forms"',
        "volume create s.d.v --location s3://lake/v --storage minio",
    ),
)
_add_create(
    skill,
    "skill",
    _help(
        "Share an agent skill (agentskills.io). Its description, license and metadata come from its SKILL.md.\n\n"
        "The skill, its folder and SKILL.md must have the same name.",
        f"skill create {_EXAMPLES['skill']} --location s3://bucket/skills/read-forms",
    ),
)


@model.command("create")
def create_model(out: Operator, name: Model, comment: Comment = "", id_: Id = None) -> None:
    r"""Create a model. Add versions with `deltaic model version add`.

    \b
    deltaic model create vaccine_share.acme_vaccine_data.dosage --comment "Doses by weight"
    """
    made = out.admin.models.create(*asset_name(name, "model"), comment=comment, asset_id=id_)
    out.show(made, f"made model '{made.title}'; next: deltaic model version add {made.title} 1 --location s3://...")


_add_list_and_show(volume, "volume", [*_FOLDER, _COMMENT], "volume's entry")
_add_list_and_show(skill, "skill", [*_FOLDER, ("DESCRIPTION", lambda one: one.description)], "skill's entry")
_add_list_and_show(model, "model", [_FOLDER[0], _COMMENT, ("MADE", lambda one: one.created_at)], "model")


_add_update(
    volume,
    "volume",
    _help(
        "Change the given options of a volume; its name and id stay.",
        "volume update s.d.v --location s3://other/place",
        "volume update s.d.v --access-mode url",
    ),
)
_add_update(
    skill,
    "skill",
    _help(
        "Change the given options of a skill. If it moves, its SKILL.md is read again.",
        "skill update s.d.read-forms --location s3://other/skills/read-forms",
    ),
)


@model.command("update")
def update_model(out: Operator, name: Model, comment: NewComment = None) -> None:
    r"""Change a model's comment; its name and id stay.

    \b
    deltaic model update vaccine_share.acme_vaccine_data.dosage --comment "Doses by weight and age"
    """
    changed = out.admin.models.update(*asset_name(name, "model"), comment=comment)
    out.show(changed, f"changed model '{changed.title}'")


@skill.command()
def refresh(out: Operator, name: Skill) -> None:
    r"""Read a skill's SKILL.md again and update its entry.

    \b
    deltaic skill refresh vaccine_share.acme_vaccine_data.read-forms
    """
    where = asset_name(name, "skill")
    before = out.admin.skills.get(*where)
    facts, warnings = look(out, "skill", before.name, (before.location, before.storage))
    changed = out.admin.skills.update(*where, facts=facts)
    out.show(changed, f"read skill '{changed.title}' again", warnings)


_add_delete(volume, "volume")
_add_delete(skill, "skill")


@model.command("delete")
def delete_model(
    out: Operator, name: Model, force: Annotated[bool, typer.Option("--force", help="Also its versions.")] = False
) -> None:
    r"""Stop sharing a model; its files are not touched.

    \b
    deltaic model delete vaccine_share.acme_vaccine_data.dosage --force
    """
    gone = out.admin.models.delete(*asset_name(name, "model"), force=force)
    out.show(gone, f"deleted model '{gone.title}'")


@versions.callback()
def _versions() -> None:
    r"""Versions of models: folders of files.

    \b
    deltaic model version add sales_share.ml.churn 3 --location s3://models/churn/3
    """


@versions.command()
def add(  # noqa: PLR0913, PLR0917 -- what an entry holds
    out: Operator,
    name: Model,
    version: Version,
    location: Location,
    access_mode: Modes = None,
    storage: Storage = "",
    comment: Comment = "",
    run_id: Annotated[str | None, typer.Option(help="MLflow run. [default: from MLmodel]")] = None,
    source: Annotated[str | None, typer.Option(help="Source of the files. [default: from MLmodel]")] = None,
    unchecked: Unchecked = False,
) -> None:
    r"""Add a version to a model: a folder of files. An MLmodel file of MLflow gives run and source.

    \b
    deltaic model version add vaccine_share.acme_vaccine_data.dosage 3 --location s3://bucket/mlflow/3/artifacts/model
    """
    where = asset_name(name, "model")
    facts, warnings = look(out, "model", where[2], (location, storage), unchecked=unchecked)
    facts |= {key: value for key, value in (("run_id", run_id), ("source", source)) if value is not None}
    made = out.admin.models.add_version(
        *where, version, location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
    )
    show_shared(out, made, warnings)


@versions.command("list")
def list_versions(out: Operator, name: Model) -> None:
    r"""List the versions of a model.

    \b
    deltaic model version list vaccine_share.acme_vaccine_data.dosage
    """
    columns = [("VERSION", lambda one: one.version), *_FOLDER[1:], _COMMENT, ("RUN", lambda one: one.run_id)]
    out.rows(out.admin.models.versions(*asset_name(name, "model")), columns, f"'{name}' has no version yet")


@versions.command("show")
def show_version(out: Operator, name: Model, version: Version) -> None:
    r"""Show one version's entry.

    \b
    deltaic model version show vaccine_share.acme_vaccine_data.dosage 3
    """
    out.show(out.admin.models.version(*asset_name(name, "model"), version))


@versions.command()
def remove(out: Operator, name: Model, version: Version) -> None:
    r"""Stop sharing a version; its files are not touched.

    \b
    deltaic model version remove vaccine_share.acme_vaccine_data.dosage 3
    """
    gone = out.admin.models.remove_version(*asset_name(name, "model"), version)
    out.show(gone, f"removed '{gone.title}'")
