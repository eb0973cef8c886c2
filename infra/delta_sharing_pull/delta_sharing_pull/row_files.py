"""Write rows to a Parquet or CSV file that appears only when complete."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sharing_pull.csv_columns import check_types, csv_header, csv_lines
from delta_sharing_pull.table_rows import TableRows

_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 1 << 20


def write_parquet(rows: TableRows, batches: Iterable[pa.RecordBatch], target: Path, metadata: dict[str, str]) -> int:
    """Write batches of rows to a Parquet file with this file metadata, and return the number of rows."""
    count = 0
    with _replace_file(target) as sink, pq.ParquetWriter(sink, pa.schema(list(rows.schema), metadata)) as writer:
        for group in _groups(batches):
            writer.write_table(pa.Table.from_batches(group, rows.schema))
            count += sum(map(len, group))
    return count


def write_csv(
    rows: TableRows, batches: Iterable[pa.RecordBatch], target: Path, *, guard_formulas: bool
) -> tuple[int, int]:
    """Write batches of rows to a CSV file; return the number of rows, and of texts that look like formulas.

    Raises UnsupportedOperation if CSV cannot represent a column, before any download if its type is the reason.
    """
    check_types(rows.types)
    count = formulas = 0
    with _replace_file(target) as sink:
        sink.write(csv_header(rows.schema.names, guard_formulas=guard_formulas))
        for batch in batches:
            if len(batch):
                lines, found = csv_lines(batch, guard_formulas=guard_formulas)
                sink.write(lines)
                count, formulas = count + len(batch), formulas + found
    return count, formulas


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Combine small batches into larger ones, so that many small source files do not result in many row groups."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(item.nbytes for item in group) >= _GROUP_BYTES or sum(map(len, group)) >= _GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


@contextmanager
def _replace_file(target: Path) -> Iterator[Any]:
    """Yield a temporary file that replaces the target on success and is deleted on failure."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with temporary.open("xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
