"""The state of a run of a dataset: what is asked for, what came of it, and the target as the writer knows it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from deltaic_pipeline.table.merging import Validity
from deltaic_pipeline.table.target import Target

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.expectations import Verdict


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a dataset."""

    dataset: dataset_model.Dataset
    run_id: str
    wait: timedelta = timedelta(0)
    origin: Callable[[Sequence[str | int]], str] = field(default=lambda path: ".".join(map(str, path)))
    runs: str = ""
    """The runs table that knows whether an earlier attempt found nothing to commit; empty: there was no attempt."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    run_id: str
    location: str
    version: int | None
    """The latest version with rows of this run; None if there was nothing to write."""

    repeated: bool
    rows: int
    """Rows that the steps gave, and those that did not fit their source; a repeated run does not count them again."""

    seconds: float
    batches: int = 1
    verdicts: Sequence[Verdict] = ()
    written: int = 0
    """Rows that came into the table; by key those that are new there or say something new (scd2: states begun)."""

    unchanged: int = 0
    """Rows of which the table says the same already; by key only."""

    deleted: int = 0
    """Keys that were deleted; scd2: whose state was ended, and no other begun."""

    quarantined: int = 0
    dropped: int = 0
    """Rows that an expectation or a source left out, and that were not put aside."""

    metrics: dict[str, int] = field(default_factory=dict)
    made: Sequence[str] = ()
    """What there was not of share, schema and table in the catalog."""

    committed: bool = True
    """False: the table said all of it already, so that `version` is not this run's."""

    redelivered: bool = False
    """The table's last write was of the same delivery, so nothing was read."""

    @property
    def apart(self) -> dict[str, int]:
        """What became of rows that were read and not written."""
        names = ("deleted", "unchanged", "quarantined", "dropped")
        return {name: getattr(self, name) for name in names}


def target_of(dataset: dataset_model.Dataset) -> Target:
    """Return what a dataset's target and mode are to the writer."""
    table, write_as = dataset.target, dataset.write
    target = Target(
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


def told(part: Summary) -> str:
    """Say in a few words what was written."""
    if part.repeated:
        return f"version {part.version} has this run's rows already"
    if part.redelivered:
        return f"version {part.version} stays, the last run wrote the same delivery"
    if part.version is None:
        return "nothing new"
    apart = [f"{count:,} {name}" for name, count in part.apart.items() if count]
    version = f"version {part.version}" + ("" if part.committed else " stays")
    return ", ".join([version, f"{part.written:,} rows", *apart])
