"""Decides which actions survive: the newest mention of a logical file wins, be it an add or a remove.

Delta protocol, "Action Reconciliation": a logical file is (path, deletion vector id). Commits after the checkpoint
(the tail) are few and are read newest first; a checkpoint is reconciled already, so its rows are only looked up in
the tail and never collected.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.actions import Add, Metadata, Protocol, Remove, text, text_map
from deltaic.delta.commits import FileActions, lines_of, metadata_in, protocol_in
from deltaic.delta.logical_files import LogicalFile, Seen, candidates, canonical_path, drop_rows, vector_id
from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.errors import TableUnreadable

_NO_VECTOR: Final[tuple[str | None, ...]] = (None,)

_PER_NAME: Final = 300
_lines: Final = msgspec.json.Decoder(FileActions, strict=False)


class Gone(NamedTuple):
    """What a remove tells of a file."""

    size: int
    """Bytes."""
    partition_values: Mapping[str, str | None]
    """Empty where it does not tell them."""


Displaced = Mapping[LogicalFile, Gone | None]
"""Logical files that the tail mentions and that are not new in it; None where the log does not tell their bytes.

A file whose first mention removes it was there before, if its writer kept to the protocol. A file that is added by a
commit that neither changes data nor removes may have been there, with other statistics: nothing is told of it.
"""


class Tail(msgspec.Struct, frozen=True):
    """What the commits after the checkpoint say; immutable, so that a cached one can be shared and advanced.

    `files` holds the live adds ordered by (path, deletion vector id), which is the same however the commits are
    stored. `protocol` and `metadata` are the newest of the tail, None where it has none.
    """

    seen: Seen
    files: pa.RecordBatch
    protocol: Protocol | None
    metadata: Metadata | None
    names: pa.StringArray
    """The paths of `seen`."""
    last_parts: frozenset[str]
    """What follows the last slash of each path of `seen`."""
    displaced: Displaced

    @property
    def nbytes(self) -> int:
        """Bytes in memory, estimated: Arrow's are known, Python's strings and tuples are about this much."""
        names = _PER_NAME * (len(self.seen) + len(self.displaced))
        return int(self.files.get_total_buffer_size() + 3 * self.names.nbytes) + names

    def unmentioned(self, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.BooleanArray | None:
        """Tell which rows of a checkpoint the tail does not mention; None when that is all of them.

        `paths` without nulls where it matters: a null path counts as not mentioned. `vectors` is the rows'
        DELETION_VECTOR, None when no row has one.
        """
        if not self.seen or not len(paths):
            return None
        rows = candidates(paths, self.seen, self.names, self.last_parts)
        if not rows:
            return None
        spelled = pc.take(paths, pa.array(rows)).to_pylist()
        ids: Sequence[str | None] = (None,) * len(rows)
        if vectors is not None:
            ids = [vector_id(vector) for vector in pc.take(vectors, pa.array(rows)).to_pylist()]
        dead = [
            row
            for row, path, vector in zip(rows, spelled, ids, strict=True)
            if path is not None and vector in self.seen.get(canonical_path(path), ())
        ]
        return drop_rows(len(paths), dead) if dead else None

    def advance(self, newer: "Tail") -> "Tail":
        """Return this tail followed by the commits of a newer one."""
        mask = newer.unmentioned(self.files["path"], self.files["deletionVector"])
        files = self.files if mask is None else pc.filter(self.files, mask)
        seen = dict(self.seen)
        for path, ids in newer.seen.items():
            had = seen.get(path)
            seen[path] = ids if had is None or had == ids else tuple(dict.fromkeys((*had, *ids)))
        displaced = {
            file: size for file, size in newer.displaced.items() if file.vector not in self.seen.get(file.path, ())
        }
        return _tail(
            seen,
            in_order([files, newer.files]),
            newer.protocol or self.protocol,
            newer.metadata or self.metadata,
            {**displaced, **self.displaced},
        )


def replay(commits: Iterable[tuple[str, bytes]]) -> Tail:
    """Replay commits given newest first as (path, content); raises TableUnreadable for what cannot be read."""
    seen: dict[str, tuple[str | None, ...]] = {}
    displaced: dict[LogicalFile, Gone | None] = {}
    batches: list[pa.RecordBatch] = []
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for path, content in commits:
        # The order of lines means nothing in a compaction file; some writers leave an add beside its remove there.
        compacted = path.endswith(".compacted.json")
        last: dict[LogicalFile, Add | None] = {}
        first: dict[LogicalFile, Add | Remove] = {}
        newest_protocol: Protocol | None = None
        newest_metadata: Metadata | None = None
        for line in lines_of(content, path, _lines):
            if (action := line.add or line.remove) is not None:
                vector = action.deletion_vector
                file = LogicalFile(canonical_path(action.path), vector.unique_id if vector else None)
                first.setdefault(file, action)
                if not (compacted and file in last and last[file] is None):
                    last[file] = line.add
            elif line.meta_data:
                newest_metadata = metadata_in(line.meta_data, path) or newest_metadata
            elif line.protocol:
                newest_protocol = protocol_in(line.protocol, path) or newest_protocol
        protocol = protocol or newest_protocol
        metadata = metadata or newest_metadata
        _displace(displaced, first, detailed=not compacted)
        live: list[Add] = []
        for (name, vector_name), add in last.items():
            had = seen.get(name)
            if had is None:
                seen[name] = _NO_VECTOR if vector_name is None else (vector_name,)
            elif vector_name in had:
                continue
            else:
                seen[name] = (*had, vector_name)
            if add is not None:
                live.append(add)
        if live:
            batches.append(batch_of(live, path))
    return _tail(seen, in_order(batches), protocol, metadata, displaced)


def _displace(
    displaced: dict[LogicalFile, Gone | None],
    first: Mapping[LogicalFile, Add | Remove],
    *,
    detailed: bool,
) -> None:
    """Go one commit back: take in its first mentions, which are older than those known; see Displaced."""
    rewrites = any(isinstance(action, Remove) for action in first.values())
    for file, action in first.items():
        if isinstance(action, Remove):
            displaced[file] = _gone(action) if detailed else None
        elif detailed and (rewrites or action.data_change):
            displaced.pop(file, None)
        else:
            displaced[file] = None


def _gone(action: Remove) -> Gone | None:
    return None if action.size is None else Gone(action.size, text_map(action.partition_values or {}))


def _tail(
    seen: Seen, files: pa.RecordBatch, protocol: Protocol | None, metadata: Metadata | None, displaced: Displaced
) -> Tail:
    names = pa.array(list(seen), pa.string())
    last_parts = frozenset(path[path.rfind("/") + 1 :] for path in seen)
    return Tail(seen, files, protocol, metadata, names, last_parts, displaced)


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of FILE_SCHEMA and order them by path and deletion vector."""
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


def batch_of(adds: Sequence[Add], where: str) -> pa.RecordBatch:
    """Return adds as a batch of FILE_SCHEMA; raises TableUnreadable, naming `where` they stand, for what has no room.

    JSON knows no largest number, the log's columns do.
    """
    vectors = [None if add.deletion_vector is None else add.deletion_vector.row for add in adds]
    columns = [
        [add.path for add in adds],
        [list(text_map(add.partition_values).items()) for add in adds],
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
        message = f"the table's log cannot be read: {where} has a broken add: {broken}"
        raise TableUnreadable(message, where) from broken
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
