"""Decode `metadata.json` of an Iceberg table: the snapshots that versions name, schemas and partition specs.

The version of a snapshot is its sequence number. Only `main` is shared: its current snapshot, the ancestors of this
snapshot, and the snapshots in `snapshot-log`. Versions can have gaps, and a rollback makes an earlier version current.
"""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

import msgspec

from deltaic.delta.log_files import public_path, reading
from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable
from deltaic.iceberg.refusals import unshareable


class SourceSnapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """A snapshot in the metadata."""

    snapshot_id: int
    timestamp_ms: int
    manifest_list: str = ""
    sequence_number: int = 0
    schema_id: int | None = None
    parent_snapshot_id: int | None = None
    summary: dict[str, str] = {}


class SourceMetadata(msgspec.Struct, frozen=True, rename="kebab", dict=True):
    """Decoded metadata of an Iceberg table; unknown fields are ignored."""

    format_version: int
    last_updated_ms: int
    location: str
    table_uuid: str = ""
    current_schema_id: int = 0
    last_column_id: int = 0
    schemas: list[dict[str, Any]] = []
    partition_specs: list[dict[str, Any]] = []
    default_spec_id: int = 0
    current_snapshot_id: int | None = None
    snapshots: list[SourceSnapshot] = []
    snapshot_log: list[SourceSnapshot] = []
    """Which snapshot became current at which time; the other fields are not set."""
    properties: dict[str, str] = {}

    @cached_property
    def schemas_by_id(self) -> Mapping[int, dict[str, Any]]:
        """All schemas that the metadata still has, by id, in ascending order."""
        return {schema["schema-id"]: schema for schema in sorted(self.schemas, key=itemgetter("schema-id"))}

    @cached_property
    def specs_by_id(self) -> Mapping[int, Sequence[dict[str, Any]]]:
        """The fields of all partition specs, by the spec's id."""
        return {spec["spec-id"]: spec["fields"] for spec in self.partition_specs}

    @cached_property
    def _by_id(self) -> Mapping[int | None, SourceSnapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    @cached_property
    def current(self) -> SourceSnapshot | None:
        """The current snapshot of `main`; None for a table without snapshots."""
        if self.current_snapshot_id in {None, -1}:
            return None
        if self.current_snapshot_id not in self._by_id:
            raise TableUnreadable("the table's Iceberg metadata is inconsistent: its current snapshot is missing")
        return self._by_id[self.current_snapshot_id]

    @cached_property
    def versions(self) -> Mapping[int, SourceSnapshot | None]:
        """The snapshots that were current in `main`, by version; version 0 (None) is the table before the first."""
        if self.current is None:  # no commit yet, or the only one was rolled back
            return {0: None}
        ancestors = [self.current]
        # Invalid metadata can have a cycle.
        while (parent := self._by_id.get(ancestors[-1].parent_snapshot_id)) and len(ancestors) < len(self.snapshots):
            ancestors.append(parent)
        logged = [self._by_id.get(entry.snapshot_id) for entry in self.snapshot_log]
        versions: dict[int, SourceSnapshot | None] = {}
        for snapshot in (*ancestors, *filter(None, logged)):
            # All snapshots of format version 1 have the number 0: of these, the newest is shared.
            versions.setdefault(snapshot.sequence_number, snapshot)
        if ancestors[-1].parent_snapshot_id is None and ancestors[-1].sequence_number == 1:
            versions.setdefault(0, None)
        return versions

    @property
    def latest_version(self) -> int:
        """The version of the current snapshot; 0 for a table without snapshots."""
        return self.current.sequence_number if self.current else 0

    def find(self, version: int) -> int:
        """Return `version`, or the last existing one before it; raises MalformedRequest if there is none."""
        earlier = [number for number in self.versions if number <= version]
        if not earlier or version > max(self.versions):
            raise MalformedRequest(
                f"Cannot load table version {version} as it does not exist. Versions of an Iceberg table are the "
                f"sequence numbers of its snapshots, and the latest is {self.latest_version}."
            )
        return max(earlier)

    @cached_property
    def timeline(self) -> tuple[list[int], list[int]]:
        """Versions in the order in which they became current, and the times (ms since the epoch), ascending."""
        entries: list[tuple[int, int]] = []
        for entry in self.snapshot_log:
            snapshot = self._by_id.get(entry.snapshot_id)
            if snapshot is not None and self.versions.get(snapshot.sequence_number) is snapshot:
                entries.append((entry.timestamp_ms, snapshot.sequence_number))
            else:  # earlier times have no end without the time of a version that is not shared
                entries.clear()
        if not entries or entries[-1][1] != self.latest_version:  # writers may omit the log
            entries.append((self.current.timestamp_ms if self.current else self.last_updated_ms, self.latest_version))
        # The clocks of writers can differ.
        return [version for _, version in entries], list(accumulate((time for time, _ in entries), max))


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Convert any error of the `with` block, which decodes Iceberg metadata in the file `path`, to TableUnreadable."""
    try:
        with reading(path):
            yield
    except DeltaicError:
        raise
    except Exception as broken:
        raise TableUnreadable(
            f"the table's Iceberg metadata is invalid: ask its provider to fix {public_path(path)}",
            f"{path}: {broken!r}",
        ) from broken


_decoder: Final = msgspec.json.Decoder(SourceMetadata, strict=False)


def decode_metadata_file(document: bytes, path: str) -> SourceMetadata:
    """Decode a metadata document.

    Raises TableUnreadable for an invalid document, and UnsupportedOperation for a version of the format that this
    server cannot read and for an encrypted table.
    """
    with decoding(path):
        metadata = _decoder.decode(gzip.decompress(document) if ".gz." in path else document)
        _ = metadata.current  # raises TableUnreadable if it is missing
    if metadata.format_version not in {2, 3}:
        raise unshareable(
            f"it has version {metadata.format_version} of the Iceberg format, and this server reads versions 2 and 3",
            "upgrade it (property format-version)",
        )
    if "encryption.key-id" in metadata.properties:
        raise unshareable("it is encrypted, and recipients have no keys", "share a table without table encryption")
    return metadata
