"""Summary of a sidecar in the checkpoint's manifest: totals, and bounds of each row group's statistics.

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
    """Summary of a sidecar in which all actions, or none, are `add` actions."""

    path: str
    """Path of the sidecar, as written in the manifest."""
    size_in_bytes: int
    footer_bytes: int
    """Bytes to read from the end of the file for the footer."""
    num_adds: int
    size_of_adds: int
    """Total bytes of the added files."""
    num_deletion_vectors: int
    row_groups: tuple[msgspec.Raw, ...]
    """For each row group with `add` actions, from the first on, statistics that are valid for all its files.

    The format is that of a file's statistics (Delta protocol, "Per-file Statistics"), with partition columns among the
    others, and without null counts other than 0. A missing statistic means unknown.
    """

    @cached_property
    def statistics(self) -> pa.StringArray:
        """Statistics of the row groups as JSON strings."""
        return pa.array([bytes(raw).decode() for raw in self.row_groups], pa.string())

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory: twice the statistics of all row groups."""
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
