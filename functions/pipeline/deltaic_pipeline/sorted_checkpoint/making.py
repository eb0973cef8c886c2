"""Makes of a v2 checkpoint another one of the same actions, whose files lie in order, and puts it beside the first.

Sidecars come first, then the manifest, by which readers find them, then the hint: whatever ends a run before the
manifest is there leaves objects that nobody asks for. Nothing is ever replaced but the hint.
"""

import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
from deltaic.delta.actions import Metadata
from deltaic.delta.checkpoint import CheckpointReader
from deltaic.delta.paths import LAST_CHECKPOINT, LOG, SIDECARS, Checkpoint, version_prefix
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.store import TableStore

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.sorted_checkpoint.order import Key, clustering_columns, order_of
from deltaic_pipeline.sorted_checkpoint.sidecars import LAYOUT, Layout, Sidecar, write_sidecar
from deltaic_pipeline.sorted_checkpoint.sorting import in_order, known, ranks

LEAST_FILES = 20_000
"""A checkpoint of fewer has two row groups: nothing could be left out of them."""

_LAST = 0xFFFFFFFF
"""Begins the name of a manifest: of several v2 checkpoints of one version readers take the last by name."""


class Writer(Protocol):
    """Where a log is written."""

    def create(self, path: str, content: bytes) -> bool:
        """Write an object that is not there yet; False if one is."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write an object, whether it is there or not."""
        ...


@dataclass(frozen=True, slots=True)
class Sorted:
    """What was put beside the first checkpoint."""

    manifest: str
    """Its name."""
    sidecars: int
    num_adds: int


def sort_checkpoint(  # noqa: PLR0913 -- the log to read, the log to write, and what is wanted
    store: TableStore,
    writer: Writer,
    checkpoint: Checkpoint,
    zorder_by: Sequence[str],
    confirm: Callable[[], None],
    *,
    least_files: int = LEAST_FILES,
    layout: Layout = LAYOUT,
) -> Sorted | None:
    """Put a checkpoint in order beside the one that is there; None where there is nothing to win, or it is not v2.

    `confirm` is called before each request that writes, and raises to end it.
    """
    name = checkpoint.files[0].name
    reader = CheckpointReader(store, checkpoint)
    if not name.endswith(".json"):
        return None
    metadata = reader.protocol_and_metadata[1]
    parts = [part for part in reader.parts if isinstance(part, ParquetPart)]
    with_adds = [part for part in parts if part.num_adds != 0]
    if metadata is None or len(parts) < len(reader.parts) or sum(part.num_adds or 0 for part in parts) < least_files:
        return None
    lines = [line for line in store.get(LOG + name).split(b"\n") if line.strip()]
    order = known(with_adds[0], _order(lines, metadata, zorder_by)) if with_adds else ()
    if not order or any(part.file.schema.names != with_adds[0].file.schema.names for part in parts):
        return None
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        sidecars = _written(parts, order, checkpoint.version, layout, Path(folder))
        _check(parts, sidecars)
        return _sent(store, writer, checkpoint.version, lines, sidecars, confirm)


def _order(lines: Sequence[bytes], metadata: Metadata, zorder_by: Sequence[str]) -> tuple[Key, ...]:
    actions: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    return order_of(metadata, clustering_columns(action.get("domainMetadata") for action in actions), zorder_by)


def _written(
    parts: Sequence[ParquetPart], order: Sequence[Key], version: int, layout: Layout, folder: Path
) -> list[Sidecar]:
    try:
        wanted = ranks(parts, order)
        return [
            write_sidecar(folder, version, rows, order, layout)
            for rows in in_order(parts, wanted, layout.sidecar, folder)
        ]
    except ValueError as strange:
        raise PipelineError(f"The checkpoint cannot be sorted, and stays as Spark wrote it: {strange}.") from strange


def _check(parts: Sequence[ParquetPart], sidecars: Sequence[Sidecar]) -> None:
    """Raise `PipelineError` unless as much went in as came out."""
    before = (
        sum(part.file.footer.num_rows for part in parts),
        sum(part.num_adds or 0 for part in parts),
        sum(part.size_of_adds or 0 for part in parts),
    )
    after = tuple(sum(getattr(one, name) for one in sidecars) for name in ("rows", "num_adds", "size_of_adds"))
    if before != after:
        raise PipelineError(
            f"The sorted checkpoint has other rows, files and bytes than Spark's: {after} instead of {before}; it was "
            "not written. Say --no-sort, and report this."
        )


def _sent(  # noqa: PLR0913, PLR0917 -- as `sort_checkpoint`
    store: TableStore,
    writer: Writer,
    version: int,
    lines: Sequence[bytes],
    sidecars: Sequence[Sidecar],
    confirm: Callable[[], None],
) -> Sorted:
    for sidecar in sidecars:
        confirm()
        _create(writer, SIDECARS + sidecar.name, sidecar.file.read_bytes())
        sidecar.file.unlink()
    kept = [line for line in lines if "sidecar" not in msgspec.json.decode(line)]
    content = b"".join(
        line + b"\n" for line in [*kept, *(msgspec.json.encode({"sidecar": one.action}) for one in sidecars)]
    )
    unique = uuid.UUID(int=uuid.uuid4().int & ((1 << 96) - 1) | _LAST << 96)
    name = f"{version_prefix(version)}.checkpoint.{unique}.json"
    confirm()
    _create(writer, LOG + name, content)
    confirm()
    writer.replace(LAST_CHECKPOINT, _hint(store, version, name, len(content), sidecars))
    return Sorted(name, len(sidecars), sum(one.num_adds for one in sidecars))


def _create(writer: Writer, path: str, content: bytes) -> None:
    if not writer.create(path, content):
        raise PipelineError(f"{path} is there already, under a name that nobody else could have chosen: run again.")


def _hint(store: TableStore, version: int, name: str, size: int, sidecars: Sequence[Sidecar]) -> bytes:
    """Return what `_last_checkpoint` says now: of the same version, the same actions, in another file.

    The sidecars are left out, which may be: they would be read with every query. So is the checksum of the old hint.
    """
    try:
        hint = msgspec.json.decode(store.get(LAST_CHECKPOINT))
    except FileNotFoundError:
        hint = {"size": sum(one.rows for one in sidecars)}
    hint["version"] = version
    hint.pop("checksum", None)
    manifest = {
        "path": name,
        "sizeInBytes": size,
        "modificationTime": max(one.action["modificationTime"] for one in sidecars),
    }
    known_actions = hint.get("v2Checkpoint", {}).get("nonFileActions")
    if known_actions is not None:
        manifest["nonFileActions"] = known_actions
    hint["v2Checkpoint"] = manifest
    hint["sizeInBytes"] = size + sum(one.action["sizeInBytes"] for one in sidecars)
    return msgspec.json.encode(hint)
