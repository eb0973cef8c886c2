"""Logical files: when two mentions name one, however its path is spelled.

Paths are compared as the URIs they are: percent-encoding decoded, `file:/x` equal to `/x`, and `s3a://`, `s3n://`
equal to `s3://`. They are handed on as they stand in the log.
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
"""pc.is_in builds its table anew for every batch: above this many names a dict lookup in Python is cheaper."""


class LogicalFile(NamedTuple):
    """What actions are reconciled by (Delta protocol, "Action Reconciliation")."""

    path: str
    """Canonical."""
    vector: str | None
    """Unique id of the deletion vector; None without one."""


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
