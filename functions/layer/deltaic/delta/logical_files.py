"""Identity of logical files: canonical paths and deletion vector ids.

Paths are compared as URIs: percent-encoding is decoded, `file:/x` equals `/x`, and `s3a://` and `s3n://` equal `s3://`.
Results contain the paths as the log has them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.deletion_vectors import unique_id

_ABSOLUTE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(/.*)", re.DOTALL)
_S3: Final = frozenset({"s3", "s3a", "s3n"})

_HASHED_PER_BATCH: Final = 4096
"""Maximum number of names for pc.is_in, which hashes them for each batch; above, a dict lookup in Python is faster."""


class LogicalFile(NamedTuple):
    """Key by which actions are reconciled (Delta protocol, "Action Reconciliation")."""

    path: str
    vector: str | None
    """Unique id of the deletion vector; None without one."""


Mentions = Mapping[str, tuple[str | None, ...]]
"""Logical files that later commits add or remove: canonical path -> ids of deletion vectors (None: without one)."""


def canonical_path(path: str) -> str:
    """Return the canonical form of a path, which is used only for comparison."""
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


def candidate_rows(
    paths: pa.StringArray, mentions: Mentions, names: pa.StringArray, last_parts: frozenset[str]
) -> list[int]:
    """Return the indexes of the rows whose path is in `mentions`, and possibly a few others."""
    if _have_one_spelling(paths):
        if len(names) <= _HASHED_PER_BATCH:
            mask = pc.is_in(paths, value_set=names)
            return pc.indices_nonzero(mask).to_pylist() if mask.true_count else []
        return [row for row, path in enumerate(paths.to_pylist()) if path in mentions]
    # Some path is encoded or absolute. Compare file names first: decoding every path would take longer than the rest
    # of the replay, and few writers encode file names.
    rows = []
    for row, path in enumerate(paths.to_pylist()):
        if path is None:
            continue
        name = path[path.rfind("/") + 1 :]
        if name in last_parts or "%" in name:
            rows.append(row)
    return rows


def _have_one_spelling(paths: pa.StringArray) -> bool:
    """Return whether all paths are already canonical; compares bytes, because this runs for every batch."""
    data = paths.buffers()[2]
    if data is None:
        return True
    content = data.to_pybytes()
    return b"%" not in content and b":" not in content


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """Return the unique id of a DELETION_VECTOR row; None without a vector."""
    if vector is None or vector["storageType"] is None:
        return None
    return unique_id(vector["storageType"], vector["pathOrInlineDv"], vector["offset"])


def drop_rows(length: int, rows: Sequence[int]) -> pa.BooleanArray:
    """Return a boolean mask that is false for these row indexes and true for all others."""
    mask = bytearray(b"\1") * length
    for row in rows:
        mask[row] = 0
    return pc.cast(pa.Array.from_buffers(pa.uint8(), length, [None, pa.py_buffer(mask)]), pa.bool_())
