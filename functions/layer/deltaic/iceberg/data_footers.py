"""Read footers of Parquet data files: count rows that the log does not record, and check columns.

Clients prefer field ids in a Parquet file to the name mapping. So if another writer's ids are in a file, they read
nulls without an error. Some clients also do not find a column whose name in the file differs in case.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow._parquet import ParquetReader

from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.iceberg.refusals import misread, misread_column

MOST_COUNTED: Final = 1_000
"""Maximum number of files in a version whose rows are counted by reading their footers."""
_MAX_SAMPLE: Final = 32
"""Maximum number of files whose columns are checked; if there are more, a sample of each file name pattern."""
_THREADS: Final = 16
_TAIL: Final = 64 << 10
_SUFFIX: Final = 8
"""Size of the last two parts of a Parquet file, in bytes: the footer's length and the magic bytes."""
_NUMBERS: Final = re.compile(r"[0-9a-fA-F]{2,}|[0-9]+")
_FIELD_ID: Final = b"PARQUET:field_id"
_REMEDY: Final = "ask its provider to rewrite it"


class DataFile(NamedTuple):
    """Path and size of a data file, from the log."""

    path: str
    """Path as in the log, where it may be percent-encoded."""
    size: int


def check_countable(files: int) -> None:
    """Raise UnsupportedOperation if too many files of a version have no row count in the log."""
    if files > MOST_COUNTED:
        raise misread(
            "its log does not record how many rows the files have", "ask its provider to compute the table's statistics"
        )


def count_rows(store: TableStore, files: Sequence[DataFile]) -> list[int]:
    """Return the row count of each file, from its footer."""
    return [int(reader.metadata.num_rows) for reader in _footers(store, files)]


def check_columns(store: TableStore, files: Sequence[DataFile], mapping: Sequence[Mapping[str, Any]]) -> None:
    """Raise UnsupportedOperation if clients would not find columns of these files by the table's name mapping."""
    for reader in _footers(store, _sample(files)):
        _check_fields(reader.schema_arrow, mapping, ())


def columns_in_views(store: TableStore, files: Sequence[DataFile]) -> list[str]:
    """Return the names of columns that these files' footers declare as Arrow view types (string_view, binary_view).

    Raises TableUnreadable for a missing or broken file.
    """
    fields = (field for reader in _footers(store, _sample(files)) for field in reader.schema_arrow)
    return list(dict.fromkeys(field.name for field in fields if "_view" in str(field.type)))


def _sample(files: Sequence[DataFile]) -> list[DataFile]:
    if len(files) <= _MAX_SAMPLE:
        return list(files)
    by_pattern = {_NUMBERS.sub("0", file.path.rpartition("/")[2]): file for file in files}
    spread = files[:: -(-len(files) // _MAX_SAMPLE)]
    return list(dict.fromkeys([*by_pattern.values(), *spread]))[:_MAX_SAMPLE]


def _footers(store: TableStore, files: Sequence[DataFile]) -> Iterator[ParquetReader]:
    with ThreadPoolExecutor(min(len(files), _THREADS) or 1, "footers") as readers:
        yield from readers.map(lambda file: _footer(store, file), files)


def _footer(store: TableStore, file: DataFile) -> ParquetReader:
    # The store expects absolute paths unchanged from the log, and relative ones decoded.
    path = file.path if ":/" in file.path else unquote(file.path)
    reader = ParquetReader()
    try:
        tail, size = store.get_tail(path, _TAIL)
        length = int.from_bytes(tail[-_SUFFIX:-4], "little") + _SUFFIX
        if len(tail) < length <= size:
            tail, _ = store.get_tail(path, length)
        reader.open(pa.BufferReader(tail))
    except FileNotFoundError as missing:
        raise TableUnreadable("table files missing: a data file of this table does not exist", path) from missing
    except (pa.ArrowException, OSError) as broken:
        raise TableUnreadable("a data file of this table is not a readable Parquet file", path) from broken
    return reader


def _check_fields(fields: Sequence[Any], mapping: Sequence[Mapping[str, Any]], parent: tuple[str, ...]) -> None:
    mapped_fields = {name: mapped_field for mapped_field in mapping for name in mapped_field["names"]}
    names_by_lowercase = {name.lower(): name for name in mapped_fields}
    present = {field.name for field in fields}
    for field in fields:
        path = (*parent, field.name)
        mapped_field = mapped_fields.get(field.name)
        if mapped_field is None:
            schema_name = names_by_lowercase.get(field.name.lower())
            if schema_name is not None and schema_name not in present:
                raise misread_column(
                    path, f"is '{schema_name}' in the table's schema, and some clients are case-sensitive", _REMEDY
                )
            continue
        file_id = (field.metadata or {}).get(_FIELD_ID)
        if file_id is not None and int(file_id) != mapped_field["field-id"]:
            raise misread_column(path, "has a field id in the files that differs from the table's", _REMEDY)
        if "fields" in mapped_field:
            _check_below(field.type, mapped_field["fields"], path)


def _check_below(kind: Any, mapping: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> None:
    if pa.types.is_struct(kind):
        _check_fields(list(kind), mapping, path)
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        # Clients match array elements, or map keys and values, by position instead of by name.
        parts = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else [kind.value_field]
        names = [mapped_field["names"][0] for mapped_field in mapping]
        _check_fields([part.with_name(name) for part, name in zip(parts, names, strict=True)], mapping, path)
