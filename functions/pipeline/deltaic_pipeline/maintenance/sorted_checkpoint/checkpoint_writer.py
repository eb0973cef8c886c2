"""Makes of a v2 checkpoint another one of the same actions, whose files lie in order, and puts it beside the first.

Sidecars come first, then the manifest, by which readers find them, then the hint: whatever ends a run before the
manifest is there leaves objects that nobody asks for. Nothing is ever replaced but the hint.
"""

import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from deltaic.delta.checkpoint import CheckpointReader
from deltaic.delta.paths import LAST_CHECKPOINT, LOG, SIDECARS, CheckpointFiles, version_prefix
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.store import TableStore
from deltaic.storage.log_writer import LogWriter

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import clustering_columns, order_of
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import LAYOUT, Layout, Sidecar, write_sidecar
from deltaic_pipeline.maintenance.sorted_checkpoint.sorting import in_order, known, ranks
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_adds import TypedAdds

LEAST_FILES = 20_000
"""A checkpoint of fewer has two row groups: nothing could be left out of them."""

_LAST = 0xFFFFFFFF
"""Begins the name of a manifest: of several v2 checkpoints of one version readers take the last by name."""


class NotSorted(PipelineError):
    """A checkpoint stays as it is: it cannot be sorted here, which its readers need not know."""

    code = "CHECKPOINT_NOT_SORTED"


@dataclass(frozen=True, slots=True)
class Sorted:
    """What was put beside the first checkpoint."""

    manifest: str
    sidecars: int
    num_adds: int


def has_manifest(checkpoint: CheckpointFiles) -> bool:
    """Tell whether a checkpoint is of the v2 kind, as Spark writes it: a manifest in JSON, and sidecars."""
    return checkpoint.files[0].name.endswith(".json")


def sort_checkpoint(  # noqa: PLR0913 -- the log to read, the log to write, and what is wanted
    store: TableStore,
    writer: LogWriter,
    checkpoint: CheckpointFiles,
    zorder_by: Sequence[str],
    confirm: Callable[[], None],
    *,
    least_files: int = LEAST_FILES,
    layout: Layout = LAYOUT,
) -> Sorted | None:
    """Put a checkpoint in order beside the one that is there; None where there is nothing to win, or it is not v2.

    `confirm` is called before each request that writes, and raises to end it. Raises `NotSorted` for rows that cannot
    be sorted, or not here.
    """
    reader = CheckpointReader(store, checkpoint)
    if not has_manifest(checkpoint):
        return None
    metadata = reader.protocol_and_metadata[1]
    parts = _unsorted(reader, least_files)
    with_adds = [part for part in parts if part.num_adds != 0]
    if metadata is None or not with_adds:
        return None
    lines = [line for line in store.get(LOG + checkpoint.files[0].name).split(b"\n") if line.strip()]
    actions: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    wanted = order_of(metadata, clustering_columns(action.get("domainMetadata") for action in actions), zorder_by)
    typed = TypedAdds(with_adds[0].file.schema.field("add").type, metadata, wanted)
    order = known(with_adds[0], wanted, typed)
    if not order or any(part.file.schema.names != with_adds[0].file.schema.names for part in parts):
        return None
    kept = [line for line, action in zip(lines, actions, strict=True) if action.get("sidecar") is None]
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
        folder = Path(name)
        try:
            ordered = in_order(parts, ranks(parts, order, typed), layout.sidecar, folder)
            sidecars = [write_sidecar(folder, checkpoint.version, rows, order, layout, typed) for rows in ordered]
        except (ValueError, pa.ArrowException) as strange:
            # Arrow's words hold statistics that it cannot read, which are values of rows.
            said = type(strange).__name__
            raise NotSorted(f"The checkpoint cannot be sorted, and stays as it is: {said}.") from strange
        except OSError as full:
            raise NotSorted(
                f"The checkpoint cannot be sorted here, and stays as it is: {full.strerror or full}. Sorting needs as "
                "much room for temporary files (TMPDIR) as all of its rows take."
            ) from full
        _check(parts, sidecars)
        return _sent(store, writer, checkpoint.version, kept, sidecars, confirm)


def _unsorted(reader: CheckpointReader, least_files: int) -> Sequence[ParquetPart]:
    """Return the parts of a checkpoint that is worth sorting; none of one that is in order already, or too small."""
    parts = [part for part in reader.parts if isinstance(part, ParquetPart)]
    if all(part.summary is not None for part in parts) or len(parts) < len(reader.parts):
        return ()
    return parts if sum(part.num_adds or 0 for part in parts) >= least_files else ()


def _check(parts: Sequence[ParquetPart], sidecars: Sequence[Sidecar]) -> None:
    before = (
        sum(part.file.footer.num_rows for part in parts),
        sum(part.num_adds or 0 for part in parts),
        sum(part.size_of_adds or 0 for part in parts),
    )
    after = tuple(sum(getattr(one, name) for one in sidecars) for name in ("rows", "num_adds", "size_of_adds"))
    if before != after:
        raise NotSorted(
            f"The sorted checkpoint has other rows, files and bytes than the first: {after} instead of {before}; it "
            "was not written. Say --no-sort, and report this."
        )


def _sent(  # noqa: PLR0913, PLR0917 -- as `sort_checkpoint`
    store: TableStore,
    writer: LogWriter,
    version: int,
    kept: Sequence[bytes],
    sidecars: Sequence[Sidecar],
    confirm: Callable[[], None],
) -> Sorted:
    for sidecar in sidecars:
        confirm()
        _create(writer, SIDECARS + sidecar.name, sidecar.file.read_bytes())
        sidecar.file.unlink()
    content = b"".join(
        line + b"\n" for line in [*kept, *(msgspec.json.encode({"sidecar": one.action}) for one in sidecars)]
    )
    unique = uuid.UUID(int=uuid.uuid4().int & ((1 << 96) - 1) | _LAST << 96)
    name = f"{version_prefix(version)}.checkpoint.{unique}.json"
    confirm()
    _create(writer, LOG + name, content)
    hint = _hint(store, version, name, len(content), sidecars)
    if hint is not None:
        confirm()
        writer.replace(LAST_CHECKPOINT, hint)
    return Sorted(name, len(sidecars), sum(one.num_adds for one in sidecars))


def _create(writer: LogWriter, path: str, content: bytes) -> None:
    if not writer.create(path, content):
        raise PipelineError(f"{path} is there already, under a name that nobody else could have chosen: run again.")


def _hint(store: TableStore, version: int, name: str, size: int, sidecars: Sequence[Sidecar]) -> bytes | None:
    """Return what `_last_checkpoint` says now; None where it names a later checkpoint, which somebody made meanwhile.

    The sidecars are left out, which may be: they would be read with every query. So are other actions, which stand in
    the manifest.
    """
    try:
        if msgspec.json.decode(store.get(LAST_CHECKPOINT))["version"] > version:
            return None
    except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError):
        pass  # none that could be read
    manifest = {
        "path": name,
        "sizeInBytes": size,
        "modificationTime": max(one.action["modificationTime"] for one in sidecars),
    }
    return msgspec.json.encode(
        {
            "version": version,
            "size": sum(one.rows for one in sidecars),
            "sizeInBytes": size + sum(one.action["sizeInBytes"] for one in sidecars),
            "numOfAddFiles": sum(one.num_adds for one in sidecars),
            "v2Checkpoint": manifest,
        }
    )
