"""Options and warnings of the commands that share folders: volumes, skills and model versions."""

from typing import Annotated

import typer
from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table

from deltaic_ops.cli.operator import ID_HELP, Operator

_MODES = "url: signed URLs; dir: credentials for the folder. Can be repeated. [default: both]"
_STORAGE = "Storage of the location (see deltaic storage). [default: AWS S3]"
_LIMIT = 5

Location = Annotated[str, typer.Option(metavar="S3-URI", help="Folder: s3://bucket/path.")]
NewLocation = Annotated[str | None, typer.Option(metavar="S3-URI", help="New folder.")]
Modes = Annotated[list[str] | None, typer.Option("--access-mode", metavar="url|dir", help=_MODES)]
Storage = Annotated[str, typer.Option(metavar="NAME", help=_STORAGE)]
NewStorage = Annotated[str | None, typer.Option(metavar="NAME", help='New storage; "" for AWS S3.')]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="Description that recipients see.")]
NewComment = Annotated[str | None, typer.Option(metavar="TEXT", help='Description; "" removes it.')]
Id = Annotated[str | None, typer.Option("--id", metavar="UUID", help=ID_HELP)]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Do not check that your credentials can read the folder.")]


def read_folder(
    cli: Operator, kind: str, name: str, location: tuple[str, str], *, unchecked: bool = False
) -> tuple[dict[str, object], list[str]]:
    """Return attributes from the folder's SKILL.md or MLmodel, and warnings. SKILL.md is read even if `unchecked`.

    Raises DeltaicError if the folder cannot be listed or read with the operator's credentials.
    """
    from deltaic_ops.inspection.folder_contents import is_empty, skill_facts, version_facts

    if kind == "skill":
        return skill_facts(cli.schemas, name, *location)
    if unchecked:
        return {}, []
    warnings = [f"{location[0]} is empty"] if is_empty(cli.schemas, *location) else []
    return version_facts(cli.schemas, *location) if kind == "model" else {}, warnings


def show_shared(cli: Operator, created: Folder, warnings: list[str]) -> None:
    """Print a folder that was just shared, with warnings."""
    done = f"shared '{created.title}'; next: deltaic grant create <recipient> {created.share}"
    cli.show(created, done, [*warnings, *overlaps(cli, created)])


def overlaps(cli: Operator, entry: Folder) -> list[str]:
    """Return a warning for each other table or folder in the catalog that shares files of this folder."""
    from deltaic_ops.inspection.filter_checks import unknown_bucket

    overlapping = cli.admin.tables.overlaps.overlapping(entry)
    warnings = unknown_bucket(cli.admin, entry.location)
    warnings += [
        f"{_kind(item)} '{item.title}' ({item.location}) shares some of the same files" for item in overlapping[:_LIMIT]
    ]
    return warnings if len(overlapping) <= _LIMIT else [*warnings, f"and so do {len(overlapping) - _LIMIT} others"]


def _kind(entry: Entry) -> str:
    return "table" if isinstance(entry, Table) else entry.kind
