"""The commands of `deltaic skill`."""

from typing import Annotated

import typer

from deltaic_ops.cli.catalog import folders
from deltaic_ops.cli.operator import ID, AsJson, Ids, Operator, operator
from deltaic_ops.cli.words import asset_name, share_or_schema

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.SKILL")]


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what an entry holds
    ctx: typer.Context,
    name: Name,
    location: folders.Location,
    access_mode: folders.Modes = None,
    storage: folders.Storage = "",
    comment: folders.Comment = "",
    id_: folders.Id = None,
    as_json: AsJson = False,
) -> None:
    r"""Share an agent skill (agentskills.io). Description, license and the rest are taken from its SKILL.md.

    The skill, its folder and the name in SKILL.md are one name.

    \b
    deltaic skill create vaccine_share.acme_vaccine_data.read-forms --location s3://bucket/skills/read-forms
    """
    share, schema, skill = asset_name(name, "skill")
    out = operator(ctx, as_json)
    facts, warnings = _facts(out, skill, location, storage)
    made = out.admin.skills.create(
        share, schema, skill, location,
        access_modes=access_mode, storage=storage, comment=comment, asset_id=id_, facts=facts,
    )  # fmt: skip
    out.show(made, folders.shared(made), [*warnings, *folders.overlaps(out, made)])


@app.command("list")
def list_(ctx: typer.Context, name: folders.Within, ids: Ids = False, as_json: AsJson = False) -> None:
    r"""List the skills of a share, or of one of its schemas.

    \b
    deltaic skill list vaccine_share
    """
    out = operator(ctx, as_json)
    share, schema = share_or_schema(out.admin, name)
    columns = [*folders.COLUMNS[:-1], ("DESCRIPTION", lambda skill: skill.description), *([ID] if ids else [])]
    out.rows(out.admin.skills.list(share, schema), columns, f"'{name}' has no skill yet")


@app.command()
def show(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Show one skill's entry.

    \b
    deltaic skill show vaccine_share.acme_vaccine_data.read-forms
    """
    out = operator(ctx, as_json)
    out.show(out.admin.skills.get(*asset_name(name, "skill")))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what an entry holds
    ctx: typer.Context,
    name: Name,
    location: folders.NewLocation = None,
    access_mode: folders.Modes = None,
    storage: folders.NewStorage = None,
    comment: folders.NewComment = None,
    as_json: AsJson = False,
) -> None:
    r"""Change what is given and keep the rest. A skill that moves has its SKILL.md read again.

    \b
    deltaic skill update s.d.read-forms --location s3://other/skills/read-forms
    """
    where = asset_name(name, "skill")
    out = operator(ctx, as_json)
    before = out.admin.skills.get(*where)
    moved = location is not None or storage is not None
    place = (location or before.location, before.storage if storage is None else storage)
    facts, warnings = _facts(out, before.name, *place) if moved else ({}, [])
    changed = out.admin.skills.update(
        *where, location=location, access_modes=access_mode, storage=storage, comment=comment, facts=facts
    )
    if moved:
        warnings += folders.overlaps(out, changed)
    out.show(changed, f"changed skill '{changed.title}'", warnings)


@app.command()
def refresh(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Read a skill's SKILL.md again, and tell recipients what it says by now.

    \b
    deltaic skill refresh vaccine_share.acme_vaccine_data.read-forms
    """
    where = asset_name(name, "skill")
    out = operator(ctx, as_json)
    before = out.admin.skills.get(*where)
    facts, warnings = _facts(out, before.name, before.location, before.storage)
    changed = out.admin.skills.update(*where, facts=facts)
    out.show(changed, f"read skill '{changed.title}' again", warnings)


@app.command()
def delete(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    r"""Stop sharing a skill; its files are not touched.

    \b
    deltaic skill delete vaccine_share.acme_vaccine_data.read-forms
    """
    out = operator(ctx, as_json)
    gone = out.admin.skills.delete(*asset_name(name, "skill"))
    out.show(gone, f"deleted skill '{gone.title}'")


def _facts(out: Operator, name: str, location: str, storage: str) -> tuple[dict[str, object], list[str]]:
    from deltaic_ops.inspection.folder_contents import skill_facts

    return skill_facts(out.schemas, name, location, storage)
