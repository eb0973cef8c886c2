"""Errors for tables that Iceberg clients would misread, and for Iceberg tables that other clients would misread."""

from collections.abc import Sequence
from typing import Final

from deltaic.errors import UnsupportedOperation

_REMEDY: Final = "ask its provider to change it"


class TooManyFiles(UnsupportedOperation):
    """The table has more files without Iceberg metadata than the server has time or memory to add."""

    def __init__(self, files: int, maximum: int) -> None:
        super().__init__(
            f"the table has {files:,} files to add to its Iceberg metadata, and the maximum is {maximum:,}: ask its "
            "provider to compact it"
        )


def misread(reason: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the error for a table that Iceberg clients would misread."""
    return UnsupportedOperation(
        f"Iceberg clients cannot read this table: {reason}. Read the table with a Delta Sharing client, or {remedy}."
    )


def misread_column(path: Sequence[str], reason: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the error for a table that Iceberg clients would misread because of one column."""
    return misread(f"column '{'.'.join(path)}' {reason}", remedy)


def unshareable(reason: str, remedy: str, detail: str = "") -> UnsupportedOperation:
    """Return the error for an Iceberg table that Delta Sharing clients would misread; `detail` is only logged."""
    message = f"Delta Sharing clients cannot read this Iceberg table: {reason}. Ask its provider to {remedy}."
    return UnsupportedOperation(message, detail)
