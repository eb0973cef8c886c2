"""Has metadata made in the background where a client would wait too long: once for all who ask meanwhile.

loadTable ──> b/0000.begun, which the first who asks can create ──> the function that makes ──> b/0000.ended

Both lie beside what is made, and name the version; the second one the reason, too, if nothing could be made.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable, Unavailable, UnsupportedOperation
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.recipient_metadata import Bounds, GeneratedMetadata, generate_metadata
from deltaic.sharing.iceberg_clients.table_access import open_table

UNDER_WAY_SECONDS: Final = 900
"""As long as the function may run (template.yaml): after that it has ended, whatever it has left."""
_REFUSED_SECONDS: Final = 3600
"""How long a version that could not be made is not tried again."""
_RETRY_AFTER: Final = 60
"""Seconds. Iceberg's Java clients ask five times again; the alarm on 5xx wants as many in five minutes."""
_EARLIER_SECONDS: Final = 3.0
_BACKGROUND: Final = Bounds(files=1_000_000, earlier_seconds=300.0)
"""What the function has memory and time for."""
_BEGUN, _ENDED = ".begun", ".ended"
_OF_THE_TABLE: Final = (MalformedRequest, TableUnreadable, UnsupportedOperation)
"""Why nobody gets its metadata; what else fails has passed when it is asked for again."""


class _Note(msgspec.Struct, frozen=True):
    version: int
    time: float
    refusal: str = ""


class GenerationEvent(msgspec.Struct, frozen=True):
    """What the function is told, in JSON."""

    table: RequestedTable
    recipient_id: str
    token_id: str
    recipient: str
    source_ip: str
    version: int
    note: str
    """Key of its notes, without what tells them apart."""

    @property
    def caller(self) -> Caller:
        """The recipient that asked first."""
        return Caller(self.recipient_id, self.token_id, self.recipient, self.source_ip)


def latest_metadata(sharing: Sharing, table: SharedTable) -> GeneratedMetadata:
    """Return the metadata of the latest version to whoever waits for it; raises as `generate_metadata` does.

    Of a table of too many files it raises Unavailable while it is made, and UnsupportedOperation where it cannot be.
    Earlier versions for which there is no time are made by the function, too.
    """
    bounds = Bounds(sharing.iceberg_files_at_once, _EARLIER_SECONDS)
    return generate_metadata(sharing, table, bounds, partial(_being_made, sharing, table))


def _being_made(sharing: Sharing, table: SharedTable, folder: str, version: int) -> DeltaicError:
    """Return what is told of metadata that takes too long; begins to make it where nobody has."""
    bucket = sharing.iceberg_bucket()
    keys = bucket.keys(f"{folder}/b")
    content = bucket.get(keys[-1]) if keys else None
    if content is not None:
        refusal = _said(keys, msgspec.json.decode(content, type=_Note), version, sharing.clock())
        if refusal is not None:
            return refusal
    note = f"{folder}/b/{len(keys):04d}"
    told = msgspec.json.encode(_Note(version, sharing.clock()))
    if bucket.create(f"{note}{_BEGUN}", told):
        caller = table.caller
        name = RequestedTable(table.entry.share, table.entry.schema_name, table.entry.name)
        who = caller.recipient_id, caller.token_id, caller.recipient, caller.source_ip
        try:
            sharing.start_iceberg_generation(msgspec.json.encode(GenerationEvent(name, *who, version, note)))
        except DeltaicError:
            bucket.put(f"{note}{_ENDED}", told)
            raise
    return _not_yet()


def _said(keys: Sequence[str], last: _Note, version: int, now: float) -> DeltaicError | None:
    """Return what the notes say of a version; None where its metadata is to be made (again)."""
    has_begun = keys[-1].endswith(_BEGUN)
    if has_begun and now < last.time + UNDER_WAY_SECONDS:
        return _not_yet()
    if last.version == version and now < last.time + _REFUSED_SECONDS:
        if last.refusal:
            return UnsupportedOperation(last.refusal)
        if has_begun and keys[-2:-1] and keys[-2].endswith(_BEGUN):
            return UnsupportedOperation(
                "the table's metadata for Iceberg clients could not be made, twice: its provider can compact the table"
            )
    return None


def _not_yet() -> Unavailable:
    return Unavailable(
        "the table's metadata for Iceberg clients is being made, which takes minutes for one of so many files: "
        "load it again",
        retry_after=_RETRY_AFTER,
    )


def generate_in_background(sharing: Sharing, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make what `latest_metadata` has begun, and note how that has ended; returns what the log is told of it."""
    making = msgspec.convert(event, GenerationEvent)
    caller, refusal = making.caller, ""
    try:
        table = open_table(sharing, caller, making.table)  # what it refuses is this recipient's, and no other's
        try:
            made = generate_metadata(sharing, table, _BACKGROUND)
        except _OF_THE_TABLE as error:
            refusal = error.message
            raise
        caller.audit.add(version=made.version, listedFiles=made.files)
    except DeltaicError as error:
        caller.audit.add(errorCode=error.code, error=error.message, detail=error.detail)
    finally:
        caller.audit.end()
    ended = _Note(making.version, sharing.clock(), refusal)
    sharing.iceberg_bucket().put(f"{making.note}{_ENDED}", msgspec.json.encode(ended))
    return {"recipientId": caller.recipient_id, "recipient": caller.recipient, **caller.audit.facts()}
