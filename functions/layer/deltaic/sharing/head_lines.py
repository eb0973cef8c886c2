"""Render the first two lines of a response: the protocol and the metaData line of a version."""

from typing import Final

import msgspec
from msgspec.structs import replace

from deltaic.delta.actions import Metadata
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.wire_actions import WireMetadata
from deltaic.sharing.context import SharedTable
from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of

HEAD_LINES: Final = 2


def head_lines(  # noqa: PLR0913 -- the contents of two lines
    table: SharedTable,
    snapshot: Snapshot,
    response_format: ResponseFormat,
    *,
    version: int | None = None,
    protocol_version: int | None = None,
    files_follow: bool = False,
) -> bytes:
    """Return the protocol line and the metaData line, always the same bytes for the same arguments.

    If given, `version` is added to the metaData line, and `protocol_version` to the protocol line (delta format).
    `files_follow` is true if file lines of the version follow.
    """
    protocol = lines.protocol(
        response_format,
        msgspec.json.decode(snapshot.protocol.raw) if response_format == "delta" else None,
        version=protocol_version,
    )
    check_hidden(table.rights, snapshot.protocol, snapshot.metadata)
    visibility = visibility_of(table.rights, snapshot.metadata)
    num_files, size = visibility.totals(snapshot, files_follow=files_follow)
    wire = wire_metadata(table, visibility.metadata, version=version)
    return protocol + lines.metadata(response_format, replace(wire, num_files=num_files, size=size))


def wire_metadata(table: SharedTable, metadata: Metadata, *, version: int | None = None) -> WireMetadata:
    """Convert metadata for the response; only recipients with directory access get the table's locations."""
    by_directory = "dir" in table.access_modes
    return WireMetadata(
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
        access_modes=table.access_modes,
    )
