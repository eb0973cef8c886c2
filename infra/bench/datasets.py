"""Measures what a dataset's run costs: `uv run python -m bench.datasets [--rows 20000000] [--rounds 1] [--report]`.

Rows of CSV are read and written as a Delta table by Spark alone (the floor), and as datasets, in one warm session. CPU
is that of the whole JVM, the compiler's and the collector's too, the least of some rounds; seconds on a clock would be
those of whoever else is busy. Cases are held to multiples of the floor, those of a view and of a fresh process to
what stands beside them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from delta.tables import DeltaTable
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.leases import Leases
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import Run
from deltaic_pipeline.spark.session import session, stop
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_terminal.progress import Step, silent

from bench.process import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "datasets.md"
ROWS, FEW = 900_000, 30_000
PARTS = ("rows", "merge", "scd2", "view", "fresh")
PLAIN, FIRST = "plain read and write", "view, first refresh"
GOALS = {
    PLAIN: (PLAIN, None),
    "4 expectations": (PLAIN, 1.3),
    "4 expectations, quarantine": (PLAIN, 1.3),
    "8 expectations, merge into a new table": (PLAIN, 2.0),
    "8 expectations, merge, same files again": (PLAIN, 0.1),
    "8 expectations, scd2 into a new table": (PLAIN, 2.0),
    "8 expectations, scd2, same files again": (PLAIN, 0.1),
    "view, any 1 %": (FIRST, None),
    "view, the last 1 % after that": (FIRST, 0.33),
}
OVERWRITE = {"mode": "overwrite"}
MERGE = {"mode": "merge", "keys": ["id"]}
SCD2 = {"mode": "scd2", "keys": ["id"], "at": "at"}
SITES = ("oslo", "rome", "bern", "graz")
SCHEMA = "id BIGINT, site STRING, day DATE, dose DOUBLE, grade INT, note STRING, at TIMESTAMP"
MADE = (
    "id",
    "element_at(array('oslo', 'rome', 'bern', 'graz'), CAST(1 + id * 7 % 4 AS INT)) AS site",
    "date_add(DATE'2026-01-01', CAST(id % 300 AS INT)) AS day",
    "round(rand(1) * 100, 2) AS dose",
    # Some rows in a thousand fail.
    "IF(id % 1000 = 7 OR id % 1000 = 500, -1, CAST(id % 5 AS INT)) AS grade",
    "concat('note ', CAST(rand(2) * 1000 AS INT)) AS note",
    "timestamp_seconds(1767225600 + id % 100000) AS at",
)
OF_ROWS = (
    {"expect": "not_null", "columns": ["id", "site"]},
    {"expect": "range", "column": "grade", "min": 0, "max": 9},
    {"expect": "accepted_values", "column": "site", "values": list(SITES)},
    {"expect": "sql", "condition": "dose <= 100"},
)
OF_ALL = (
    {"expect": "range", "column": "dose", "min": 0},
    {"expect": "unique", "columns": ["id"]},
    {"expect": "row_count", "min": 1},
    {"expect": "not_null", "columns": ["day"]},
)
TOLD = {"comment": "Doses by site", "columns": {"id": "the dose", "dose": "in mg"}, "cluster_by": ["site"]}


class _Nobody(Leases):
    """Leases of one writer, on nobody's disk."""

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None: ...

    def renew(self, location: str, holder: str, ttl: timedelta) -> None: ...

    def release(self, location: str, holder: str) -> None: ...


CATALOG = Catalog(_Nobody(""), CatalogAdmin("", ""))
"""Nothing is shared, so that its entries are never asked for."""


