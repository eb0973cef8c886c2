"""Write a sorted copy of a v2 checkpoint, with the same actions, next to the original.

Sidecars (files of rows) are written first, then the manifest (list of sidecars), then `_last_checkpoint`. A run that is
killed before the manifest leaves only objects that no reader requests. Only `_last_checkpoint` is ever replaced.
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
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import clustering_columns, sort_keys
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import LAYOUT, Layout, SidecarFile, write_sidecar
from deltaic_pipeline.maintenance.sorted_checkpoint.sorting import available_keys, ranks, sorted_tables

LEAST_FILES = 20_000
"""Minimum number of files for sorting: a smaller checkpoint has at most two row groups, so readers could skip none."""

_LAST = 0xFFFFFFFF
"""First bits of the UUID in the manifest's name: the highest, because readers use a version's last manifest by name."""


class NotSorted(PipelineError):
    """Error for a checkpoint that cannot be sorted on this machine; it stays unchanged and readable."""

    code = "CHECKPOINT_NOT_SORTED"


@dataclass(frozen=True, slots=True)
class SortedCheckpoint:
    """Manifest name and counts of a sorted checkpoint that was written next to the original."""

    manifest: str
    sidecars: int
    num_adds: int


def has_manifest(checkpoint: CheckpointFiles) -> bool:
    """Return whether a checkpoint is a v2 checkpoint with a JSON manifest and sidecars, as Spark writes it."""
    return checkpoint.files[0].name.endswith(".json")


def sort_checkpoint(  # noqa: PLR0913 -- the log to read, the log to write, and the order
    store: TableStore,
    writer: LogWriter,
    checkpoint: CheckpointFiles,
    zorder_by: Sequence[str],
    confirm: Callable[[], None],
    *,
    least_files: int = LEAST_FILES,
    layout: Layout = LAYOUT,
) -> SortedCheckpoint | None:
    """Write a sorted copy of a v2 checkpoint; return None if it is not v2, or if sorting saves nothing.

    `confirm` is called before each request that writes; an exception from it stops the job. Raises `NotSorted` if the
    rows cannot be sorted, or not on this machine.
    """
    reader = CheckpointReader(store, checkpoint)
    if not has_manifest(checkpoint):
        return None
    metadata = reader.protocol_and_metadata[1]
    parts = _parts_to_sort(reader, least_files)
    with_adds = [part for part in parts if part.num_adds != 0]
    if metadata is None or not with_adds:
        return None
    lines = [line for line in store.get(LOG + checkpoint.files[0].name).split(b"\n") if line.strip()]
    actions: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    table_order = sort_keys(metadata, clustering_columns(action.get("domainMetadata") for action in actions), zorder_by)
    order = available_keys(with_adds[0], table_order)
    if table_order and not order:
        raise NotSorted(
            "The checkpoint cannot be sorted, and stays unchanged: it has no typed statistics. "
            "Use --v2-checkpoints once, so that later checkpoints have them."
        )
    if not order or any(part.file.schema.names != with_adds[0].file.schema.names for part in parts):
        return None
    other_lines = [line for line, action in zip(lines, actions, strict=True) if action.get("sidecar") is None]
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
        folder = Path(name)
        try:
            ordered = sorted_tables(parts, ranks(parts, order), layout.sidecar, folder)
            sidecars = [write_sidecar(folder, checkpoint.version, rows, order, layout) for rows in ordered]
        except (ValueError, pa.ArrowException) as failure:
            # Arrow's messages contain statistics that it cannot read, which are values of rows.
            error_type = type(failure).__name__
            raise NotSorted(f"The checkpoint cannot be sorted, and stays unchanged: {error_type}.") from failure
        except OSError as failure:
            raise NotSorted(
                f"The checkpoint cannot be sorted on this machine, and stays unchanged: {failure.strerror or failure}. "
                "Sorting needs space for all of its rows in the folder of temporary files (TMPDIR)."
            ) from failure
        _check(parts, sidecars)
        return _upload(store, writer, checkpoint.version, other_lines, sidecars, confirm)


def _parts_to_sort(reader: CheckpointReader, least_files: int) -> Sequence[ParquetPart]:
    """Return the Parquet files of a checkpoint; empty if it is already sorted or too small to be sorted."""
    parts = [part for part in reader.parts if isinstance(part, ParquetPart)]
    if all(part.summary is not None for part in parts) or len(parts) < len(reader.parts):
        return ()
    return parts if sum(part.num_adds or 0 for part in parts) >= least_files else ()


def _check(parts: Sequence[ParquetPart], sidecars: Sequence[SidecarFile]) -> None:
    before = (
        sum(part.file.footer.num_rows for part in parts),
        sum(part.num_adds or 0 for part in parts),
        sum(part.size_of_adds or 0 for part in parts),
    )
    names = ("rows", "num_adds", "size_of_adds")
    after = tuple(sum(getattr(sidecar, name) for sidecar in sidecars) for name in names)
    if before != after:
        raise NotSorted(
            f"The sorted checkpoint was not written: its numbers of rows, files and bytes, {after}, differ from the "
            f"original's, {before}. Use --no-sort, and report this as a bug."
        )


def _upload(  # noqa: PLR0913, PLR0917 -- as `sort_checkpoint`
    store: TableStore,
    writer: LogWriter,
    version: int,
    other_lines: Sequence[bytes],
    sidecars: Sequence[SidecarFile],
    confirm: Callable[[], None],
) -> SortedCheckpoint:
    for sidecar in sidecars:
        confirm()
        _create_object(writer, SIDECARS + sidecar.name, sidecar.file.read_bytes())
        sidecar.file.unlink()
    content = b"".join(
        line + b"\n"
        for line in [*other_lines, *(msgspec.json.encode({"sidecar": sidecar.action}) for sidecar in sidecars)]
    )
    unique = uuid.UUID(int=uuid.uuid4().int & ((1 << 96) - 1) | _LAST << 96)
    name = f"{version_prefix(version)}.checkpoint.{unique}.json"
    confirm()
    _create_object(writer, LOG + name, content)
    hint = _hint(store, version, name, len(content), sidecars)
    if hint is not None:
        confirm()
        writer.replace(LAST_CHECKPOINT, hint)
    return SortedCheckpoint(name, len(sidecars), sum(sidecar.num_adds for sidecar in sidecars))


def _create_object(writer: LogWriter, path: str, content: bytes) -> None:
    if not writer.create(path, content):
        raise PipelineError(f"{path} exists already, although its name is random. Run the job again.")


def _hint(store: TableStore, version: int, name: str, size: int, sidecars: Sequence[SidecarFile]) -> bytes | None:
    """Return new content for `_last_checkpoint`, without optional lists; None if it names a later checkpoint."""
    try:
        if msgspec.json.decode(store.get(LAST_CHECKPOINT))["version"] > version:
            return None
    except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError):
        pass  # there is no readable hint
    manifest = {
        "path": name,
        "sizeInBytes": size,
        "modificationTime": max(sidecar.action["modificationTime"] for sidecar in sidecars),
    }
    return msgspec.json.encode(
        {
            "version": version,
            "size": sum(sidecar.rows for sidecar in sidecars),
            "sizeInBytes": size + sum(sidecar.action["sizeInBytes"] for sidecar in sidecars),
            "numOfAddFiles": sum(sidecar.num_adds for sidecar in sidecars),
            "v2Checkpoint": manifest,
        }
    )
