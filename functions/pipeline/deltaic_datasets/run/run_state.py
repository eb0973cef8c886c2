"""Values of a run of a dataset: the run, its summary, and its target for the writer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from deltaic_pipeline.table.merging import Validity
from deltaic_pipeline.table.target import DeltaTarget

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import ExpectationVerdict


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a dataset."""

    dataset: dataset_model.Dataset
    run_id: str
    wait: timedelta = timedelta(0)
    origin: Callable[[Sequence[str | int]], str] = field(default=lambda path: ".".join(map(str, path)))
    runs: str = ""
    """Table of runs that shows whether an earlier attempt had nothing to commit; empty if there was no attempt."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Result of a run."""

    run_id: str
    location: str
    version: int | None
    """Latest version with rows of this run; None if there was nothing to write."""

    repeated: bool
    rows: int
    """Rows of the last step, and malformed rows of sources; 0 for a repeated run."""

    seconds: float
    batches: int = 1
    verdicts: Sequence[ExpectationVerdict] = ()
    written: int = 0
    """Rows that the run added to the table; by key, only new and changed rows (scd2: new states)."""

    unchanged: int = 0
    """Rows by key that the table already has with the same values."""

    deleted: int = 0
    """Deleted keys; with scd2, keys whose state ended without a new one."""

    quarantined: int = 0
    dropped: int = 0
    """Rows that an expectation or a source left out without quarantine."""

    metrics: dict[str, int] = field(default_factory=dict)
    made: Sequence[str] = ()
    """Share, schema and table that the run created in the catalog."""

    committed: bool = True
    """Whether the run made a commit; if not, `version` is an earlier run's."""

    redelivered: bool = False
    """Whether the table's last write was the same delivery, so that nothing was read."""

    @property
    def other_counts(self) -> dict[str, int]:
        """Numbers of deleted keys, and of rows that were not written, by name."""
        names = ("deleted", "unchanged", "quarantined", "dropped")
        return {name: getattr(self, name) for name in names}


def target_of(dataset: dataset_model.Dataset) -> DeltaTarget:
    """Return a dataset's target and write mode as the writer's target."""
    table, write_as = dataset.target, dataset.write
    target = DeltaTarget(
        location=table.location,
        mode=write_as.mode,
        partition_by=tuple(table.partition_by),
        keys=tuple(getattr(write_as, "keys", ())),
        delete_when=getattr(write_as, "delete_when", None),
        missing_at_most=getattr(write_as, "missing_at_most", None),
        change_data_feed=table.change_data_feed,
        properties=table.properties,
        evolve_schema=table.evolve_schema,
        cluster_by=tuple(table.cluster_by),
        comment=table.comment,
        column_comments=table.columns,
    )
    match write_as:
        case dataset_model.OverwritePartitions():
            return replace(target, where=write_as.where)
        case dataset_model.Scd2():
            return replace(
                target, validity=Validity(write_as.at, write_as.valid_from, write_as.valid_to, write_as.current)
            )
        case _:
            return target


def describe_summary(part: RunSummary) -> str:
    """Return a short description of the written rows."""
    if part.repeated:
        return f"version {part.version} already has this run's rows"
    if part.redelivered:
        return f"version {part.version} is unchanged, the last run wrote the same delivery"
    if part.version is None:
        return "no new rows"
    other_counts = [f"{count:,} {name}" for name, count in part.other_counts.items() if count]
    version = f"version {part.version}" + ("" if part.committed else " is unchanged")
    return ", ".join([version, f"{part.written:,} rows", *other_counts])
