"""What the commands of volumes, skills and model versions have in common: options, and what is said of a new folder."""

from typing import Annotated

import typer
from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table

from deltaic_ops.cli.operator import Column, Operator

Location = Annotated[str, typer.Option(metavar="S3-URI", help="The folder: s3://bucket/path.")]
NewLocation = Annotated[str | None, typer.Option(metavar="S3-URI", help="The new folder.")]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--access-mode",
        metavar="url|dir",
        help="url: signed URLs; dir: credentials for the folder. Both, if neither is said. Can be repeated.",
    ),
]
Storage = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The storage that the location is in (deltaic storage); AWS S3 if none is named."
    ),
]
NewStorage = Annotated[str | None, typer.Option(metavar="NAME", help='The storage; "" for AWS S3.')]
Comment = Annotated[str, typer.Option(help="A text that recipients see.")]
NewComment = Annotated[str | None, typer.Option(help='The new comment; "" for none.')]
Id = Annotated[str | None, typer.Option("--id", metavar="UUID", help="The id it had elsewhere.")]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Do not look at the folder with your credentials.")]
Within = Annotated[str, typer.Argument(metavar="SHARE[.SCHEMA]")]

COLUMNS: list[Column] = [
    ("NAME", lambda entry: entry.title),
    ("LOCATION", lambda entry: entry.location),
    ("ACCESS", lambda entry: entry.access_modes),
    ("STORAGE", lambda entry: entry.storage),
    ("COMMENT", lambda entry: entry.comment),
]
_SHOWN = 5


def look(out: Operator, location: str, storage: str, *, unchecked: bool) -> list[str]:
    """Return what to know of a folder before it is shared: that it is empty.

    Raises why it cannot be listed with the operator's credentials, unless it is `unchecked`.
    """
    from deltaic_ops.inspection.folder_contents import is_empty

    if unchecked or not is_empty(out.schemas, location, storage):
        return []
    return [f"nothing lies in {location} yet"]


def overlaps(out: Operator, entry: Folder) -> list[str]:
    """Return what else is shared of the same files as a folder that was just shared."""
    from deltaic_ops.inspection.filter_checks import unknown_bucket

    others = out.admin.tables.overlaps.overlapping(entry)
    told = unknown_bucket(out.admin, entry.location)
    told += [f"{_kind(one)} '{one.title}' ({one.location}) shares some of the same files" for one in others[:_SHOWN]]
    return told if len(others) <= _SHOWN else [*told, f"and {len(others) - _SHOWN} others do"]


def shared(entry: Folder) -> str:
    """Return what is said when a folder is shared."""
    return f"shared '{entry.title}'; next: deltaic grant create <who> {entry.share}"


def _kind(entry: Entry) -> str:
    return "table" if isinstance(entry, Table) else entry.kind
