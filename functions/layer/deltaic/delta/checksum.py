"""Version checksums (`N.crc`), which contain protocol, metadata and totals in one file.

Delta protocol, "Version Checksum File Schema". Readers must work without a checksum, so an invalid one is ignored: one
that lacks a required field, does not count exactly one protocol and one metaData, or contradicts the commits. A
checksum only saves requests; whether files have deletion vectors is always read from the log (decision 183).
"""

from typing import Any, Final, NamedTuple

import msgspec

from deltaic import compute as pc
from deltaic.delta.actions import Metadata, Protocol, parse_metadata, parse_protocol
from deltaic.delta.log_files import read_listed
from deltaic.delta.paths import LOG
from deltaic.delta.replay import Tail
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import TableUnreadable


class Totals(NamedTuple):
    """Number of files of a version, and the sum of their sizes in bytes."""

    num_files: int
    size_in_bytes: int


class Checksum(msgspec.Struct, frozen=True):
    """Content of a valid `N.crc`."""

    protocol: Protocol
    metadata: Metadata
    totals: Totals

    def agrees_with(self, tail: Tail, *, is_complete: bool) -> bool:
        """Return whether this checksum matches the commits in `tail`: with `is_complete`, all commits of the table."""
        if (tail.protocol or self.protocol, tail.metadata or self.metadata) != (self.protocol, self.metadata):
            return False
        totals = Totals(tail.files.num_rows, pc.sum(tail.files["size"]).as_py() or 0)
        if is_complete:
            return totals == self.totals
        return totals.num_files <= self.totals.num_files and totals.size_in_bytes <= self.totals.size_in_bytes


class _Record(msgspec.Struct, rename="camel"):
    num_files: int
    table_size_bytes: int
    num_metadata: int
    num_protocol: int
    metadata: dict[str, Any]
    protocol: dict[str, Any]


_record: Final = msgspec.json.Decoder(_Record)


def read_checksum(store: TableStore, file: LogFile | None) -> Checksum | None:
    """Read the version checksum `file`; None if absent or invalid. Raises Unavailable for an unexpected length."""
    if file is None:
        return None
    path = LOG + file.name
    try:
        record = _record.decode(read_listed(store, file))
        if record.num_metadata != 1 or record.num_protocol != 1 or min(record.num_files, record.table_size_bytes) < 0:
            return None
        return Checksum(
            parse_protocol(record.protocol, path),
            parse_metadata(record.metadata, path),
            Totals(record.num_files, record.table_size_bytes),
        )
    except (FileNotFoundError, msgspec.MsgspecError, ValueError, RecursionError, TableUnreadable):
        return None
