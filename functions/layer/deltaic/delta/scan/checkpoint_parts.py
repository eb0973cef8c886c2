"""A part of a checkpoint, and what it tells as a whole: how many files it adds, their bytes, its few other actions.

A part is a Parquet file, or the adds that stand in a manifest in JSON. Which of its files are live is not its business.
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
    """A Parquet file that may hold add rows."""

    store: TableStore
    path: str
    size: int | None
    """Bytes, where the log tells."""
    identity: str
    """Names this very file, across requests."""
    footer_bytes: int = FOOTER
    """Bytes to ask for at first, from the end of the file."""
    summary: PartSummary | None = None
    """What the log tells of it."""
    _opened: ParquetFile | None = None

    @property
    def file(self) -> ParquetFile:
        """The file with its footer, opened when first asked for; TableUnreadable when it is missing or corrupt."""
        if self._opened is None:
            with reading(self.path):
                self._opened = ParquetFile(self.store, self.path, self.size, self.footer_bytes)
        return self._opened

    @property
    def has_deletion_vectors(self) -> bool:
        """Tell, by the summary or the footer, whether some row has a deletion vector; yes where neither says."""
        if self.summary is not None:
            return self.summary.num_deletion_vectors > 0
        return any(count != 0 for count in self.file.counts("add.deletionVector.storageType"))

    def groups_of_adds(self) -> list[int]:
        """Return the row groups that may hold adds, by the summary or the footer."""
        if self.summary is not None:
            return list(range(len(self.summary.row_groups)))
        return [group for group, count in enumerate(self.file.counts("add.path")) if count != 0]

    @property
    def num_adds(self) -> int | None:
        """How many rows are adds, by the summary or the footer; None where the footer does not say."""
        if self.summary is not None:
            return self.summary.num_adds
        counts = self.file.counts("add.path")
        return None if None in counts else sum(filter(None, counts))

    @cached_property
    def size_of_adds(self) -> int | None:
        """Bytes of all files that the part adds; None where the sizes stand in other rows than the footer counts."""
        if self.summary is not None:
            return self.summary.size_of_adds
        file, groups = self.file, list(range(self.file.footer.num_row_groups))
        leaves = file.leaves("add.size")
        total = rows = 0
        with reading(self.path):
            cursor = Cursor(file, file.fetch(file.ranges(groups, leaves)))
            for batch in (batch for group in groups if leaves for batch in cursor.batches(group, leaves)):
                sizes = pc.struct_field(batch.column("add"), ["size"])  # null where no file is added
                rows += len(sizes) - sizes.null_count
                total += pc.sum(sizes).as_py() or 0
        return total if rows == self.num_adds else None

    @property
    def held_bytes(self) -> int:
        """Bytes that stay in memory with this part."""
        return (self._opened.held_bytes if self._opened else 0) + (self.summary.nbytes if self.summary else 0)

    def actions(self, *kinds: str) -> dict[str, list[dict[str, Any]]]:
        """Return all actions of these kinds as plain values; only for kinds that are few."""
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
                                raise ValueError(f"{kind} is no struct")
                            actions[kind] += pc.drop_null(column).to_pylist()
        return actions


class LinesPart(msgspec.Struct, frozen=True, dict=True):
    """The adds that stand in a JSON manifest itself."""

    files: pa.RecordBatch

    @property
    def has_deletion_vectors(self) -> bool:
        """Tell whether some row has a deletion vector."""
        vectors = self.files["deletionVector"]
        return bool(vectors.null_count < len(vectors))

    @property
    def num_adds(self) -> int:
        """How many rows are adds."""
        return len(self.files)

    @cached_property
    def size_of_adds(self) -> int:
        """Bytes of all files that the part adds."""
        return int(pc.sum(self.files["size"]).as_py() or 0)

    @property
    def held_bytes(self) -> int:
        """Bytes that stay in memory with this part."""
        return int(self.files.get_total_buffer_size())


Part = ParquetPart | LinesPart


def bounded_groups(parts: Sequence[Part], wanted: FileFilter | None) -> list[list[int] | None]:
    """Return for each part the row groups that may hold adds that a filter keeps, by the summaries of all at once.

    None for a part that has no summary, and for all without a filter.
    """
    summaries = [part.summary if isinstance(part, ParquetPart) else None for part in parts]
    told = [summary.statistics for summary in summaries if summary is not None]
    if wanted is None or not told:
        return [None] * len(parts)
    keeps = iter(wanted.by_bounds(pa.concat_arrays(told)).to_pylist())
    return [
        None
        if summary is None
        else [group for group, keep in enumerate(islice(keeps, len(summary.row_groups))) if keep]
        for summary in summaries
    ]
