"""One run of a dataset: what is asked for, what came of it, and the target as the writer knows it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from deltaic_pipeline.datasets import model
from deltaic_pipeline.expectations import Verdict
from deltaic_pipeline.merging import Validity
from deltaic_pipeline.target import Target


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a dataset."""

    dataset: model.Dataset
    run_id: str
    """Names this run: repeated with the same one, a run that had committed commits nothing."""

    wait: timedelta = timedelta(0)
    """How long to wait for another writer of the table."""

    origin: Callable[[Sequence[str | int]], str] = field(default=lambda path: ".".join(map(str, path)))
    """Says where in the file a field stands, for messages."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    run_id: str
    location: str
    version: int | None
    """The latest version with rows of this run; None if there was nothing to write."""

    repeated: bool
    rows: int
    """Rows that the steps gave; a repeated run does not count them again."""

    seconds: float
    batches: int = 1
    verdicts: Sequence[Verdict] = ()
    quarantined: int = 0
    metrics: dict[str, int] = field(default_factory=dict)
    """What Delta counted: files, bytes, rows inserted, updated and deleted."""


def target_of(dataset: model.Dataset) -> Target:
    """Return what a dataset's target and mode are to the writer."""
    said, write_as = dataset.target, dataset.write
    target = Target(
        location=said.location,
        mode=write_as.mode,
        partition_by=tuple(said.partition_by),
        keys=tuple(getattr(write_as, "keys", ())),
        change_data_feed=said.change_data_feed,
        properties=said.properties,
        evolve_schema=said.evolve_schema,
        cluster_by=tuple(said.cluster_by),
        comment=said.comment,
        column_comments=said.columns,
    )
    match write_as:
        case model.OverwritePartitions():
            return replace(target, where=write_as.where)
        case model.Scd2():
            return replace(
                target, validity=Validity(write_as.at, write_as.valid_from, write_as.valid_to, write_as.current)
            )
        case _:
            return target


def told(part: Summary, seconds: float) -> str:
    """Say in a few words what was written."""
    if part.repeated:
        return f"version {part.version} has this run's rows already"
    return f"version {part.version}, {part.rows:,} rows, {part.rows / max(seconds, 0.001):,.0f} rows/s"
