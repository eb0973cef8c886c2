"""Reads a checkpoint: as parts in a fixed order, and its protocol and metadata by few requests.

Classic, multi-part and v2 checkpoints differ only in where their parts are listed. Delta protocol, "V2 Spec": the
top-level file names sidecars, which hold the adds and removes; a classic name may hold a v2 checkpoint too.
"""

from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from deltaic.delta.actions import Add, Metadata, Protocol, Sidecar, metadata_of, protocol_of
from deltaic.delta.commits import WINDOW_BYTES, lines_of, metadata_in, protocol_in
from deltaic.delta.log_files import read_listed, reading
from deltaic.delta.paths import LOG, SIDECARS, Checkpoint
from deltaic.delta.replay import batch_of
from deltaic.delta.scan.checkpoint_parts import LinesPart, ParquetPart, Part
from deltaic.delta.scan.parquet_file import FOOTER, FOOTER_AND_ACTIONS
from deltaic.delta.scan.part_summary import summary_of
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import TableUnreadable


class _ManifestLine(msgspec.Struct, gc=False):
    add: Add | None = None
    sidecar: Sidecar | None = None
    meta_data: msgspec.Raw = msgspec.field(name="metaData", default_factory=msgspec.Raw)
    protocol: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


_manifest: Final = msgspec.json.Decoder(_ManifestLine, strict=False)


class _Manifest(msgspec.Struct, frozen=True, dict=True):
    parts: tuple[Part, ...]
    protocol: Protocol | None
    metadata: Metadata | None


class CheckpointReader(msgspec.Struct, dict=True):
    """One checkpoint; reads nothing before it is asked, and nothing twice."""

    store: TableStore
    checkpoint: Checkpoint
    _listed: tuple[ParquetPart, ...] | None = None
    """The parts that the log lists by name."""
    _all: tuple[Part, ...] | None = None
    """With those that they name."""
    _lent: bytes | None = None
    """The manifest, until it is understood."""

    @property
    def unread_manifest(self) -> LogFile | None:
        """The manifest, where there is one of moderate size that has not been read."""
        file = self.checkpoint.files[0]
        is_read = self._lent is not None or self._all is not None or "_manifest" in vars(self)
        return None if is_read or not _is_manifest(file) or file.size > WINDOW_BYTES else file

    def lend(self, manifest: bytes) -> None:
        """Take the manifest's content, which somebody has read as the log lists it."""
        self._lent = manifest

    @property
    def held_bytes(self) -> int:
        """Bytes of files and manifests that stay in memory with this reader."""
        return sum(part.held_bytes for part in self._all or self._listed or ())

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that may hold add rows, in an order that depends on nothing but the checkpoint."""
        if self._all is None:
            self._all = self._manifest.parts if self._manifest is not None else self._with_sidecars()
        return self._all

    def _with_sidecars(self) -> tuple[Part, ...]:
        sidecars = [
            self._sidecar(str(action["path"]), action.get("sizeInBytes"), action.get("tags"))
            for part in self._top
            for action in (part.actions("sidecar")["sidecar"] if self._may_name_sidecars(part) else ())
            if action.get("path")
        ]
        return (*self._top, *sidecars)

    @cached_property
    def protocol_and_metadata(self) -> tuple[Protocol | None, Metadata | None]:
        """The protocol and the metadata of the checkpoint, None for what it lacks."""
        if self._manifest is not None:
            return self._manifest.protocol, self._manifest.metadata
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        for part in self._top:
            found = part.actions("protocol", "metaData")
            for action in found["protocol"]:
                if action.get("minReaderVersion") is not None:
                    protocol = protocol_of(action, part.path)
            for action in found["metaData"]:
                if action.get("id") is not None or action.get("schemaString") is not None:
                    metadata = metadata_of(_plain_metadata(action, part.path), part.path)
            if protocol is not None and metadata is not None:
                break
        for part in self._top:
            part.file.forget()
        return protocol, metadata

    @property
    def _top(self) -> tuple[ParquetPart, ...]:
        if self._listed is None:
            footer_bytes = FOOTER_AND_ACTIONS if len(self.checkpoint.files) == 1 else FOOTER
            base = self.checkpoint.identity
            self._listed = tuple(
                ParquetPart(self.store, LOG + file.name, file.size, f"{base}/{file.name}", footer_bytes)
                for file in self.checkpoint.files
            )
        return self._listed

    @cached_property
    def _manifest(self) -> _Manifest | None:
        file = self.checkpoint.files[0]
        path = LOG + file.name
        if not _is_manifest(file):
            return None
        content, self._lent = self._lent, None
        if content is None:
            with reading(path):
                content = read_listed(self.store, file)
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        adds: list[Add] = []
        sidecars: list[Part] = []
        for line in lines_of(content, path, _manifest):
            if line.add is not None:
                adds.append(line.add)
            elif line.sidecar is not None:
                sidecars.append(self._sidecar(line.sidecar.path, line.sidecar.size_in_bytes, line.sidecar.tags))
            elif line.meta_data:
                metadata = metadata_in(line.meta_data, path) or metadata
            elif line.protocol:
                protocol = protocol_in(line.protocol, path) or protocol
        own: list[Part] = [LinesPart(batch_of(adds, path))] if adds else []
        return _Manifest((*own, *sidecars), protocol, metadata)

    def _sidecar(self, path: str, size: int | None, tags: Any) -> ParquetPart:
        """Delta protocol, "Sidecar File Information": a name below `_sidecars/`, or an absolute URI; URI-encoded."""
        absolute = ":/" in path or path.startswith("/")
        where = path if absolute else SIDECARS + unquote(path)
        summary = summary_of(tags, path, size)
        footer_bytes = summary.footer_bytes if summary else FOOTER
        return ParquetPart(self.store, where, size, f"{self.checkpoint.identity}/{path}", footer_bytes, summary)

    def _may_name_sidecars(self, part: ParquetPart) -> bool:
        # A multi-part checkpoint is never of the v2 kind, so its parts need not be opened to look for sidecars.
        return len(self.checkpoint.files) == 1 and bool(part.file.leaves("sidecar"))


def _is_manifest(file: LogFile) -> bool:
    return file.name.endswith(".json")


def _plain_metadata(action: dict[str, Any], where: str) -> dict[str, Any]:
    """Turn Arrow's maps, which are lists of pairs, into objects."""
    try:
        encoding = dict(action.get("format") or {})
        encoding["options"] = dict(encoding.get("options") or ())
        return action | {"format": encoding, "configuration": dict(action.get("configuration") or ())}
    except (TypeError, ValueError) as broken:
        message = f"the table's log cannot be read: {where} has a broken metaData: {broken}"
        raise TableUnreadable(message, where) from broken
