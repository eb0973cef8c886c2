"""Decides which snapshot answers a request, in which format it may leave, and how its two head lines read."""

from dataclasses import replace

import msgspec

from deltaic.delta import features
from deltaic.delta.actions import Metadata
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.negotiation import choose_format
from deltaic.protocol.timestamps import Instant
from deltaic.sharing.answer import ResponseOptions
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.storage.objects import ObjectTableStore


def open_store(sharing: Sharing, table: SharedTable) -> TableStore:
    """Return what reads the table's objects; nothing is read yet."""
    return ObjectTableStore(table.locations, table.storage, sharing.sessions.reader(table.storage))


def open_log(sharing: Sharing, table: SharedTable, store: TableStore | None = None) -> DeltaLog:
    """Return the table's log; nothing is read yet, and what the process keeps of it is not read again."""
    return DeltaLog(store or open_store(sharing, table), sharing.memory.snapshots, table.identity)


def find(log: DeltaLog, version: int | None, instant: Instant | None) -> Snapshot:
    """Return the snapshot of a version, as of a moment, or the latest; raises MalformedRequest where there is none."""
    if instant is not None:
        version = log.version_at_or_before(instant.floor_ms)
    return log.snapshot(version)


def negotiate(live: frozenset[str], options: ResponseOptions) -> ResponseFormat:
    """Return the format that carries these live features; later pages keep that of the first instead.

    Raises UnsupportedOperation when no format that was asked for can carry them.
    """
    misread = live & features.PARQUET_MISREADS
    return choose_format(options.capabilities, misread_as_parquet=misread, needed_for_delta=live)


def head_lines(
    table: SharedTable,
    snapshot: Snapshot,
    response_format: ResponseFormat,
    *,
    version: int | None = None,
    protocol_version: int | None = None,
) -> bytes:
    """Return the protocol and the metaData line, the same bytes at every call for one snapshot.

    `version` is written into the metaData, `protocol_version` into the protocol (delta format), where they are asked
    for.
    """
    protocol = lines.protocol(
        response_format,
        msgspec.json.decode(snapshot.protocol.raw) if response_format == "delta" else None,
        version=protocol_version,
    )
    num_files, size = snapshot.totals()
    described = wire_metadata(table, snapshot.metadata, version=version)
    return protocol + lines.metadata(response_format, replace(described, num_files=num_files, size=size))


def wire_metadata(table: SharedTable, metadata: Metadata, *, version: int | None = None) -> lines.TableMetadata:
    """Return what the answer says about the table; where its files lie only for directory readers."""
    by_directory = "dir" in table.entry.access_modes
    return lines.TableMetadata(
        id=metadata.id,
        schema_string=metadata.schema_string,
        partition_columns=metadata.partition_columns,
        configuration=metadata.configuration,
        raw=msgspec.json.decode(metadata.raw),
        name=metadata.name,
        description=metadata.description,
        history_shared=table.gate.history_shared,
        version=version,
        location=table.entry.location if by_directory else None,
        auxiliary_locations=table.entry.auxiliary_locations if by_directory else (),
        access_modes=table.entry.access_modes,
    )
