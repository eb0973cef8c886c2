"""Measure the cost of a dataset run: `uv run python -m bench.datasets [--rows 20000000] [--rounds 1] [--report]`.

In one warm Spark session, rows from CSV files are written to a Delta table, by Spark alone (the baseline) and by
datasets. CPU seconds are those of the whole JVM with its compiler and garbage collector, as the minimum of the rounds;
unlike elapsed time, they hardly depend on other processes. A goal is the maximum ratio to the case in column `to`.
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
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_terminal.progress import Step, silent

from bench.process import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "datasets.md"
ROWS, FEW = 900_000, 30_000
PARTS = ("rows", "merge", "scd2", "view", "fresh")
BASELINE, FIRST_REFRESH = "plain read and write", "view, first refresh"
GOALS = {
    BASELINE: (BASELINE, None),
    "4 expectations": (BASELINE, 1.3),
    "4 expectations, quarantine": (BASELINE, 1.3),
    "8 expectations, merge into a new table": (BASELINE, 2.0),
    "8 expectations, merge, same files again": (BASELINE, 0.1),
    "8 expectations, scd2 into a new table": (BASELINE, 2.0),
    "8 expectations, scd2, same files again": (BASELINE, 0.1),
    "view, any 1 %": (FIRST_REFRESH, None),
    "view, the last 1 % after that": (FIRST_REFRESH, 0.33),
}
OVERWRITE = {"mode": "overwrite"}
MERGE = {"mode": "merge", "keys": ["id"]}
SCD2 = {"mode": "scd2", "keys": ["id"], "at": "at"}
SITES = ("oslo", "rome", "bern", "graz")
SCHEMA = "id BIGINT, site STRING, day DATE, dose DOUBLE, grade INT, note STRING, at TIMESTAMP"
COLUMNS_SQL = (
    "id",
    "element_at(array('oslo', 'rome', 'bern', 'graz'), CAST(1 + id * 7 % 4 AS INT)) AS site",
    "date_add(DATE'2026-01-01', CAST(id % 300 AS INT)) AS day",
    "round(rand(1) * 100, 2) AS dose",
    # Some rows in a thousand fail.
    "IF(id % 1000 = 7 OR id % 1000 = 500, -1, CAST(id % 5 AS INT)) AS grade",
    "concat('note ', CAST(rand(2) * 1000 AS INT)) AS note",
    "timestamp_seconds(1767225600 + id % 100000) AS at",
)
ROW_RULES = (
    {"expect": "not_null", "columns": ["id", "site"]},
    {"expect": "range", "column": "grade", "min": 0, "max": 9},
    {"expect": "accepted_values", "column": "site", "values": list(SITES)},
    {"expect": "sql", "condition": "dose <= 100"},
)
TABLE_RULES = (
    {"expect": "range", "column": "dose", "min": 0},
    {"expect": "unique", "columns": ["id"]},
    {"expect": "row_count", "min": 1},
    {"expect": "not_null", "columns": ["day"]},
)
TABLE_SETTINGS = {"comment": "Doses by site", "columns": {"id": "the dose", "dose": "in mg"}, "cluster_by": ["site"]}


class _NoLeases(Leases):
    """Implementation of leases that does nothing, because the benchmark is the only writer."""

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None: ...

    def renew(self, location: str, holder: str, ttl: timedelta) -> None: ...

    def release(self, location: str, holder: str) -> None: ...


CATALOG = JobCatalog(_NoLeases(""), CatalogAdmin("", ""))
"""Catalog that is never called, because the benchmark shares no table."""


def main() -> None:
    """Run the benchmark and print its results as a table; with --report, also write them to `datasets.md`."""
    parser = argparse.ArgumentParser(prog="bench.datasets", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="heap size of the JVM")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this part; repeatable")
    parser.add_argument("--report", action="store_true", help=f"write {NAME}")
    parser.add_argument("--fresh", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fresh:
        print(_run_and_measure(options.fresh))
        return
    parts = options.only or PARTS
    with tempfile.TemporaryDirectory() as folder:
        spark = session("bench", memory=options.memory)
        try:
            benchmark = DatasetBenchmark(spark, Path(folder), options.rows)
            for number in range(options.rounds):
                benchmark.round(number, parts)
            write_rows(spark, Path(folder) / "few", FEW)
        finally:
            stop(spark)
        minimum = {name: min(seconds) for name, seconds in benchmark.seconds.items()}
        if "fresh" in parts:
            minimum["a fresh process"] = min(_fresh_process(Path(folder)) for _ in range(options.rounds))
    print(page(options.rows, minimum))
    if options.report:
        _write(options.rows, page(options.rows, minimum))


class DatasetBenchmark:
    """The measured cases, with the CPU seconds of each case in every round."""

    def __init__(self, spark: "SparkSession", folder: Path, rows: int) -> None:
        self.spark, self._folder, self._rows = spark, folder, rows
        self._pid = java_process(spark)
        self.seconds: dict[str, list[float]] = {}
        write_rows(spark, folder / "csv", rows)

    def round(self, number: int, parts: Sequence[str]) -> None:
        """Run the cases of the given parts (groups of cases) once, each case with a new table."""
        folder = self._folder / str(number)
        source = self.spark.read.csv(str(self._folder / "csv"), schema=SCHEMA, header=True, mode="FAILFAST")
        self._timed(BASELINE, lambda: source.write.format("delta").save(str(folder / "plain")))
        if "rows" in parts:
            mixed = with_action("fail", ROW_RULES[::2]) + with_action("drop", ROW_RULES[1::2])
            self._run("4 expectations", folder / "failed", OVERWRITE, mixed)
            self._run("4 expectations, quarantine", folder / "aside", OVERWRITE, with_action("quarantine", ROW_RULES))
        for mode, write in (("merge", MERGE), ("scd2", SCD2)):
            if mode in parts:
                rules = with_action("quarantine", ROW_RULES) + with_action("fail", TABLE_RULES)
                self._run(f"8 expectations, {mode} into a new table", folder / mode, write, rules)
                self._run(f"8 expectations, {mode}, same files again", folder / mode, write, rules)
                for file in (self._folder / "csv").iterdir():
                    file.touch()
                self._run(f"8 expectations, {mode}, same rows in new files", folder / mode, write, rules)
        if "view" in parts:
            self._view(folder)

    def _run(self, name: str, location: Path, write: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> None:
        run = dataset_run(self._folder / "csv", location, write, rules, name)
        self._timed(name, lambda: build(self.spark, run, CATALOG, silent))

    def _view(self, folder: Path) -> None:
        rows = self.spark.read.csv(str(self._folder / "csv"), schema=SCHEMA, header=True)
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(folder / "source"))
        sql = "SELECT id, site, day, dose, grade, note FROM source WHERE site = current_recipient('site')"
        table = SourceTable("a.b.source", str(folder / "source"))
        view = Definition("a.b.view", str(folder / "view"), sql, table, key=("id",))
        audiences = [Audience(site, {"site": site}) for site in SITES]
        # The change of any 1 % comes first: it must keep files in ranges of keys, or the next refresh reads all files.
        last = f"id >= {self._rows * 99 // 100}"
        changes = {FIRST_REFRESH: "", "view, any 1 %": "id % 101 = 3", "view, the last 1 % after that": last}
        for name, changed in changes.items():
            if changed:
                DeltaTable.forPath(self.spark, str(folder / "source")).update(changed, {"dose": "dose + 1"})
            session, existing = self.spark.newSession(), SITES if changed else ()
            self._timed(name, partial(refresh, session, view, audiences, existing, name))

    def _timed(self, name: str, work: Callable[[], object]) -> None:
        before = cpu_seconds(self._pid)
        work()
        cpu = cpu_seconds(self._pid) - before
        self.seconds.setdefault(name, []).append(cpu)
        print(f"{time.strftime('%H:%M:%S')}  {name}: {cpu:.1f} s", file=sys.stderr, flush=True)


def java_process(spark: "SparkSession") -> int:
    """Return the process id of the Spark session's JVM."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 -- pyspark has no public access
    return int(gateway.proc.pid)


