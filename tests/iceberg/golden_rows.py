"""The golden tables that Iceberg clients can read, and the comparison of their rows."""

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
"""First version that can be listed with the last one: it enables column mapping, which changes the ids of names."""
PADDED: Final = {"char_varchar": "c"}
"""CHAR columns, which Spark pads when it reads Delta tables."""
READ: Final = sorted({*names()} - REFUSED.keys())


def sorted_rows(rows: pa.Table, columns: Sequence[str], padded: str | None) -> list[str]:
    """Return rows as texts, in a defined order."""
    rows = rows.select(list(columns))
    if padded is not None:
        position = rows.column_names.index(padded)
        rows = rows.set_column(position, padded, pc.utf8_rtrim(rows[padded], " "))
    values: list[dict[str, Any]] = rows.to_pylist()
    return sorted(repr(row) for row in values)
