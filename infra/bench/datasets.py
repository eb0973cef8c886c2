"""Measures a dataset's runs beside Spark's plain write of the same rows: `uv run python -m bench.datasets`.

For each size, in a process of its own: the rows are made as Parquet files, written once by Spark alone, then built as a
dataset with expectations by merge into a new table; a tenth of them, changed, is merged into it, and the table is
clustered. Files are on the local disk, so that Spark is measured and no store. `datasets.json` is written, which the
report takes up.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from deltaic_pipeline.building import build
from deltaic_pipeline.datasets.checking import dataset_of
from deltaic_pipeline.register import Catalog, TableName
from deltaic_pipeline.runs import Run
from deltaic_pipeline.sample import patients
from deltaic_pipeline.session import session, stop
from deltaic_pipeline.steps import silent
from deltaic_pipeline.tending import optimize

from bench.process import cpu_seconds, peak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "datasets.json"
SIZES = "1000000,5000000,20000000"
CHANGED = 10
"""Every tenth row is changed."""

MEGABYTE = 1_000_000
PARTS = {
    "plain": "plain write",
    "built": "built by merge into a new table",
    "merged": "a tenth merged",
    "clustered": "clustered",
}


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
    """Measure every size, print, write."""
    parser = argparse.ArgumentParser(prog="bench.datasets", description=__doc__)
    parser.add_argument("--rows", default=SIZES, help=f"numbers of rows, separated by commas ({SIZES})")
    parser.add_argument("--memory", default="4g", help="Spark's heap (4g)")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench/datasets"), help="where files are written")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help="where datasets.json is written")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.one:
        print(json.dumps(_measured(said.one, said.memory, said.state.resolve())))
        return 0
    sizes: list[dict[str, Any]] = []
    told = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "cores": os.cpu_count(), "memory": said.memory, "sizes": sizes}
    for rows in map(int, said.rows.split(",")):
        command = [sys.executable, "-m", "bench.datasets", "--one", str(rows)]
        command += ["--memory", said.memory, "--state", str(said.state)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        sizes.append(json.loads(done.stdout.splitlines()[-1]))
        sizes.sort(key=lambda found: int(found["plain"]["rows"]))
        (said.report / NAME).write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join(section(told)))
    return 0


def section(told: Mapping[str, Any]) -> list[str]:
    """Return the report's section."""
    loads = [load for found in told["sizes"] for load in found["load"]]
    busy = f"load per core {min(loads):.1f} to {max(loads):.1f} (other work ran beside it)"
    return [
        "`uv run python -m bench.datasets`: rows in Parquet files are written as Parquet by Spark alone (plain), built",
        "as a dataset with four expectations by merge into a new table, a tenth of them, changed, is merged into it,",
        f"and `OPTIMIZE` clusters it by two columns. A Spark of {told['memory']} heap for each size; files on disk.",
        "Seconds depend on what else runs; the ratios are of processor time, Java's compiler included, in one process,",
        "whose first work is the plain write. The merge writes every file anew, since each has changed rows; it is",
        "given the rows of its rows/s. Peak memory is that of Java and Python together.",
        "",
        f"Machine: date {told['date']}, cores {told['cores']}, {busy}.",
        "",
        "| rows | | rows/s | seconds | CPU seconds | CPU of plain | MB written | peak memory |",
        "|---|---|---|---|---|---|---|---|",
        *(line for found in told["sizes"] for line in _lines(found)),
    ]


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    plain = found["plain"]
    for name, shown in PARTS.items():
        part, last = found[name], name == "clustered"
        cells = [
            f"{plain['rows']:,}" if name == "plain" else "",
            shown,
            f"{part['rows'] / part['seconds']:,.0f}",
            f"{part['seconds']:,.0f}",
            f"{part['cpu']:,.0f}",
            f"{part['cpu'] / plain['cpu']:.1f}",
            f"{part['bytes'] / MEGABYTE:,.0f}",
            f"{found['peak']:,.0f} MB" if last else "",
        ]
        yield f"| {' | '.join(cells)} |"


def _measured(rows: int, memory: str, state: Path) -> dict[str, Any]:
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(state / "spill"))
    busy = _load()
    spark = session("bench", memory=memory)
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001 -- the JVM
    made = patients(spark, 0, rows)
    made.write.parquet(str(state / "all"))
    changed = made.where(f"patient_id % {CHANGED} = 0").selectExpr("* EXCEPT (dose)", "dose % 3 + 1 AS dose")
    changed.select(*made.columns).write.parquet(str(state / "changed"))

    def timed(action: Callable[[], tuple[int, int]]) -> dict[str, float]:
        began, cpu = time.monotonic(), cpu_seconds(java)
        count, written = action()
        return {
            "rows": count,
            "bytes": written,
            "seconds": time.monotonic() - began,
            "cpu": cpu_seconds(java) - cpu,
        }

    def plain() -> tuple[int, int]:
        folder = state / "plain"
        spark.read.parquet(str(state / "all")).write.parquet(str(folder))
        return rows, sum(file.stat().st_size for file in folder.glob("*.parquet"))

    def clustered() -> tuple[int, int]:
        return rows, optimize(spark, str(state / "table"), (), "bench").added_bytes

    found: dict[str, Any] = {
        "plain": timed(plain),
        "built": timed(lambda: _built(spark, state, "all")),
        "merged": timed(lambda: _built(spark, state, "changed")),
        "clustered": timed(clustered),
        "peak": peak(os.getpid()) + peak(java),
        "load": [busy, _load()],
    }
    stop(spark)
    shutil.rmtree(state)
    return found


def _load() -> float:
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _built(spark: "SparkSession", state: Path, source: str) -> tuple[int, int]:
    """Build the dataset; return how many rows it read and how many bytes it wrote."""
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
    summary = build(spark, run, Catalog(alone, alone), silent)
    metrics = summary.metrics
    return summary.rows, metrics.get("numTargetBytesAdded") or metrics.get("numOutputBytes") or 0


if __name__ == "__main__":
    sys.exit(main())