def main() -> None:
    """Measure, print, and write the table beside the report if that is asked for."""
    parser = argparse.ArgumentParser(prog="bench.datasets", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="Java's heap")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure these parts")
    parser.add_argument("--report", action="store_true", help=f"write {NAME}")
    parser.add_argument("--fresh", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.fresh:
        print(_process(said.fresh))
        return
    parts = said.only or PARTS
    with tempfile.TemporaryDirectory() as folder:
        spark = session("bench", memory=said.memory)
        try:
            measured = Measured(spark, Path(folder), said.rows)
            for number in range(said.rounds):
                measured.round(number, parts)
            written(spark, Path(folder) / "few", FEW)
        finally:
            stop(spark)
        least = {name: min(seconds) for name, seconds in measured.seconds.items()}
        if "fresh" in parts:
            least["a fresh process"] = min(_fresh(Path(folder)) for _ in range(said.rounds))
    print(page(said.rows, least))
    if said.report:
        _write(said.rows, page(said.rows, least))


class Measured:
    """The cases, each with its CPU seconds of every round."""

    def __init__(self, spark: "SparkSession", folder: Path, rows: int) -> None:
        self.spark, self._folder, self._rows = spark, folder, rows
        self._pid = java_process(spark)
        self.seconds: dict[str, list[float]] = {}
        written(spark, folder / "csv", rows)

    def round(self, number: int, parts: Sequence[str]) -> None:
        """Run every case once, over tables of its own."""
        place = self._folder / str(number)
        source = self.spark.read.csv(str(self._folder / "csv"), schema=SCHEMA, header=True, mode="FAILFAST")
        self._timed(PLAIN, lambda: source.write.format("delta").save(str(place / "plain")))
        if "rows" in parts:
            mixed = of("fail", OF_ROWS[::2]) + of("drop", OF_ROWS[1::2])
            self._run("4 expectations", place / "failed", OVERWRITE, mixed)
            self._run("4 expectations, quarantine", place / "aside", OVERWRITE, of("quarantine", OF_ROWS))
        for mode, write in (("merge", MERGE), ("scd2", SCD2)):
            if mode in parts:
                expected = of("quarantine", OF_ROWS) + of("fail", OF_ALL)
                self._run(f"8 expectations, {mode} into a new table", place / mode, write, expected)
                self._run(f"8 expectations, {mode}, same files again", place / mode, write, expected)
                for file in (self._folder / "csv").iterdir():
                    file.touch()
                self._run(f"8 expectations, {mode}, same rows in new files", place / mode, write, expected)
        if "view" in parts:
            self._view(place)

    def _run(self, name: str, location: Path, write: Mapping[str, Any], expected: Sequence[Mapping[str, Any]]) -> None:
        run = declared(self._folder / "csv", location, write, expected, name)
        self._timed(name, lambda: build(self.spark, run, CATALOG, silent))

    def _view(self, place: Path) -> None:
        rows = self.spark.read.csv(str(self._folder / "csv"), schema=SCHEMA, header=True)
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(place / "source"))
        sql = "SELECT id, site, day, dose, grade, note FROM source WHERE site = current_recipient('site')"
        table = SourceTable("a.b.source", str(place / "source"))
        view = Definition("a.b.view", str(place / "view"), sql, table, key=("id",))
        audiences = [Audience(site, {"site": site}) for site in SITES]
        # The spread change comes first: it must leave the files in ranges of keys, or the next one reads all of them.
        last = f"id >= {self._rows * 99 // 100}"
        changes = {FIRST: "", "view, any 1 %": "id % 101 = 3", "view, the last 1 % after that": last}
        for name, changed in changes.items():
            if changed:
                DeltaTable.forPath(self.spark, str(place / "source")).update(changed, {"dose": "dose + 1"})
            own, known = self.spark.newSession(), SITES if changed else ()
            self._timed(name, partial(refresh, own, view, audiences, known, name))

    def _timed(self, name: str, work: Callable[[], object]) -> None:
        before = cpu_seconds(self._pid)
        work()
        spent = cpu_seconds(self._pid) - before
        self.seconds.setdefault(name, []).append(spent)
        print(f"{time.strftime('%H:%M:%S')}  {name}: {spent:.1f} s", file=sys.stderr, flush=True)


def java_process(spark: "SparkSession") -> int:
    """Return the id of the JVM's process."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 -- pyspark has no public way to it
    return int(gateway.proc.pid)


def written(spark: "SparkSession", folder: Path, rows: int) -> None:
    """Write rows of CSV, of which two in a thousand fail an expectation."""
    spark.range(rows).selectExpr(*MADE).write.csv(str(folder), header=True)


def of(action: str, expectations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return expectations with what becomes of rows that fail them."""
    return [{**one, "action": action} for one in expectations]


def declared(
    rows: Path, location: Path, write: Mapping[str, Any], expected: Sequence[Mapping[str, Any]], run_id: str
) -> Run:
    """Return a run of a dataset."""
    source = {"format": "csv", "paths": [str(rows)], "schema": SCHEMA}
    target = {"location": str(location), **TOLD}
    said = {"name": "doses", "sources": {"doses": source}, "target": target, "write": write, "expectations": expected}
    return Run(dataset_of(yaml.safe_dump(said), "doses.yaml")[0], run_id)


def _fresh(folder: Path) -> float:
    """Return the CPU seconds of the JVM of a job in a process of its own."""
    words = [sys.executable, "-m", "bench.datasets", "--fresh", str(folder)]
    return float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _process(folder: Path) -> float:
    spark = session("bench")
    expected = of("quarantine", OF_ROWS) + of("fail", OF_ALL)
    location = folder / f"fresh-{time.time_ns()}"
    build(spark, declared(folder / "few", location, MERGE, expected, "run"), CATALOG, _shown)
    spent = cpu_seconds(java_process(spark))
    stop(spark)
    return spent


def _shown(now: Step) -> None:
    if now.seconds is not None:
        print(f"    {now.text}: {now.seconds:.1f} s", file=sys.stderr, flush=True)


def page(rows: int, least: Mapping[str, float]) -> str:
    """Return the table of one number of rows."""
    lines = ["| case | CPU seconds | times | of | goal |", "|---|---|---|---|---|"]
    for name, seconds in least.items():
        floor, goal = GOALS.get(name, (PLAIN, None))
        ratio = f"{seconds / least[floor]:.2f}" if floor in least else ""
        lines.append(f"| {name} | {seconds:.1f} | {ratio} | {floor} | {goal or ''} |")
    return "\n".join([f"## {rows:,} rows", "", *lines])


def _write(rows: int, text: str) -> None:
    file, heading = Path(__file__).with_name(NAME), f"## {rows:,} rows\n"
    chapters = file.read_text().split("\n\n## ") if file.exists() else ["# What a dataset's run costs"]
    kept = [chapter for chapter in chapters if f"## {chapter}\n".partition("\n")[0] != heading.strip()]
    file.write_text("\n\n".join([kept[0], *(f"## {chapter.strip()}" for chapter in kept[1:]), text]) + "\n")


if __name__ == "__main__":
    main()
