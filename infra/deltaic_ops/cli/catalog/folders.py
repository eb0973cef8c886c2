"""Options and warnings of the commands that share folders: volumes, skills and model versions."""

from typing import Annotated

import typer
from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table

from deltaic_ops.cli.operator import Operator

_MODES = "url: signed URLs; dir: credentials for the folder. [default: both] Can be repeated."
_STORAGE = "The storage that the location is in (deltaic storage); AWS S3 if none is named."
_SHOWN = 5

Location = Annotated[str, typer.Option(metavar="S3-URI", help="The folder: s3://bucket/path.")]
NewLocation = Annotated[str | None, typer.Option(metavar="S3-URI", help="The new folder.")]
Modes = Annotated[list[str] | None, typer.Option("--access-mode", metavar="url|dir", help=_MODES)]
Storage = Annotated[str, typer.Option(metavar="NAME", help=_STORAGE)]
NewStorage = Annotated[str | None, typer.Option(metavar="NAME", help='The storage; "" for AWS S3.')]
Comment = Annotated[str, typer.Option(help="A text that recipients see.")]
NewComment = Annotated[str | None, typer.Option(help='The new comment; "" for none.')]
Id = Annotated[str | None, typer.Option("--id", metavar="UUID", help="The id it had elsewhere.")]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Do not look at the folder with your credentials.")]
Within = Annotated[str, typer.Argument(metavar="SHARE[.SCHEMA]")]


def look(
    out: Operator, kind: str, name: str, place: tuple[str, str], *, unchecked: bool = False
) -> tuple[dict[str, object], list[str]]:
    """Return attributes from the folder's SKILL.md or MLmodel, and warnings. SKILL.md is read even if `unchecked`.

    Raises DeltaicError if the folder cannot be listed or read with the operator's credentials.
    """
    from deltaic_ops.inspection.folder_contents import is_empty, skill_facts, version_facts

    if kind == "skill":
        return skill_facts(out.schemas, name, *place)
    if unchecked:
        return {}, []
    warnings = [f"nothing lies in {place[0]} yet"] if is_empty(out.schemas, *place) else []
    return version_facts(out.schemas, *place) if kind == "model" else {}, warnings


def show_shared(out: Operator, made: Folder, warnings: list[str]) -> None:
    """Show a folder that was just shared."""
    done = f"shared '{made.title}'; next: deltaic grant create <who> {made.share}"
    out.show(made, done, [*warnings, *overlaps(out, made)])


def overlaps(out: Operator, entry: Folder) -> list[str]:
    """Return a warning for each other entry that shares files of this folder."""
    from deltaic_ops.inspection.filter_checks import unknown_bucket

    others = out.admin.tables.overlaps.overlapping(entry)
    told = unknown_bucket(out.admin, entry.location)
    told += [f"{_kind(one)} '{one.title}' ({one.location}) shares some of the same files" for one in others[:_SHOWN]]
    return told if len(others) <= _SHOWN else [*told, f"and {len(others) - _SHOWN} others do"]


def _kind(entry: Entry) -> str:
    return "table" if isinstance(entry, Table) else entry.kind
