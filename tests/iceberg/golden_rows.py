"""Which golden tables Iceberg clients read, and their rows as these are compared."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from golden.library import names

REFUSED: Final = {
    "type_widening": "column 'i' was changed from integer to double",
    "variant": "column 'v' is of type variant",
    "variant_shredded": "column 'v' is of type variant",
}
FIRST_LISTED: Final = {"column_mapping_later": 2}
"""The first version that can be listed with the last one: column mapping begins with it, and names mean other ids."""
PADDED: Final = {"char_varchar": "c"}
"""A CHAR column, which Spark pads when it reads it through Delta."""
READ: Final = sorted({*names()} - REFUSED.keys())


def plain(rows: pa.Table, columns: Sequence[str], padded: str | None) -> list[str]:
    """Return rows in an order of their own."""
    rows = rows.select(list(columns))
    if padded is not None:
        at = rows.column_names.index(padded)
        rows = rows.set_column(at, padded, pc.utf8_rtrim(rows[padded], " "))
    found: list[dict[str, Any]] = rows.to_pylist()
    return sorted(repr(row) for row in found)
