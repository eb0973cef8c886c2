"""Decides which actions survive: the newest mention of a logical file wins, be it an add or a remove.

Delta protocol, "Action Reconciliation": a logical file is (path, deletion vector id). Commits after the checkpoint
(the tail) are few and are read newest first; a checkpoint is reconciled already, so its rows are only looked up in
the tail and never collected.

Paths are compared as the URIs they are: percent-encoding decoded, `file:/x` equal to `/x`, and `s3a://`, `s3n://`
equal to `s3://`. They are handed on as they stand in the log.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.actions import Add, Metadata, Protocol, text, text_map
from deltaic.delta.commits import file_actions, metadata_in, protocol_in
from deltaic.delta.deletion_vectors import unique_id
from deltaic.delta.files import FILE_SCHEMA
from deltaic.errors import TableUnreadable

_ABSOLUTE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(/.*)", re.DOTALL)
_S3: Final = frozenset({"s3", "s3a", "s3n"})
_NO_VECTOR: Final[tuple[str | None, ...]] = (None,)

_HASHED_PER_BATCH: Final = 4096
"""pc.is_in builds its table anew for every batch: above this many names a dict lookup in Python is cheaper."""

_PER_NAME: Final = 300

Seen = Mapping[str, tuple[str | None, ...]]
"""Logical files that the tail mentions: canonical path -> deletion vector ids (None: without one)."""


def canonical_path(path: str) -> str:
    """Return one spelling for all spellings of a path, for comparison only."""
    if "%" not in path and ":" not in path:
        return path
    decoded = unquote(path, errors="backslashreplace")
    absolute = _ABSOLUTE.fullmatch(path)
    if absolute is None:
        return decoded
    scheme, authority, rest = absolute.groups()
    rest = unquote(rest, errors="backslashreplace")
    if scheme == "file":
        return rest
    return f"{'s3' if scheme in _S3 else scheme}://{authority or ''}{rest}"


@dataclass(frozen=True, slots=True)
class Tail:
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

    @property
    def nbytes(self) -> int:
        """Bytes in memory, estimated: Arrow's are known, Python's strings and tuples are about this much."""
        return int(self.files.get_total_buffer_size() + 3 * self.names.nbytes) + _PER_NAME * len(self.seen)

    def keep(self, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.BooleanArray | None:
        """Tell which rows of a checkpoint the tail does not mention; None when that is all of them.

        `paths` without nulls where it matters: a null path counts as not mentioned. `vectors` is the rows'
        DELETION_VECTOR, None when no row has one.
        """
        if not self.seen or not len(paths):
            return None
        rows = candidates(paths, self.seen, self.names, self.last_parts)
        if not rows:
            return None
        spelled = paths.take(pa.array(rows)).to_pylist()
        ids: Sequence[str | None] = (None,) * len(rows)
        if vectors is not None:
            ids = [vector_id(vector) for vector in vectors.take(pa.array(rows)).to_pylist()]
        dead = [
            row
            for row, path, vector in zip(rows, spelled, ids, strict=True)
            if path is not None and vector in self.seen.get(canonical_path(path), ())
        ]
        return drop_rows(len(paths), dead) if dead else None

    def advance(self, newer: "Tail") -> "Tail":
        """Return this tail followed by the commits of a newer one."""
        keep = newer.keep(self.files["path"], self.files["deletionVector"])
        files = self.files if keep is None else self.files.filter(keep)
        seen = dict(self.seen)
        for path, ids in newer.seen.items():
            had = seen.get(path)
            seen[path] = ids if had is None or had == ids else tuple(dict.fromkeys((*had, *ids)))
        return _tail(
            seen, in_order([files, newer.files]), newer.protocol or self.protocol, newer.metadata or self.metadata
        )


def replay(commits: Iterable[tuple[str, bytes]]) -> Tail:
    """Replay commits given newest first as (path, content); raises TableUnreadable for what cannot be read."""
    seen: dict[str, tuple[str | None, ...]] = {}
    batches: list[pa.RecordBatch] = []
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for path, content in commits:
        # The order of lines means nothing in a compaction file; some writers leave an add beside its remove there.
        compacted = path.endswith(".compacted.json")
        last: dict[tuple[str, str | None], Add | None] = {}
        newest_protocol: Protocol | None = None
        newest_metadata: Metadata | None = None
        for line in file_actions(content, path):
            if (action := line.add or line.remove) is not None:
                vector = action.deletion_vector
                key = (canonical_path(action.path), vector.unique_id if vector else None)
                if not (compacted and key in last and last[key] is None):
                    last[key] = line.add
            elif line.meta_data:
                newest_metadata = metadata_in(line.meta_data, path) or newest_metadata
            elif line.protocol:
                newest_protocol = protocol_in(line.protocol, path) or newest_protocol
        protocol = protocol or newest_protocol
        metadata = metadata or newest_metadata
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
    return _tail(seen, in_order(batches), protocol, metadata)


def _tail(seen: Seen, files: pa.RecordBatch, protocol: Protocol | None, metadata: Metadata | None) -> Tail:
    names = pa.array(list(seen), pa.string())
    return Tail(seen, files, protocol, metadata, names, frozenset(path[path.rfind("/") + 1 :] for path in seen))


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
    return joined.take(order)


def batch_of(adds: Sequence[Add], where: str) -> pa.RecordBatch:
    """Return adds as a batch of FILE_SCHEMA; raises TableUnreadable, naming `where` they stand, for what has no room.

    JSON knows no largest number, the log's columns do.
    """
    vectors = [
        None
        if (vector := add.deletion_vector) is None
        else {
            "storageType": vector.storage_type,
            "pathOrInlineDv": vector.path_or_inline_dv,
            "offset": vector.offset,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
        }
        for add in adds
    ]
    columns = [
        [add.path for add in adds],
        [list(text_map(add.partition_values).items()) for add in adds],
        [add.size for add in adds],
        [add.modification_time for add in adds],
        [True] * len(adds),
        [None if add.stats is None else text(add.stats) for add in adds],
        vectors,
        [add.base_row_id for add in adds],
        [add.default_row_commit_version for add in adds],
    ]
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, FILE_SCHEMA, strict=True)]
    except (OverflowError, ValueError, pa.ArrowException) as broken:
        raise TableUnreadable(f"the table's log cannot be read: {where} has a broken add: {broken}") from broken
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def candidates(paths: pa.StringArray, seen: Seen, names: pa.StringArray, last_parts: frozenset[str]) -> list[int]:
    """Return the rows whose path may be one of `seen`: all that are, and as few others as a cheap look allows."""
    if _spelled_plainly(paths):
        if len(names) <= _HASHED_PER_BATCH:
            mentioned = pc.is_in(paths, value_set=names)
            return pc.indices_nonzero(mentioned).to_pylist() if mentioned.true_count else []
        return [row for row, path in enumerate(paths.to_pylist()) if path in seen]
    # Some path here is encoded or absolute. Compare file names first: decoding every path would cost more than the
    # rest of the replay, and few writers encode file names.
    rows = []
    for row, path in enumerate(paths.to_pylist()):
        if path is None:
            continue
        name = path[path.rfind("/") + 1 :]
        if name in last_parts or "%" in name:
            rows.append(row)
    return rows


def _spelled_plainly(paths: pa.StringArray) -> bool:
    """Tell whether no path can be spelled in another way; a look at the bytes, because it is on the hot path."""
    data = paths.buffers()[2]
    if data is None:
        return True
    plain = data.to_pybytes()
    return b"%" not in plain and b":" not in plain


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """Return the unique id of a DELETION_VECTOR row; None for no vector."""
    if vector is None or vector["storageType"] is None:
        return None
    return unique_id(vector["storageType"], vector["pathOrInlineDv"], vector["offset"])


def drop_rows(length: int, rows: Sequence[int]) -> pa.BooleanArray:
    """Return a mask that is true but for these rows."""
    mask = bytearray(b"\1") * length
    for row in rows:
        mask[row] = 0
    return pc.cast(pa.Array.from_buffers(pa.uint8(), length, [None, pa.py_buffer(mask)]), pa.bool_())
