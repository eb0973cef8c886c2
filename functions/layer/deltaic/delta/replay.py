"""Reconcile the actions of a Delta log: the newest `add` or `remove` of a logical file wins.

Delta protocol, "Action Reconciliation": a logical file is (path, deletion vector id). The few commits after the
checkpoint (the tail) are read newest first. A checkpoint is already reconciled, so its rows are only looked up in the
tail and never collected.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.actions import Add, Metadata, Protocol, Remove, text, to_text_map
from deltaic.delta.commits import FileActions, decode_lines, decode_metadata, decode_protocol
from deltaic.delta.logical_files import LogicalFile, Mentions, candidate_rows, canonical_path, drop_rows, vector_id
from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.errors import TableUnreadable

_NO_VECTOR: Final[tuple[str | None, ...]] = (None,)

_PER_NAME: Final = 300
_lines: Final = msgspec.json.Decoder(FileActions, strict=False)


class RemovedFile(NamedTuple):
    """Size and partition values of a removed file."""

    size: int
    """Size in bytes."""
    partition_values: Mapping[str, str | None]
    """Empty if the remove action does not contain them."""


Displaced = Mapping[LogicalFile, RemovedFile | None]
"""Logical files older than the tail that its commits remove or add again -> size and partition values; None: unknown.

If the first action of a file is a `remove`, the file existed before, provided that its writer follows the protocol. A
commit that adds a file without data changes or `remove` may only update the file's statistics; then the value is None.
"""


class Tail(msgspec.Struct, frozen=True):
    """Reconciled actions of the commits after the checkpoint; immutable, so threads can share a cached tail.

    `files` are the files that these commits add and do not remove, ordered by (path, deletion vector id), whether the
    commits are compacted or not.
    `protocol` and `metadata` are the newest in these commits, None if there are none.
    """

    mentioned: Mentions
    files: pa.RecordBatch
    protocol: Protocol | None
    metadata: Metadata | None
    names: pa.StringArray
    """Canonical paths of the files in `mentioned`."""
    last_parts: frozenset[str]
    """File names, after the last slash, of the files in `mentioned`."""
    displaced: Displaced
    nbytes: int
    """Estimated bytes in memory: exact for Arrow arrays, approximate for Python objects."""

    def select_unmentioned(self, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.BooleanArray | None:
        """Return a mask of the checkpoint rows that the tail neither adds nor removes; None if these are all rows.

        Rows with a null path are in the mask. `vectors` are the DELETION_VECTOR values of the rows, None if no row has
        a vector.
        """
        if not self.mentioned or not len(paths):
            return None
        rows = candidate_rows(paths, self.mentioned, self.names, self.last_parts)
        if not rows:
            return None
        candidate_paths = pc.take(paths, pa.array(rows)).to_pylist()
        ids: Sequence[str | None] = (None,) * len(rows)
        if vectors is not None:
            ids = [vector_id(vector) for vector in pc.take(vectors, pa.array(rows)).to_pylist()]
        mentioned_rows = [
            row
            for row, path, vector in zip(rows, candidate_paths, ids, strict=True)
            if path is not None and vector in self.mentioned.get(canonical_path(path), ())
        ]
        return drop_rows(len(paths), mentioned_rows) if mentioned_rows else None

    def advance(self, newer: "Tail") -> "Tail":
        """Combine this tail with `newer`, the tail of the commits that follow it."""
        mask = newer.select_unmentioned(self.files["path"], self.files["deletionVector"])
        files = self.files if mask is None else pc.filter(self.files, mask)
        mentioned = dict(self.mentioned)
        for path, ids in newer.mentioned.items():
            existing = mentioned.get(path)
            mentioned[path] = ids if existing is None or existing == ids else tuple(dict.fromkeys((*existing, *ids)))
        displaced = {
            file: size for file, size in newer.displaced.items() if file.vector not in self.mentioned.get(file.path, ())
        }
        return _make_tail(
            mentioned,
            sort_files([files, newer.files]),
            newer.protocol or self.protocol,
            newer.metadata or self.metadata,
            {**displaced, **self.displaced},
        )


def replay(commits: Iterable[tuple[str, bytes]]) -> Tail:
    """Reconcile the actions of commits, given newest first as (path, content); raises TableUnreadable if invalid."""
    mentioned: dict[str, tuple[str | None, ...]] = {}
    displaced: dict[LogicalFile, RemovedFile | None] = {}
    batches: list[pa.RecordBatch] = []
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for path, content in commits:
        # A compaction file has no order of lines, and some writers keep both an add and its remove.
        compacted = path.endswith(".compacted.json")
        last: dict[LogicalFile, Add | None] = {}
        first: dict[LogicalFile, Add | Remove] = {}
        newest_protocol: Protocol | None = None
        newest_metadata: Metadata | None = None
        for line in decode_lines(content, path, _lines):
            if (action := line.add or line.remove) is not None:
                vector = action.deletion_vector
                file = LogicalFile(canonical_path(action.path), vector.unique_id if vector else None)
                first.setdefault(file, action)
                if not (compacted and file in last and last[file] is None):
                    last[file] = line.add
            elif line.meta_data:
                newest_metadata = decode_metadata(line.meta_data, path) or newest_metadata
            elif line.protocol:
                newest_protocol = decode_protocol(line.protocol, path) or newest_protocol
        protocol = protocol or newest_protocol
        metadata = metadata or newest_metadata
        _displace(displaced, first, detailed=not compacted)
        live: list[Add] = []
        for (name, vector_name), add in last.items():
            existing = mentioned.get(name)
            if existing is None:
                mentioned[name] = _NO_VECTOR if vector_name is None else (vector_name,)
            elif vector_name in existing:
                continue
            else:
                mentioned[name] = (*existing, vector_name)
            if add is not None:
                live.append(add)
        if live:
            batches.append(to_file_batch(live, path))
    return _make_tail(mentioned, sort_files(batches), protocol, metadata, displaced)


def _displace(
    displaced: dict[LogicalFile, RemovedFile | None],
    first: Mapping[LogicalFile, Add | Remove],
    *,
    detailed: bool,
) -> None:
    """Extend `displaced` by the next older commit; `first` maps files to this commit's first action on them."""
    rewrites = any(isinstance(action, Remove) for action in first.values())
    for file, action in first.items():
        if isinstance(action, Remove):
            displaced[file] = _removed_file(action) if detailed else None
        elif detailed and (rewrites or action.data_change):
            displaced.pop(file, None)
        else:
            displaced[file] = None