def write_rows(spark: "SparkSession", folder: Path, rows: int) -> None:
    """Write `rows` random rows as CSV files; two of every thousand fail an expectation."""
    spark.range(rows).selectExpr(*COLUMNS_SQL).write.csv(str(folder), header=True)


def with_action(action: str, expectations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a copy of the expectations, all with this action for rows that fail."""
    return [{**rule, "action": action} for rule in expectations]


def dataset_run(
    rows: Path, location: Path, write: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], run_id: str
) -> Run:
    """Return a run of the dataset that writes the CSV rows to `location`, with `rules` as its expectations."""
    source = {"format": "csv", "paths": [str(rows)], "schema": SCHEMA}
    target = {"location": str(location), **TABLE_SETTINGS}
    content = {"name": "doses", "sources": {"doses": source}, "target": target, "write": write, "expectations": rules}
    return Run(dataset_of(yaml.safe_dump(content), "doses.yaml")[0], run_id)


def _fresh_process(folder: Path) -> float:
    command = [sys.executable, "-m", "bench.datasets", "--fresh", str(folder)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _run_and_measure(folder: Path) -> float:
    spark = session("bench")
    rules = with_action("quarantine", ROW_RULES) + with_action("fail", TABLE_RULES)
    location = folder / f"fresh-{time.time_ns()}"
    build(spark, dataset_run(folder / "few", location, MERGE, rules, "run"), CATALOG, _show_step)
    cpu = cpu_seconds(java_process(spark))
    stop(spark)
    return cpu


def _show_step(now: Step) -> None:
    if now.seconds is not None:
        print(f"    {now.text}: {now.seconds:.1f} s", file=sys.stderr, flush=True)


def page(rows: int, minimum: Mapping[str, float]) -> str:
    """Return the Markdown section for one number of rows; `minimum` maps each case to its lowest CPU seconds."""
    lines = ["| case | CPU seconds | ratio | to | goal |", "|---|---|---|---|---|"]
    for name, seconds in minimum.items():
        floor, goal = GOALS.get(name, (BASELINE, None))
        ratio = f"{seconds / minimum[floor]:.2f}" if floor in minimum else ""
        lines.append(f"| {name} | {seconds:.1f} | {ratio} | {floor} | {goal or ''} |")
    return "\n".join([f"## {rows:,} rows", "", *lines])


def _write(rows: int, text: str) -> None:
    file, heading = Path(__file__).with_name(NAME), f"## {rows:,} rows\n"
    chapters = file.read_text().split("\n\n## ") if file.exists() else ["# Cost of a dataset run"]
    others = [chapter for chapter in chapters if f"## {chapter}\n".partition("\n")[0] != heading.strip()]
    file.write_text("\n\n".join([others[0], *(f"## {chapter.strip()}" for chapter in others[1:]), text]) + "\n")


if __name__ == "__main__":
    main()
