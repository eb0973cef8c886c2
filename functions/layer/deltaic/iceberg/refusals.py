"""What is said of a table that Iceberg clients would misread."""

from collections.abc import Sequence
from typing import Final

from deltaic.errors import UnsupportedOperation

_REMEDY: Final = "ask its provider for one without it"


class TooManyFiles(UnsupportedOperation):
    """More files would be listed anew than whoever makes the metadata has time or memory for."""

    def __init__(self, files: int, most: int) -> None:
        super().__init__(
            f"the table has {files:,} files to be listed anew, and metadata for Iceberg clients is made of {most:,} at "
            "most: its provider can compact it"
        )


def misread(why: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the refusal of a table."""
    return UnsupportedOperation(
        f"Iceberg clients cannot read this table: {why}. Read the table with a Delta Sharing client, or {remedy}."
    )


def misread_column(path: Sequence[str], why: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the refusal of a table for one of its columns."""
    return misread(f"column '{'.'.join(path)}' {why}", remedy)
