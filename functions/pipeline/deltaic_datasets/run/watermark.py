"""Read and write watermarks, which record how far runs have read databases, in Delta transaction ids."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot
from deltaic_pipeline.table.target import TRANSACTION_RETENTION, DeltaTarget
from deltaic_pipeline.table.transactions import Transaction

from deltaic_datasets.file.dataset_model import Dataset, JdbcSource
from deltaic_datasets.run.database import highest_value, read_database
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.sql_steps import locate_errors_at
from deltaic_datasets.run.windows import Window, marked_field, next_window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "deltaic-watermark/"
_LOGGED = re.compile(rf"SetTransaction\({APPLICATION}(\{{.*\}}),(\d+),(?:Some\(-?\d+\)|None)\)")


@dataclass(frozen=True, slots=True)
class Advance:
    """Description of the rows that one run reads: a window for each database source with a watermark."""

    dataset: str
    run: str
    number: int
    """Sequence number of the run among the dataset's runs in this table. The last run has the current watermarks."""

    windows: Mapping[str, Window]
    aside: bool
    """Whether a second transaction with the same id may follow, which writes rows to the quarantine table."""

    @property
    def transaction(self) -> Transaction:
        """The Delta transaction that commits the run's rows and records its windows."""
        content = {name: value for name, value in asdict(self).items() if name != "number"}
        moves_watermark = any(window.upto != window.above for window in self.windows.values())
        mark = {"dataset": self.dataset, "run": self.run}
        return Transaction(APPLICATION + json.dumps(content, sort_keys=True), self.number, mark, moves_watermark)

    def is_quarantined(self, spark: "SparkSession", dataset: Dataset) -> bool:
        """Return whether this transaction was committed to the quarantine table."""
        snapshot = latest_snapshot(spark, spark_path(dataset.quarantine_location))
        application = self.transaction.of_target(dataset.target.location).application
        return snapshot.version() >= 0 and bool(snapshot.transactions().contains(application))


def advances(spark: "SparkSession", run: Run, target: DeltaTarget) -> list[Advance]:
    """Return what earlier runs of the dataset have read, oldest first; empty if the table does not exist.

    Raises `PipelineError` if the table has a transaction retention, which would delete this information.
    """
    snapshot = latest_snapshot(spark, spark_path(target.location))
    if snapshot.version() < 0:
        return []
    if snapshot.metadata().configuration().contains(TRANSACTION_RETENTION):
        raise PipelineError(f"{target.location} has {TRANSACTION_RETENTION}, which deletes watermarks: unset it.")
    lines = str(snapshot.setTransactions().mkString("\n")).splitlines()
    advances_ = [
        Advance(
            content["dataset"],
            content["run"],
            int(logged[2]),
            {name: Window(**window) for name, window in content["windows"].items()},
            content["aside"],
        )
        for logged in map(_LOGGED.fullmatch, lines)
        if logged and (content := json.loads(logged[1]))["dataset"] == run.dataset.name
    ]
    return sorted(advances_, key=lambda advance: advance.number)


def next_advance(spark: "SparkSession", run: Run, last: Advance | None) -> Advance:
    """Query the highest value in each database with a watermark, and return the windows for this run."""
    windows: dict[str, Window] = {}
    for name, source in run.dataset.sources.items():
        if isinstance(source, JdbcSource) and source.watermark:
            with locate_errors_at(run, ("sources", name)):
                rows = read_database(spark, source)
            with locate_errors_at(run, ("sources", name, "watermark")):
                field, scale = marked_field(rows, source.watermark)
                before = last.windows.get(name) if last else None
                windows[name] = next_window(field, scale, before, highest_value(spark, source, field))
    number = last.number + 1 if last else 1
    return Advance(run.dataset.name, run.run_id, number, windows, run.dataset.quarantines)
