"""Read a Delta checkpoint: list its parts in a fixed order, and read protocol and metadata with few requests.

Classic, multi-part and v2 checkpoints differ only in where their parts are listed. Delta protocol, "V2 Spec": the
top-level file lists sidecars, which contain `add` and `remove` actions. A file with a classic name can be a v2
checkpoint.
"""

from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from deltaic.delta.actions import Add, Metadata, Protocol, Sidecar, parse_metadata, parse_protocol
from deltaic.delta.commits import WINDOW_BYTES, decode_lines, decode_metadata, decode_protocol
from deltaic.delta.log_files import read_listed, reading
from deltaic.delta.paths import LOG, SIDECARS, CheckpointFiles
from deltaic.delta.replay import to_file_batch
from deltaic.delta.scan.checkpoint_parts import LinesPart, ParquetPart, Part
from deltaic.delta.scan.parquet_file import FOOTER, FOOTER_AND_ACTIONS
from deltaic.delta.scan.part_summary import decode_summary
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
    """Reader of one checkpoint that reads each file at first use, and only once."""

    store: TableStore
    checkpoint: CheckpointFiles
    _listed_parts: tuple[ParquetPart, ...] | None = None
    """The checkpoint's own Parquet files, as the log lists them."""
    _all_parts: tuple[Part, ...] | None = None
    """The checkpoint's own files and the sidecars that they list."""
    _supplied_manifest: bytes | None = None
    """Content of the JSON manifest that `supply_manifest` set, until it is decoded."""

    @property
    def unread_manifest(self) -> LogFile | None:
        """The checkpoint's JSON manifest (top-level file), still to be read; None if absent, read or too large."""
        file = self.checkpoint.files[0]
        is_read = self._supplied_manifest is not None or self._all_parts is not None or "_manifest" in vars(self)
        return None if is_read or not _is_manifest(file) or file.size > WINDOW_BYTES else file

    def supply_manifest(self, manifest: bytes) -> None:
        """Use this content of the JSON manifest instead of reading the file."""
        self._supplied_manifest = manifest

    @property
    def cached_bytes(self) -> int:
        """Bytes of files and manifests that this reader keeps in memory."""
        return sum(part.cached_bytes for part in self._all_parts or self._listed_parts or ())

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return all parts that can contain `add` actions, in an order that depends only on the checkpoint."""
        if self._all_parts is None:
            self._all_parts = self._manifest.parts if self._manifest is not None else self._read_sidecars()
        return self._all_parts

    def _read_sidecars(self) -> tuple[Part, ...]:
        sidecars = [
            self._sidecar_part(str(action["path"]), action.get("sizeInBytes"), action.get("tags"))
            for part in self._top_parts
            for action in (part.actions("sidecar")["sidecar"] if self._may_name_sidecars(part) else ())
            if action.get("path")
        ]
        return (*self._top_parts, *sidecars)

    @cached_property
    def protocol_and_metadata(self) -> tuple[Protocol | None, Metadata | None]:
        """Protocol and metadata of the checkpoint; None for one that the checkpoint lacks."""
        if self._manifest is not None:
            return self._manifest.protocol, self._manifest.metadata
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        for part in self._top_parts:
            actions = part.actions("protocol", "metaData")
            for action in actions["protocol"]:
                if action.get("minReaderVersion") is not None:
                    protocol = parse_protocol(action, part.path)
            for action in actions["metaData"]:
                if action.get("id") is not None or action.get("schemaString") is not None:
                    metadata = parse_metadata(_convert_maps(action, part.path), part.path)
            if protocol is not None and metadata is not None:
                break
        for part in self._top_parts:
            part.file.forget()
        return protocol, metadata

    @property
    def _top_parts(self) -> tuple[ParquetPart, ...]:
        if self._listed_parts is None:
            footer_bytes = FOOTER_AND_ACTIONS if len(self.checkpoint.files) == 1 else FOOTER
            base = self.checkpoint.identity
            self._listed_parts = tuple(
                ParquetPart(self.store, LOG + file.name, file.size, f"{base}/{file.name}", footer_bytes)
                for file in self.checkpoint.files
            )
        return self._listed_parts

    @cached_property
    def _manifest(self) -> _Manifest | None:
        file = self.checkpoint.files[0]
        path = LOG + file.name
        if not _is_manifest(file):
            return None
        content, self._supplied_manifest = self._supplied_manifest, None
        if content is None:
            with reading(path):
                content = read_listed(self.store, file)
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        adds: list[Add] = []
        sidecars: list[Part] = []
        for line in decode_lines(content, path, _manifest):
            if line.add is not None:
                adds.append(line.add)
            elif line.sidecar is not None:
                sidecars.append(self._sidecar_part(line.sidecar.path, line.sidecar.size_in_bytes, line.sidecar.tags))
            elif line.meta_data:
                metadata = decode_metadata(line.meta_data, path) or metadata
            elif line.protocol:
                protocol = decode_protocol(line.protocol, path) or protocol
        manifest_parts: list[Part] = [LinesPart(to_file_batch(adds, path))] if adds else []
        return _Manifest((*manifest_parts, *sidecars), protocol, metadata)

    def _sidecar_part(self, path: str, size: int | None, tags: Any) -> ParquetPart:
        """Return a sidecar's part; its path is a URI-encoded name or an absolute URI."""
        absolute = ":/" in path or path.startswith("/")
        full_path = path if absolute else SIDECARS + unquote(path)
        summary = decode_summary(tags, path, size)
        footer_bytes = summary.footer_bytes if summary else FOOTER
        return ParquetPart(self.store, full_path, size, f"{self.checkpoint.identity}/{path}", footer_bytes, summary)

    def _may_name_sidecars(self, part: ParquetPart) -> bool:
        # A multi-part checkpoint is never a v2 checkpoint, so its parts have no sidecars.
        return len(self.checkpoint.files) == 1 and bool(part.file.leaves("sidecar"))


def _is_manifest(file: LogFile) -> bool:
    return file.name.endswith(".json")


def _convert_maps(action: dict[str, Any], full_path: str) -> dict[str, Any]:
    try:
        encoding = dict(action.get("format") or {})
        encoding["options"] = dict(encoding.get("options") or ())
        return action | {"format": encoding, "configuration": dict(action.get("configuration") or ())}
    except (TypeError, ValueError) as broken:
        message = f"the table's log cannot be read: {full_path} contains an invalid metaData action: {broken}"
        raise TableUnreadable(message, full_path) from broken
