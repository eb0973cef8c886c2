"""Convert Iceberg's deletes to deletion vectors of data files.

A deletion vector of v3 is a blob in a Puffin file, whose bytes are those of a Delta vector in its own file. Position
deletes of v2 are rows of Parquet files, which this module reads and encodes as inline vectors. A delete applies to
files that are not newer (Iceberg specification, "Scan Planning").
"""

import struct
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.deletion_vectors import DeletionVector, encode_z85
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable
from deltaic.iceberg.puffin import PORTABLE
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg_source.file_statistics import to_dict
from deltaic.iceberg_source.manifest_files import DeleteKey, SourceManifest, TablePaths, list_files, partition_key
from deltaic.iceberg_source.source_metadata import decoding
from deltaic.lru import Lru

_EQUALITY: Final = 2
_PATH_COLUMN: Final = 2147483546
_FRAME: Final = 8
"""Bytes of a blob besides the vector: length and CRC-32."""
_LIMIT: Final = 1 << 31
"""Sizes and offsets of vectors are 32-bit integers for Delta clients."""
_MOST_POSITIONS: Final = 20_000_000
"""Most deleted positions of a version: reading more would take minutes."""
_REMEDY: Final = "compact the table (rewrite_data_files with delete-file-threshold 1)"
_NO_RUNS: Final = 12346
_ARRAY_LIMIT: Final = 4096

Positions = dict[str, "array[int]"]
"""Deleted rows by data file. Arrays of this type raise OverflowError for row numbers that do not fit in 32 bits."""


class _Delete(NamedTuple):
    sequence_number: int
    path: str
    vector: DeletionVector | None
    """The vector in a Puffin file; None for a file of positions."""


class DeleteFiles(msgspec.Struct):
    """The live deletes of a snapshot; looks up the deletion vector of each data file."""

    store: TableStore
    paths: TablePaths
    cache: Lru[Hashable, Any]
    table: str
    """Key of the table in the cache."""
    deletes: dict[Hashable, list[_Delete]] = {}
    """Deletes of a data file (path as in a Delta log), and of a partition (spec id and values)."""
    positions: int = 0
    """Number of deleted rows in files of positions."""

    def __bool__(self) -> bool:
        """Return whether the snapshot has deletes."""
        return bool(self.deletes)

    def add(self, manifest: SourceManifest, content: bytes) -> None:
        """Add the live files of a delete manifest.

        Raises UnsupportedOperation for equality deletes, files that are not Parquet, and too many positions.
        """
        for file, sequence_number, _ in list_files(manifest, content):
            if file["content"] == _EQUALITY:
                raise unshareable("it has equality deletes", _REMEDY)
            path, form = self.paths.stored(file["file_path"]), file["file_format"].upper()
            vector = None
            if form == "PUFFIN":
                size = file["content_size_in_bytes"] - _FRAME
                if not (0 < size < _LIMIT and 0 <= file["content_offset"] < _LIMIT):
                    raise TableUnreadable("a deletion vector has no valid place: ask its provider to compact it", path)
                vector = DeletionVector("p", path, size, file["record_count"], file["content_offset"])
            else:
                self.positions += file["record_count"]
                if form != "PARQUET":
                    raise unshareable(f"it has position deletes in the format {form}", _REMEDY)
                if self.positions > _MOST_POSITIONS:
                    raise unshareable(f"it has more than {_MOST_POSITIONS:,} deleted rows", _REMEDY)
            key = self._data_file(file) or (manifest.spec_id, partition_key(file["partition"]))
            self.deletes.setdefault(key, []).append(_Delete(sequence_number, path, vector))

    def _data_file(self, file: dict[str, Any]) -> str:
        """Return the path of the only data file to which a delete file applies; empty if there can be several."""
        name: str | None = file.get("referenced_data_file")
        if name is None:
            low, high = (to_dict(file.get(f"{bound}_bounds")).get(_PATH_COLUMN) for bound in ("lower", "upper"))
            # Bounds can be truncated.
            name = low.decode() if low is not None and low == high and low.endswith(b".parquet") else ""
        return self.paths.logged(name) if name else ""

    def vectors(self, files: Sequence[str], keys: Sequence[DeleteKey], spec_id: int) -> list[dict[str, Any] | None]:
        """Return the deletion vector of each data file as a row of DELETION_VECTOR; None without deleted rows."""
        vectors: list[dict[str, Any] | None] = []
        for file, (sequence_number, partition) in zip(files, keys, strict=True):
            candidates = chain(self.deletes.get(file, ()), self.deletes.get((spec_id, partition), ()))
            applied = [delete for delete in candidates if delete.sequence_number >= sequence_number]
            vector = next((delete.vector for delete in applied if delete.vector), None)
            # A vector contains all earlier position deletes of its file.
            vector = vector or _inline_vector(chain(*(self._read(delete.path).get(file, ()) for delete in applied)))
            vectors.append(vector.row if vector else None)
        return vectors

    def _read(self, path: str) -> Positions:
        """Return the positions of deleted rows in a delete file, by data file."""
        key = ("positions", self.table, path)
        positions: Positions | None = self.cache.get(key)
        if positions is None:
            import pyarrow.parquet as pq

            by_uri: Positions = {}
            with decoding(path):
                file = pq.ParquetFile(pa.BufferReader(self.store.get(path)))
                for batch in file.iter_batches(columns=["file_path", "pos"]):
                    for name, position in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        by_uri.setdefault(name, array("I")).append(position)
                positions = {self.paths.logged(name): rows for name, rows in by_uri.items()}
            self.cache.put(key, positions, sum(300 + 4 * len(rows) for rows in positions.values()))
        return positions


def _inline_vector(positions: Iterable[int]) -> DeletionVector | None:
    """Return the vector of row positions in any order; None without positions."""
    lower_bits: defaultdict[int, array[int]] = defaultdict(lambda: array("H"))
    for position in positions:
        lower_bits[position >> 16].append(position & 0xFFFF)
    if not lower_bits:
        return None
    # A roaring bitmap of 32-bit numbers without run containers, one container at a time to save memory.
    heads, containers, cardinality = [], [], 0
    for high in sorted(lower_bits):
        numbers = sorted(set(lower_bits.pop(high)))
        heads.append(struct.pack("<HH", high, len(numbers) - 1))
        if len(numbers) <= _ARRAY_LIMIT:
            containers.append(array("H", numbers).tobytes())
        else:  # a bitmap, which has the layout of Arrow's
            every = pa.array(range(1 << 16), pa.uint16())
            is_deleted: Any = pc.is_in(every, pa.array(numbers, pa.uint16()))
            containers.append(is_deleted.buffers()[1].to_pybytes())
        cardinality += len(numbers)
    sizes = map(len, containers[:-1])
    offsets = [struct.pack("<I", offset) for offset in accumulate(sizes, initial=8 + 8 * len(heads))]
    # A map of 32-bit bitmaps by the upper half of positions (RoaringFormatSpec, extension for 64 bits).
    start = PORTABLE + struct.pack("<QIII", 1, 0, _NO_RUNS, len(heads))
    data = start + b"".join([*heads, *offsets, *containers])
    return DeletionVector("i", encode_z85(data), len(data), cardinality, None)
