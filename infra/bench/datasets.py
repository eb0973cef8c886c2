"""Measures a dataset's runs beside Spark's plain write of the same rows: `uv run python -m bench.datasets`.

For each size, in a process of its own: the rows are made as Parquet files, written once by Spark alone, then built as a
dataset with expectations and clustering by merge into a new table, and a tenth of them, changed, merged into it. Files
are on the local disk, so that Spark is measured and no store.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from deltaic_pipeline.building import build
from deltaic_pipeline.datasets.checking import dataset_of
from deltaic_pipeline.register import Catalog, TableName
from deltaic_pipeline.runs import Run, Summary
from deltaic_pipeline.sample import patients
from deltaic_pipeline.session import session, stop
from deltaic_pipeline.steps import silent

from bench.process import peak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = "1000000,5000000,20000000"
CHANGED = 10
"""Every tenth row is changed."""

MEGABYTE = 1_000_000


class Alone:
    """Leases and register of a machine on which nobody else writes and nothing is shared."""

    def acquire(self, location: str, holder: str, ttl: timedelta) -> None:
        """Let the one writer in."""

    def renew(self, location: str, holder: str, ttl: timedelta) -> None:
        """Let it go on."""

    def release(self, location: str, holder: str) -> None:
        """Let it go."""

    def check(self, name: TableName, location: str) -> None:
        """Find no name taken."""

    def register(self, name: TableName, location: str, *, history: bool, storage: str = "") -> None:
        """Share nothing."""


def main() -> int:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(prog="bench.datasets", description=__doc__)
    parser.add_argument("--rows", default=SIZES, help=f"numbers of rows, separated by commas ({SIZES})")
    parser.add_argument("--memory", default="4g", help="Spark's heap (4g)")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench/datasets"), help="where files are written")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.one:
        print(json.dumps(_measured(said.one, said.memory, said.state.resolve())))
        return 0
    print("| rows | plain write | built | of plain | a tenth merged | peak memory |\n|---|---|---|---|---|---|")
    for rows in map(int, said.rows.split(",")):
        command = [sys.executable, "-m", "bench.datasets", "--one", str(rows)]
        command += ["--memory", said.memory, "--state", str(said.state)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        print(_row(json.loads(done.stdout.splitlines()[-1])), flush=True)
    return 0


def _row(found: dict[str, Any]) -> str:
    def told(part: dict[str, Any]) -> str:
        return f"{part['rows'] / part['seconds']:,.0f} rows/s, {part['bytes'] / MEGABYTE:,.0f} MB"

    plain, built = found["plain"], found["built"]
    ratio = f"{built['seconds'] / plain['seconds']:.1f}x time, {built['bytes'] / plain['bytes']:.2f}x bytes"
    cells = [f"{plain['rows']:,}", told(plain), told(built), ratio, told(found["merged"]), f"{found['peak']:,.0f} MB"]
    return f"| {' | '.join(cells)} |"


def _measured(rows: int, memory: str, state: Path) -> dict[str, Any]:
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(state / "spill"))
    spark = session("bench", memory=memory)
    made = patients(spark, 0, rows)
    made.write.parquet(str(state / "all"))
    changed = made.where(f"patient_id % {CHANGED} = 0").selectExpr("* EXCEPT (dose)", "dose % 3 + 1 AS dose")
    changed.select(*made.columns).write.parquet(str(state / "changed"))
    plain = state / "plain"
    seconds = _timed(lambda: spark.read.parquet(str(state / "all")).write.parquet(str(plain)))
    written = sum(file.stat().st_size for file in plain.glob("*.parquet"))
    found: dict[str, Any] = {"plain": {"rows": rows, "seconds": seconds, "bytes": written}}
    found["built"] = _part(_built(spark, state, "all"))
    found["merged"] = _part(_built(spark, state, "changed"))
    found["peak"] = peak(os.getpid()) + peak(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # noqa: SLF001 -- the JVM
    stop(spark)
    shutil.rmtree(state)
    return found


def _built(spark: "SparkSession", state: Path, source: str) -> Summary:
    content = {
        "name": "patients",
        "sources": {"arrivals": {"format": "parquet", "paths": [str(state / source)]}},
        "target": {"location": str(state / "table"), "cluster_by": ["date", "site"], "change_data_feed": False},
        "write": {"mode": "merge", "keys": ["patient_id"]},
        "expectations": [
            {"expect": "not_null", "columns": ["date", "site"]},
            {"expect": "range", "column": "age", "min": 18, "max": 90, "action": "quarantine"},
            {"expect": "accepted_values", "column": "dose", "values": [1, 2, 3], "action": "drop"},
            {"expect": "row_count", "min": 1},
        ],
    }
    alone = Alone()
    run = Run(dataset_of(yaml.safe_dump(content), "patients.yaml")[0], source)
    return build(spark, run, Catalog(alone, alone), silent)


def _part(summary: Summary) -> dict[str, float]:
    metrics = summary.metrics
    written = metrics.get("numOutputBytes") or metrics.get("numTargetBytesAdded") or 0
    return {"rows": summary.rows, "seconds": summary.seconds, "bytes": written}


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
