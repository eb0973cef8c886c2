"""Summary of an unread sidecar in the manifest: totals, and bounds by row group.

It is a tag in the sidecar's `tags` (Delta protocol, "Sidecar File Information"), which other readers ignore. It is used
only for the file with the path and size that it states.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

SUMMARY: Final = "deltaic.summary"


class PartSummary(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """Summary of a sidecar that contains only adds, or no adds."""

    path: str
    """Path of the sidecar, as in the manifest."""
    size_in_bytes: int
    footer_bytes: int
    """Bytes to read from the end of the file for the footer."""
    num_adds: int
    size_of_adds: int
    """Total bytes of the added files."""
    num_deletion_vectors: int
    row_groups: tuple[msgspec.Raw, ...]
    """For each row group with adds, from the first on, statistics that hold for all rows of all its files.

    The format is that of a file's statistics (Delta protocol, "Per-file Statistics"), with partition columns among the
    others, and without null counts other than 0. Missing statistics are unknown.
    """

    @cached_property
    def statistics(self) -> pa.StringArray:
        """Statistics of the row groups."""
        return pa.array([bytes(raw).decode() for raw in self.row_groups], pa.string())

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory: each row group's statistics twice."""
        return 2 * sum(len(bytes(raw)) for raw in self.row_groups)


_summary: Final = msgspec.json.Decoder(PartSummary)


def decode_summary(tags: Any, path: str, size: int | None) -> PartSummary | None:
    """Decode the summary in a sidecar's tags; None if missing or for another file."""
    try:
        text = (tags if isinstance(tags, Mapping) else dict(tags or ())).get(SUMMARY)
        summary = _summary.decode(text) if isinstance(text, str) else None
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return summary if summary is not None and (summary.path, summary.size_in_bytes) == (path, size) else None
