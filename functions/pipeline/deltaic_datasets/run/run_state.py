"""Descriptions of a run of a dataset and of its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from deltaic_pipeline.table.merging import Validity
from deltaic_pipeline.table.target import DeltaTarget

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import ExpectationVerdict


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a dataset: the dataset, the run's id and its options."""

    dataset: dataset_model.Dataset
    run_id: str
    wait: timedelta = timedelta(0)
    origin: Callable[[Sequence[str | int]], str] = field(default=lambda path: ".".join(map(str, path)))
    runs: str = ""
    """Location of the runs table, which shows if an earlier attempt had nothing to commit; empty at the first one."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Result of a successful run, with numbers of rows."""

    run_id: str
    location: str
    version: int | None
    """Latest version of the table with rows of this run; None if there was nothing to write."""

    repeated: bool
    rows: int
    """Number of rows of the last step and of malformed rows of sources; 0 if an earlier attempt wrote them."""

    seconds: float
    batches: int = 1
    verdicts: Sequence[ExpectationVerdict] = ()
    written: int = 0
    """Number of rows that the run added to the table; for merge, new and changed rows; for scd2, new states."""

    unchanged: int = 0
    """Number of rows that the table already contains with the same key and values, for merge and scd2."""

    deleted: int = 0
    """Number of deleted keys; for scd2, of keys whose current state ended without a new one."""

    quarantined: int = 0
    dropped: int = 0
    """Number of rows that an expectation or a source left out without quarantining them."""

    metrics: dict[str, int] = field(default_factory=dict)
    created: Sequence[str] = ()
    """Names of the share, schema and table that the run created in the catalog."""

    committed: bool = True
    """Whether the run made a commit; if not, an earlier run committed `version`."""

    redelivered: bool = False
    """Whether the table's last write had exactly the same input, so that nothing was read."""

    @property
    def other_counts(self) -> dict[str, int]:
        """Numbers of deleted keys and of rows that were not written, by the name of the count; for messages."""
        names = ("deleted", "unchanged", "quarantined", "dropped")
        return {name: getattr(self, name) for name in names}


def target_of(dataset: dataset_model.Dataset) -> DeltaTarget:
    """Convert the target and write mode of a dataset to the target that `deltaic_pipeline.table` writes."""
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
    """Describe the written rows of a run in one line."""
    if part.repeated:
        return f"version {part.version} already has this run's rows"
    if part.redelivered:
        return f"version {part.version} is unchanged, the last run wrote the same delivery"
    if part.version is None:
        return "no new rows"
    other_counts = [f"{count:,} {name}" for name, count in part.other_counts.items() if count]
    version = f"version {part.version}" + ("" if part.committed else " is unchanged")
    return ", ".join([version, f"{part.written:,} rows", *other_counts])
