"""What is said of a table that Iceberg clients would misread."""

from collections.abc import Sequence
from typing import Final

from deltaic.errors import UnsupportedOperation

_REMEDY: Final = "ask its provider for one without it"


def misread(why: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the refusal of a table."""
    return UnsupportedOperation(
        f"Iceberg clients cannot read this table: {why}. Read the table with a Delta Sharing client, or {remedy}."
    )


def misread_column(path: Sequence[str], why: str, remedy: str = _REMEDY) -> UnsupportedOperation:
    """Return the refusal of a table for one of its columns."""
    return misread(f"column '{'.'.join(path)}' {why}", remedy)
