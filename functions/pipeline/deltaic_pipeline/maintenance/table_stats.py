"""Compute statistics of a table that determine the cost of reading it: files, small files, and log."""

from collections import defaultdict
from dataclasses import dataclass

from deltaic.delta.paths import version_prefix
from deltaic.delta.segment import find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore

from deltaic_pipeline.maintenance.vacuum import Count

SMALL_BYTES = 1 << 30
"""Size in bytes below which OPTIMIZE compacts files (`spark.databricks.delta.optimize.minFileSize`)."""


@dataclass(frozen=True, slots=True)
class TableStats:
    """Statistics of a table's latest version."""

    version: int
    table_id: str
    configuration: dict[str, str]
    partition_columns: list[str]
    clustered: bool
    """Whether the table declares clustering columns, by which OPTIMIZE sorts rows."""

    files: Count
    small: Count
    """Files that OPTIMIZE can compact: below `SMALL_BYTES` with others in their partition, or with deleted rows."""

    checkpoint: int | None
    commits: int
    log_objects: int
    """Number of objects in the log since the checkpoint, all of which every reader lists."""

    @property
    def requests(self) -> int:
        """Number of requests to read the whole table: listing, `_last_checkpoint`, checkpoint, commits and files."""
        return 2 + (self.checkpoint is not None) + self.commits + self.files.files


def read_table_stats(store: TableStore) -> TableStats:
    """Compute the statistics of the latest version from the log; raises `DeltaicError` if it is unreadable."""
    segment = find_segment(store)
    snapshot = Snapshot(store, segment)
    checkpoint = segment.checkpoint.version if segment.checkpoint else None
    log_objects = list(store.list_log(version_prefix(checkpoint) if checkpoint else ""))
    files, small = Count(), Count()
    partitions: defaultdict[tuple[tuple[str, str | None], ...], Count] = defaultdict(Count)
    for batch in snapshot.files():
        columns = (batch[name].to_pylist() for name in ("partitionValues", "size", "deletionVector"))
        for values, size, vector in zip(*columns, strict=True):
            files.add(size or 0)
            if vector is not None:
                small.add(size or 0)
            elif (size or 0) < SMALL_BYTES:
                partitions[tuple(values or ())].add(size or 0)
    for partition in partitions.values():
        if partition.files > 1:
            small.files += partition.files
            small.bytes += partition.bytes
    return TableStats(
        version=segment.version,
        table_id=snapshot.metadata.id,
        configuration=snapshot.metadata.configuration,
        partition_columns=snapshot.metadata.partition_columns,
        clustered="clustering" in (snapshot.protocol.writer_features or ()),
        files=files,
        small=small,
        checkpoint=checkpoint,
        commits=len(segment.commits),
        log_objects=len(log_objects),
    )
