"""The position of a Structured Streaming job in a Delta table, by the checkpoint that it keeps."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.table.s3_folder import S3Folder


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a stream goes on when it is started again."""

    checkpoint: str
    version: int
    """It still needs this version, and every commit from it on."""


def position(checkpoint: str, table_id: str, access: S3Access) -> StreamPosition:
    """Return where the stream of a checkpoint folder (local or s3://) goes on in the table of this id.

    A stream that has committed no batch yet may need every version: 0. Raises `PipelineError` for a folder that is no
    checkpoint of a stream from this table.
    """
    names, read = _in_s3(checkpoint, access) if "://" in checkpoint else _local(checkpoint)
    offsets, commits = (
        {int(name.removeprefix(folder)) for name in names if name.removeprefix(folder).isdecimal()}
        for folder in ("offsets/", "commits/")
    )
    if not offsets:
        raise PipelineError(f"{checkpoint} is no checkpoint of a stream: no file of the folder offsets is there.")
    committed = offsets & commits
    try:
        # Spark's OffsetSeqLog: a version, a line of metadata, then a line for each source.
        lines = read(f"offsets/{max(committed or offsets)}").decode().split("\n")[2:]
        sources = [json.loads(line) for line in lines if line.startswith("{")]
        found = [int(one["reservoirVersion"]) for one in sources if one.get("reservoirId") == table_id]
    except (ValueError, KeyError, AttributeError) as broken:
        raise PipelineError(f"{checkpoint} cannot be read: {broken}") from broken
    if not found:
        raise PipelineError(f"{checkpoint} belongs to a stream that does not read this table.")
    return StreamPosition(checkpoint, min(found) if committed else 0)


def _local(checkpoint: str) -> tuple[list[str], Callable[[str], bytes]]:
    root = Path(checkpoint)
    names = [f"{folder}/{file.name}" for folder in ("offsets", "commits") for file in root.glob(f"{folder}/*")]
    return names, lambda name: (root / name).read_bytes()


def _in_s3(checkpoint: str, access: S3Access) -> tuple[list[str], Callable[[str], bytes]]:
    folder = S3Folder(checkpoint, access)
    return [found.name for found in folder.objects()], folder.store.get
