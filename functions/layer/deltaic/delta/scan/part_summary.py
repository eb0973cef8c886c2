"""The summary of a sidecar in a manifest, so that it need not be opened: its totals, and bounds of each row group.

It stands in the sidecar's `tags` (Delta protocol, "Sidecar File Information"), under a name of our own: other readers
leave it alone. It is believed of the very file that it was made for, and of no other.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

SUMMARY: Final = "deltaic.summary"
"""The tag's name."""


class PartSummary(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """What is known of a sidecar that holds adds and nothing else, or no adds at all."""

    path: str
    """As the manifest names the sidecar."""
    size_in_bytes: int
    footer_bytes: int
    """Bytes to ask for, from the end of the file, to get the footer."""
    num_adds: int
    size_of_adds: int
    """Bytes of the files that are added."""
    num_deletion_vectors: int
    row_groups: tuple[msgspec.Raw, ...]
    """For each row group with adds, from the first on, statistics that hold for the rows of all its files.

    They look as those of a file do (Delta protocol, "Per-file Statistics"), but partition columns stand among the
    others, and a null count that is not 0 is left out. What is left out is not known.
    """

    @cached_property
    def statistics(self) -> pa.StringArray:
        """The statistics of the row groups."""
        return pa.array([bytes(raw).decode() for raw in self.row_groups], pa.string())

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about: each row group's statistics twice."""
        return 2 * sum(len(bytes(raw)) for raw in self.row_groups)


_summary: Final = msgspec.json.Decoder(PartSummary)


def summary_of(tags: Any, path: str, size: int | None) -> PartSummary | None:
    """Return what the tags of a sidecar tell of it, given as JSON or Arrow has them; None where that is nothing."""
    try:
        said = (tags if isinstance(tags, Mapping) else dict(tags or ())).get(SUMMARY)
        found = _summary.decode(said) if isinstance(said, str) else None
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return found if found is not None and (found.path, found.size_in_bytes) == (path, size) else None
