"""Version checksums, where they can be believed, and what they save: protocol, metadata and totals by one request.

Delta protocol, "Version Checksum File Schema". A checksum that lacks a required field, counts anything but one
protocol and one metaData, or cannot be read is treated as absent: readers must work without it. So is one that
the commits contradict. Whether files have deletion vectors is read from the log alone (decision 183).
"""

from typing import Any, Final, NamedTuple

import msgspec

from deltaic import compute as pc
from deltaic.delta.actions import Metadata, Protocol, metadata_of, protocol_of
from deltaic.delta.log_files import read_listed
from deltaic.delta.paths import LOG
from deltaic.delta.replay import Tail
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import TableUnreadable


class Totals(NamedTuple):
    """How many files a version has, and their bytes."""

    num_files: int
    size_in_bytes: int


class Checksum(msgspec.Struct, frozen=True):
    """What a usable `N.crc` says."""

    protocol: Protocol
    metadata: Metadata
    totals: Totals

    def agrees_with(self, tail: Tail, *, is_whole: bool) -> bool:
        """Return whether the commits after the checkpoint confirm it; `is_whole` where there is no checkpoint."""
        if (tail.protocol or self.protocol, tail.metadata or self.metadata) != (self.protocol, self.metadata):
            return False
        totals = Totals(tail.files.num_rows, pc.sum(tail.files["size"]).as_py() or 0)
        if is_whole:
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
    """Read a version checksum; None when there is none or it is not to be believed, Unavailable for half of one."""
    if file is None:
        return None
    path = LOG + file.name
    try:
        record = _record.decode(read_listed(store, file))
        if record.num_metadata != 1 or record.num_protocol != 1 or min(record.num_files, record.table_size_bytes) < 0:
            return None
        return Checksum(
            protocol_of(record.protocol, path),
            metadata_of(record.metadata, path),
            Totals(record.num_files, record.table_size_bytes),
        )
    except (FileNotFoundError, msgspec.MsgspecError, ValueError, RecursionError, TableUnreadable):
        return None
