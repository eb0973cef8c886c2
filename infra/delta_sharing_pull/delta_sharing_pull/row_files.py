"""Rows as one file, which appears when it is whole: Parquet or CSV."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from delta_sharing_pull.csv_columns import check_types, text_batch, text_schema
from delta_sharing_pull.reading import TableRows

_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 1 << 20


def write_parquet(rows: TableRows, batches: Iterable[pa.RecordBatch], target: Path, told: dict[str, str]) -> int:
    """Write a Parquet file and return how many rows it has; `told` stands in its metadata."""
    count = 0
    with _fresh(target) as sink, pq.ParquetWriter(sink, pa.schema(list(rows.schema), told)) as writer:
        for group in _groups(batches):
            writer.write_table(pa.Table.from_batches(group, rows.schema))
            count += sum(map(len, group))
    return count


def write_csv(rows: TableRows, batches: Iterable[pa.RecordBatch], target: Path) -> int:
    """Write a CSV file with a line of headings and return how many rows it has.

    Raises UnsupportedOperation before anything is fetched for columns that CSV cannot hold.
    """
    check_types(rows.types)
    count, schema = 0, text_schema(rows.schema)
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with _fresh(target) as sink, pyarrow.csv.CSVWriter(sink, schema, write_options=options) as writer:
        for batch in batches:
            writer.write_batch(text_batch(batch, schema))
            count += len(batch)
    return count


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather small batches, so that many small files do not become as many row groups."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(each.nbytes for each in group) >= _GROUP_BYTES or sum(map(len, group)) >= _GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


@contextmanager
def _fresh(target: Path) -> Iterator[Any]:
    """Yield a file that takes the target's place at the end, and is gone if there is none."""
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with fresh.open("xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
