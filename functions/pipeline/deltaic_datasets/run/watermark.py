"""Watermarks: how far runs have read databases, by the name of the transaction that wrote their rows (decision 157)."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest
from deltaic_pipeline.table.target import FORGETS, Target
from deltaic_pipeline.table.transactions import Transaction

from deltaic_datasets.file.dataset_model import Dataset, JdbcSource
from deltaic_datasets.run.database import highest, read_database
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.sql_steps import said_where
from deltaic_datasets.run.windows import Window, marked_field, next_window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "deltaic-watermark/"
_LOGGED = re.compile(rf"SetTransaction\({APPLICATION}(\{{.*\}}),(\d+),(?:Some\(-?\d+\)|None)\)")


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a run of a dataset has read its databases."""

    dataset: str
    run: str
    number: int
    """Counts a dataset's runs in this table: the latest one holds the marks."""

    windows: Mapping[str, Window]
    aside: bool
    """Its rows may be put aside too, behind this transaction: the side table has one of the same name when they are."""

    @property
    def transaction(self) -> Transaction:
        """The transaction that commits the run's rows."""
        said = {name: value for name, value in asdict(self).items() if name != "number"}
        moves = any(window.upto != window.above for window in self.windows.values())
        mark = {"dataset": self.dataset, "run": self.run}
        return Transaction(APPLICATION + json.dumps(said, sort_keys=True), self.number, mark, moves)

    def is_put_aside(self, spark: "SparkSession", dataset: Dataset) -> bool:
        """Return whether the side table has the transaction."""
        snapshot = latest(spark, spark_path(dataset.quarantine_location))
        application = self.transaction.of_target(dataset.target.location).application
        return snapshot.version() >= 0 and bool(snapshot.transactions().contains(application))


def advances(spark: "SparkSession", run: Run, target: Target) -> list[Advance]:
    """Return how far runs of this dataset have come, in their order; a table that is not there knows of none.

    Raises `PipelineError` for a table that forgets them.
    """
    snapshot = latest(spark, spark_path(target.location))
    if snapshot.version() < 0:
        return []
    if snapshot.metadata().configuration().contains(FORGETS):
        raise PipelineError(f"{target.location} has the property {FORGETS}, and would forget what was read: unset it.")
    lines = str(snapshot.setTransactions().mkString("\n")).splitlines()
    found = [
        Advance(
            said["dataset"],
            said["run"],
            int(logged[2]),
            {name: Window(**window) for name, window in said["windows"].items()},
            said["aside"],
        )
        for logged in map(_LOGGED.fullmatch, lines)
        if logged and (said := json.loads(logged[1]))["dataset"] == run.dataset.name
    ]
    return sorted(found, key=lambda one: one.number)


def next_advance(spark: "SparkSession", run: Run, last: Advance | None) -> Advance:
    """Ask each database for its highest value, and return what this run is to read."""
    windows: dict[str, Window] = {}
    for name, source in run.dataset.sources.items():
        if isinstance(source, JdbcSource) and source.watermark:
            with said_where(run, ("sources", name)):
                rows = read_database(spark, source)
            with said_where(run, ("sources", name, "watermark")):
                field, scale = marked_field(rows, source.watermark)
                before = last.windows.get(name) if last else None
                windows[name] = next_window(field, scale, before, highest(spark, source, field))
    number = last.number + 1 if last else 1
    return Advance(run.dataset.name, run.run_id, number, windows, run.dataset.quarantines)
