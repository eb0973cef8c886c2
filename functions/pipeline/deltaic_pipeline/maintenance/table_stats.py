"""The statistics of a table that readers pay for: its files, those that could be fewer, and its log."""

from collections import defaultdict
from dataclasses import dataclass

from deltaic.delta.paths import version_prefix
from deltaic.delta.segment import find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore

from deltaic_pipeline.maintenance.vacuum import Count

SMALL_BYTES = 1 << 30
"""OPTIMIZE joins files below this (`spark.databricks.delta.optimize.minFileSize`)."""


@dataclass(frozen=True, slots=True)
class Survey:
    """One table as its latest version has it."""

    version: int
    table_id: str
    configuration: dict[str, str]
    partition_columns: list[str]
    clustered: bool
    """OPTIMIZE puts rows together by columns that the table names."""

    files: Count
    small: Count
    """What OPTIMIZE may join: files below `SMALL_BYTES` that are not alone in their partition, or have deleted rows."""

    checkpoint: int | None
    commits: int
    log_objects: int
    """Objects of the log from the checkpoint on, which every reader lists."""

    @property
    def requests(self) -> int:
        """Requests of a reader of the whole table: a listing, the hint, checkpoint, commits and every file."""
        return 2 + (self.checkpoint is not None) + self.commits + self.files.files


def survey(store: TableStore) -> Survey:
    """Read the latest version; raises `DeltaicError` for a log that cannot be read."""
    segment = find_segment(store)
    snapshot = Snapshot(store, segment)
    checkpoint = segment.checkpoint.version if segment.checkpoint else None
    listed = list(store.list_log(version_prefix(checkpoint) if checkpoint else ""))
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
    return Survey(
        version=segment.version,
        table_id=snapshot.metadata.id,
        configuration=snapshot.metadata.configuration,
        partition_columns=snapshot.metadata.partition_columns,
        clustered="clustering" in (snapshot.protocol.writer_features or ()),
        files=files,
        small=small,
        checkpoint=checkpoint,
        commits=len(segment.commits),
        log_objects=len(listed),
    )
