"""Parts of a checkpoint: number and size of their `add` actions, and access to rare actions.

A part is a Parquet file, or the `add` actions in a JSON manifest. Later commits can have removed files of a part.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import reading
from deltaic.delta.scan.add_rows import child
from deltaic.delta.scan.parquet_file import FOOTER, Cursor, ParquetFile
from deltaic.delta.scan.part_summary import PartSummary
from deltaic.delta.store import TableStore


class ParquetPart(msgspec.Struct, dict=True):
    """A Parquet file of a checkpoint that can contain `add` actions."""

    store: TableStore
    path: str
    size: int | None
    """Bytes of the file; None if the log does not state them."""
    identity: str
    """Key of this file in caches, the same for every request."""
    footer_bytes: int = FOOTER
    """Bytes to read first, from the end of the file."""
    summary: PartSummary | None = None
    """Summary of this file in the checkpoint's manifest, if any."""
    _file: ParquetFile | None = None

    @property
    def file(self) -> ParquetFile:
        """The file, opened by reading its footer; raises TableUnreadable if missing or corrupt."""
        if self._file is None:
            with reading(self.path):
                self._file = ParquetFile(self.store, self.path, self.size, self.footer_bytes)
        return self._file

    @property
    def has_deletion_vectors(self) -> bool:
        """Return whether an `add` has a deletion vector; true if unknown."""
        if self.summary is not None:
            return self.summary.num_deletion_vectors > 0
        return any(count != 0 for count in self.file.counts("add.deletionVector.storageType"))

    def groups_of_adds(self) -> list[int]:
        """Return the row groups that can contain `add` actions, by the summary or footer."""
        if self.summary is not None:
            return list(range(len(self.summary.row_groups)))
        return [group for group, count in enumerate(self.file.counts("add.path")) if count != 0]

    @property
    def num_adds(self) -> int | None:
        """Number of `add` actions; None if neither summary nor footer states it."""
        if self.summary is not None:
            return self.summary.num_adds
        counts = self.file.counts("add.path")
        return None if None in counts else sum(filter(None, counts))

    @cached_property
    def size_of_adds(self) -> int | None:
        """Total bytes of added files; None if some `add` actions seem to have no size."""
        if self.summary is not None:
            return self.summary.size_of_adds
        file, groups = self.file, list(range(self.file.footer.num_row_groups))
        leaves = file.leaves("add.size")
        total = rows = 0
        with reading(self.path):
            cursor = Cursor(file, file.fetch(file.ranges(groups, leaves)))
            for batch in (batch for group in groups if leaves for batch in cursor.batches(group, leaves)):
                sizes = pc.struct_field(batch.column("add"), ["size"])  # null in rows that are not adds
                rows += len(sizes) - sizes.null_count
                total += pc.sum(sizes).as_py() or 0
        return total if rows == self.num_adds else None

    @property
    def cached_bytes(self) -> int:
        """Return the number of bytes that this part keeps in memory."""
        return (self._file.cached_bytes if self._file else 0) + (self.summary.nbytes if self.summary else 0)

    def actions(self, *kinds: str) -> dict[str, list[dict[str, Any]]]:
        """Return all actions of these types as plain values; use it only for types with few actions."""
        actions: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        with reading(self.path):
            leaves = self.file.leaves(*kinds)
            groups = [
                group
                for group in range(self.file.footer.num_row_groups)
                if any(self.file.values(group, leaf) != 0 for leaf in leaves)
            ]
            if not groups:
                return actions
            cursor = Cursor(self.file, self.file.fetch(self.file.ranges(groups, leaves)))
            for group in groups:
                for batch in cursor.batches(group, leaves):
                    for kind in kinds:
                        column = child(batch, kind)
                        if column is not None and column.null_count < len(column):
                            if not pa.types.is_struct(column.type):
                                raise ValueError(f"{kind} is not a struct")
                            actions[kind] += pc.drop_null(column).to_pylist()
        return actions


class LinesPart(msgspec.Struct, frozen=True, dict=True):
    """The `add` actions in a checkpoint's JSON manifest."""

    files: pa.RecordBatch

    @property
    def has_deletion_vectors(self) -> bool:
        """Return whether an `add` has a deletion vector."""
        vectors = self.files["deletionVector"]
        return bool(vectors.null_count < len(vectors))

    @property
    def num_adds(self) -> int:
        """Number of `add` actions."""
        return len(self.files)

    @cached_property
    def size_of_adds(self) -> int:
        """Total bytes of the added files."""
        return int(pc.sum(self.files["size"]).as_py() or 0)

    @property
    def cached_bytes(self) -> int:
        """Return the number of bytes that this part keeps in memory."""
        return int(self.files.get_total_buffer_size())


Part = ParquetPart | LinesPart


def bounded_groups(parts: Sequence[Part], file_filter: FileFilter | None) -> list[list[int] | None]:
    """Return for each part the row groups that can contain files that a filter keeps, by the part's summary.

    The item is None for a part without a summary. Without a filter all items are None.
    """
    summaries = [part.summary if isinstance(part, ParquetPart) else None for part in parts]
    statistics = [summary.statistics for summary in summaries if summary is not None]
    if file_filter is None or not statistics:
        return [None] * len(parts)
    keeps = iter(file_filter.by_bounds(pa.concat_arrays(statistics)).to_pylist())
    return [
        None
        if summary is None
        else [group for group, keep in enumerate(islice(keeps, len(summary.row_groups))) if keep]
        for summary in summaries
    ]
