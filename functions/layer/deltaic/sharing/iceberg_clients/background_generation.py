"""Generate Iceberg metadata in a Lambda function if a client would wait too long.

loadTable ──> b/0000.begun, which only the first request can create ──> the function that generates ──> b/0000.ended

One function serves all clients that request the same metadata. Both note objects (`.begun`, `.ended`) are in the folder
of the metadata and contain the version. The second one contains the error message if the generation failed.
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
"""Timeout of the function in template.yaml: without an `.ended` note after this time, the generation failed."""
_REFUSED_SECONDS: Final = 3600
"""How long after a permanent error the generation of a version is not repeated."""
_RETRY_AFTER: Final = 60
"""Seconds until a client should retry. Iceberg's Java clients retry five times, too few for the alarm on 5xx."""
_EARLIER_SECONDS: Final = 3.0
_BACKGROUND: Final = Bounds(files=1_000_000, earlier_seconds=300.0)
"""Limits that follow from the memory and timeout of the function."""
_BEGUN, _ENDED = ".begun", ".ended"
_PERMANENT_ERRORS: Final = (MalformedRequest, TableUnreadable, UnsupportedOperation)
"""Errors that a retry cannot fix. All other errors are transient."""


class _Note(msgspec.Struct, frozen=True):
    version: int
    time: float
    refusal: str = ""


class GenerationEvent(msgspec.Struct, frozen=True):
    """Event that starts the function, in JSON."""

    table: RequestedTable
    recipient_id: str
    token_id: str
    recipient: str
    source_ip: str
    version: int
    note: str
    """Object key of the notes, without the suffix `.begun` or `.ended`."""

    @property
    def caller(self) -> Caller:
        """Recipient whose request started the function."""
        return Caller(self.recipient_id, self.token_id, self.recipient, self.source_ip)


def latest_metadata(sharing: Sharing, table: SharedTable) -> GeneratedMetadata:
    """Return the Iceberg metadata of the latest version; raises the same errors as `generate_metadata`.

    For a table with too many files, start the function and raise Unavailable until the metadata is complete, or
    UnsupportedOperation if the generation failed. The function also adds earlier versions that need too much time.
    """
    bounds = Bounds(sharing.iceberg_files_at_once, _EARLIER_SECONDS)
    return generate_metadata(sharing, table, bounds, partial(_start_generation, sharing, table))


def _start_generation(sharing: Sharing, table: SharedTable, folder: str, version: int) -> DeltaicError:
    """Return the error for a client that must wait, and start the generation if no request has started it."""
    bucket = sharing.iceberg_bucket()
    keys = bucket.keys(f"{folder}/b")
    content = bucket.get(keys[-1]) if keys else None
    if content is not None:
        error = _read_notes(keys, msgspec.json.decode(content, type=_Note), version, sharing.clock())
        if error is not None:
            return error
    note = f"{folder}/b/{len(keys):04d}"
    content = msgspec.json.encode(_Note(version, sharing.clock()))
    if bucket.create(f"{note}{_BEGUN}", content):
        caller = table.caller
        name = RequestedTable(table.entry.share, table.entry.schema_name, table.entry.name)
        recipient = caller.recipient_id, caller.token_id, caller.recipient, caller.source_ip
        try:
            sharing.start_iceberg_generation(msgspec.json.encode(GenerationEvent(name, *recipient, version, note)))
        except DeltaicError:
            bucket.put(f"{note}{_ENDED}", content)
            raise
    return _unfinished()


def _read_notes(keys: Sequence[str], last: _Note, version: int, now: float) -> DeltaicError | None:
    """Return the error that the notes (`.begun`, `.ended`) imply for a version; None to start the generation."""
    has_begun = keys[-1].endswith(_BEGUN)
    if has_begun and now < last.time + UNDER_WAY_SECONDS:
        return _unfinished()
    if last.version == version and now < last.time + _REFUSED_SECONDS:
        if last.refusal:
            return UnsupportedOperation(last.refusal)
        if has_begun and keys[-2:-1] and keys[-2].endswith(_BEGUN):
            return UnsupportedOperation(
                "the server failed twice to generate Iceberg metadata: ask the provider to compact the table"
            )
    return None


def _unfinished() -> Unavailable:
    return Unavailable(
        "the server is generating the table's metadata for Iceberg clients, which takes minutes for this many files: "
        "load the table again later",
        retry_after=_RETRY_AFTER,
    )


def generate_in_background(sharing: Sharing, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Generate the metadata that `latest_metadata` requested, write the `.ended` note, and return log fields."""
    generation = msgspec.convert(event, GenerationEvent)
    caller, refusal = generation.caller, ""
    try:
        table = open_table(sharing, caller, generation.table)  # not noted: its errors concern only this recipient
        try:
            metadata = generate_metadata(sharing, table, _BACKGROUND)
        except _PERMANENT_ERRORS as error:
            refusal = error.message
            raise
        caller.audit.add(version=metadata.version, listedFiles=metadata.files)
    except DeltaicError as error:
        caller.audit.add(errorCode=error.code, error=error.message, detail=error.detail)
    finally:
        caller.audit.end()
    ended = _Note(generation.version, sharing.clock(), refusal)
    sharing.iceberg_bucket().put(f"{generation.note}{_ENDED}", msgspec.json.encode(ended))
    return {"recipientId": caller.recipient_id, "recipient": caller.recipient, **caller.audit.facts()}