def _removed_file(action: Remove) -> RemovedFile | None:
    return None if action.size is None else RemovedFile(action.size, to_text_map(action.partition_values or {}))


def _make_tail(
    mentions: Mentions,
    files: pa.RecordBatch,
    protocol: Protocol | None,
    metadata: Metadata | None,
    displaced: Displaced,
) -> Tail:
    names = pa.array(list(mentions), pa.string())
    last_parts = frozenset(path[path.rfind("/") + 1 :] for path in mentions)
    # Measured once, because each request adds the sizes of all cached snapshots.
    nbytes = int(files.get_total_buffer_size() + 3 * names.nbytes) + _PER_NAME * (len(mentions) + len(displaced))
    return Tail(mentions, files, protocol, metadata, names, last_parts, displaced, nbytes)


def sort_files(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of FILE_SCHEMA and sort them by path and deletion vector."""
    table = pa.Table.from_batches(batches, FILE_SCHEMA)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], FILE_SCHEMA)
    joined = table.combine_chunks().to_batches()[0]
    vector = joined["deletionVector"]
    keys = pa.RecordBatch.from_arrays(
        [joined["path"], pc.struct_field(vector, "pathOrInlineDv"), pc.struct_field(vector, "offset")], ["p", "v", "o"]
    )
    order = pc.sort_indices(keys, sort_keys=[("p", "ascending"), ("v", "ascending"), ("o", "ascending")])
    return pc.take(joined, order)


def to_file_batch(adds: Sequence[Add], path: str) -> pa.RecordBatch:
    """Convert `add` actions to a batch of FILE_SCHEMA; raises TableUnreadable with `path` for a number out of range."""
    vectors = [None if add.deletion_vector is None else add.deletion_vector.row for add in adds]
    columns = [
        [add.path for add in adds],
        [list(to_text_map(add.partition_values).items()) for add in adds],
        [add.size for add in adds],
        [add.modification_time for add in adds],
        [None if add.stats is None else text(add.stats) for add in adds],
        vectors,
        [add.base_row_id for add in adds],
        [add.default_row_commit_version for add in adds],
    ]
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, FILE_SCHEMA, strict=True)]
    except (OverflowError, ValueError, pa.ArrowException) as broken:
        message = f"the table's log cannot be read: {path} contains an invalid add action: {broken}"
        raise TableUnreadable(message, path) from broken
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
