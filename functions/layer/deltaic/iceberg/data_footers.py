"""Footers of data files: how many rows they have where the log does not say, and whether their columns are found.

Field ids in a Parquet file beat the name mapping, so that a file with ids of another writer's would be read as nulls,
without an error. Nor do all clients find a column whose name differs in case alone.
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
"""Files of one version whose rows are counted by their footers."""
_MOST_LOOKED_AT: Final = 32
"""Files of one version whose columns are looked at: all of a small commit; else one of each writer's kind of name."""
_AT_ONCE: Final = 16
_TAIL: Final = 64 << 10
_END: Final = 8
"""Bytes of the footer's length and the magic behind it."""
_RUNS: Final = re.compile(r"[0-9a-fA-F]{2,}|[0-9]+")
_FIELD_ID: Final = b"PARQUET:field_id"
_REMEDY: Final = "ask its provider to rewrite it"


class DataFile(NamedTuple):
    """A data file as the log names it."""

    path: str
    """Raw."""
    size: int


def check_countable(files: int) -> None:
    """Raise UnsupportedOperation where too many files of a version leave untold how many rows they have."""
    if files > MOST_COUNTED:
        raise misread(
            "the log does not tell how many rows its files have", "ask its provider to compute the table's statistics"
        )


def count_rows(store: TableStore, files: Sequence[DataFile]) -> list[int]:
    """Return how many rows files have."""
    return [int(reader.metadata.num_rows) for reader in _footers(store, files)]


def check_columns(store: TableStore, files: Sequence[DataFile], mapping: Sequence[Mapping[str, Any]]) -> None:
    """Raise UnsupportedOperation where some of the files have columns that clients would not find by a name mapping."""
    for reader in _footers(store, _sample(files)):
        _check_fields(reader.schema_arrow, mapping, ())


def columns_in_views(store: TableStore, files: Sequence[DataFile]) -> list[str]:
    """Return the columns that some of the files keep as views of strings or bytes, as their footers say.

    Raises TableUnreadable for a file that is gone or broken.
    """
    fields = (field for reader in _footers(store, _sample(files)) for field in reader.schema_arrow)
    return list(dict.fromkeys(field.name for field in fields if "_view" in str(field.type)))


def _sample(files: Sequence[DataFile]) -> list[DataFile]:
    if len(files) <= _MOST_LOOKED_AT:
        return list(files)
    kinds = {_RUNS.sub("0", one.path.rpartition("/")[2]): one for one in files}
    apart = files[:: -(-len(files) // _MOST_LOOKED_AT)]
    return list(dict.fromkeys([*kinds.values(), *apart]))[:_MOST_LOOKED_AT]


def _footers(store: TableStore, files: Sequence[DataFile]) -> Iterator[ParquetReader]:
    with ThreadPoolExecutor(min(len(files), _AT_ONCE) or 1, "footers") as readers:
        yield from readers.map(lambda one: _footer(store, one), files)


def _footer(store: TableStore, file: DataFile) -> ParquetReader:
    # The store takes absolute paths as they stand in the log, and others decoded.
    path = file.path if ":/" in file.path else unquote(file.path)
    reader = ParquetReader()
    try:
        tail, size = store.get_tail(path, _TAIL)
        length = int.from_bytes(tail[-_END:-4], "little") + _END
        if len(tail) < length <= size:
            tail, _ = store.get_tail(path, length)
        reader.open(pa.BufferReader(tail))
    except FileNotFoundError as missing:
        raise TableUnreadable("table files missing: a data file of this table is gone", path) from missing
    except (pa.ArrowException, OSError) as broken:
        raise TableUnreadable("a data file of this table is no Parquet file that can be read", path) from broken
    return reader


def _check_fields(fields: Sequence[Any], mapping: Sequence[Mapping[str, Any]], above: tuple[str, ...]) -> None:
    known = {name: one for one in mapping for name in one["names"]}
    lower = {name.lower(): name for name in known}
    present = {field.name for field in fields}
    for field in fields:
        path = (*above, field.name)
        one = known.get(field.name)
        if one is None:
            own = lower.get(field.name.lower())
            if own is not None and own not in present:
                raise misread_column(path, f"is '{own}' in the table, and not all clients find it so", _REMEDY)
            continue
        file_id = (field.metadata or {}).get(_FIELD_ID)
        if file_id is not None and int(file_id) != one["field-id"]:
            raise misread_column(path, "has a field id in the files that is not the table's", _REMEDY)
        if "fields" in one:
            _check_below(field.type, one["fields"], path)


def _check_below(kind: Any, mapping: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> None:
    if pa.types.is_struct(kind):
        _check_fields(list(kind), mapping, path)
    elif pa.types.is_map(kind):
        _check_parts([kind.key_field, kind.item_field], mapping, path)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _check_parts([kind.value_field], mapping, path)


def _check_parts(fields: Sequence[Any], mapping: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> None:
    """Check what clients find by its place: elements, keys and values, whatever their names."""
    for field, one in zip(fields, mapping, strict=True):
        renamed = field.with_name(one["names"][0])
        _check_fields([renamed], [one], path)
