"""Options and warnings of the commands that share folders: volumes, skills and model versions."""

from typing import Annotated

import typer
from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table
from deltaic.errors import InvalidParameter, NotFound
from deltaic.storage.locations import Location as FolderLocation

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
_WHOLE_BUCKET = "Share all objects of a bucket: the location names no folder."
WholeBucket = Annotated[bool, typer.Option("--whole-bucket", help=_WHOLE_BUCKET)]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Do not check that your credentials can read the folder.")]


def read_folder(  # noqa: PLR0913 -- the folder, and which checks to skip
    cli: Operator, kind: str, name: str, location: tuple[str, str], *, unchecked: bool = False, bucket: bool = False
) -> tuple[dict[str, object], list[str]]:
    """Return attributes from the folder's SKILL.md or MLmodel, and warnings. SKILL.md is read even if `unchecked`.

    Raises DeltaicError for an empty folder, one that the operator's credentials cannot read, and unless `bucket` is set
    for a whole bucket.
    """
    from deltaic_ops.inspection.folder_contents import is_empty, skill_facts, version_facts

    if not bucket and not FolderLocation.parse(location[0]).prefix:
        raise InvalidParameter(
            f"{location[0]} is a whole bucket: name a folder, or share all of it with --whole-bucket"
        )
    if kind == "skill":
        return skill_facts(cli.schemas, name, *location)
    if unchecked:
        return {}, []
    if is_empty(cli.schemas, *location):
        raise NotFound(f"{location[0]} has no files. Correct --location or --storage, or skip this check: --unchecked")
    return version_facts(cli.schemas, *location) if kind == "model" else {}, []


def show_shared(cli: Operator, created: Folder, warnings: list[str]) -> None:
    """Print a folder that was just shared, with warnings."""
    done = f"shared '{created.title}': all files in {created.location}; next: deltaic grant create <recipient> "
    done += created.share
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
