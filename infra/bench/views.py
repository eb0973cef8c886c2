"""Measures one refresh of a view beside a job for each of its policies: `uv run python -m bench.views`.

A source of so many rows in as many regions as there are policies; the view shows each policy its region. It is
refreshed once for all, and once more after a thousandth of the rows changed; then Spark reads, filters and writes each
region by itself. Files are on the local disk, so that Spark is measured and no store. `views.json` is written, which
the report takes up.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.session import session, stop
from deltaic_pipeline.view_refresh.definition import Definition, SourceTable, Wanted
from deltaic_pipeline.view_refresh.refreshing import Refreshed, refresh

from bench.process import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "views.json"
ROWS, POLICIES = 20_000_000, 50
CHANGED = 1001
"""Every so many-th row, in every region, is changed before the second refresh."""

MEGABYTE = 1_000_000
SELECTED = "SELECT id, name, amount, at FROM source WHERE region = current_recipient('region')"
PARTS = {
    "refreshed": "one refresh for all policies",
    "changed": "the next, after a thousandth changed",
    "separate": "a job for each policy",
}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="bench.views", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the source ({ROWS:,})")
    parser.add_argument("--policies", type=int, default=POLICIES, help=f"policies, one a region ({POLICIES})")
    parser.add_argument("--memory", default="4g", help="Spark's heap (4g)")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench/views"), help="where files are written")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help=f"where {NAME} is written")
    said = parser.parse_args()
    found = _measured(said.rows, said.policies, said.memory, said.state.resolve())
    (said.report / NAME).write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(section(found)))
    return 0


def section(found: Mapping[str, Any]) -> list[str]:
    """Return the report's section."""
    cells = [
        f"| {shown} | {part['seconds']:,.0f} | {part['cpu']:,.0f} | {part['bytes'] / MEGABYTE:,.0f} | "
        f"{part['read'] / found['rows']:,.2f} |"
        for name, shown in PARTS.items()
        for part in [found[name]]
    ]
    busy = f"load per core {min(found['load']):.1f} to {max(found['load']):.1f}"
    return [
        "`uv run python -m bench.views`: each policy sees the rows of its region. One refresh makes them all in one",
        "commit; a job for each policy reads, filters and writes a Delta table by Spark alone. Passes are rows that",
        "Spark's tasks read, of files and of what they kept on disk in between, divided by those of the source.",
        f"{found['rows']:,} rows, {found['policies']} policies, a Spark of {found['memory']} heap.",
        "",
        f"Machine: date {found['date']}, cores {found['cores']}, {busy}.",
        "",
        "| | seconds | CPU seconds | MB written | passes over the source |",
        "|---|---|---|---|---|",
        *cells,
    ]


def _measured(rows: int, policies: int, memory: str, state: Path) -> dict[str, Any]:
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(state / "spill"))
    busy = _load()
    spark = session("bench", memory=memory)
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001 -- the JVM
    source = SourceTable("bench.views.source", str(state / "source"))
    spark.range(rows).selectExpr(
        "id",
        f"concat('region-', id % {policies}) AS region",
        "concat('name-', xxhash64(id)) AS name",
        "CAST(id % 10007 AS DECIMAL(12, 2)) / 100 AS amount",
        "timestamp_seconds(1700000000 + id % 31536000) AS at",
    ).write.format("delta").option("delta.enableChangeDataFeed", "true").save(source.location)
    wanted = [Wanted(f"policy-{number}", {"region": f"region-{number}"}) for number in range(policies)]
    view = Definition("bench.views.view", str(state / "view"), SELECTED, source)

    def timed(action: Callable[[], int]) -> dict[str, float]:
        began, cpu, read = time.monotonic(), cpu_seconds(java), _read(spark)
        written = action()
        return {
            "seconds": time.monotonic() - began,
            "cpu": cpu_seconds(java) - cpu,
            "bytes": written,
            "read": _read(spark) - read,
        }

    def refreshed(run: str, known: list[str]) -> int:
        before = _bytes(state / "view")
        found: Refreshed = refresh(spark.newSession(), view, wanted, known, run)
        if sum(found.rows.values()) != rows:
            raise RuntimeError(f"the view has {sum(found.rows.values()):,} rows, and not {rows:,}")
        return _bytes(state / "view") - before

    def separate() -> int:
        for number in range(policies):
            chosen = spark.read.format("delta").load(source.location).where(f"region = 'region-{number}'")
            chosen.select("id", "name", "amount", "at").write.format("delta").save(
                str(state / "separate" / str(number))
            )
        return _bytes(state / "separate")

    first = timed(lambda: refreshed("first", []))
    spark.sql(f"UPDATE delta.`{source.location}` SET amount = amount + 1 WHERE id % {CHANGED} = 0")  # noqa: S608
    known = [policy.policy for policy in wanted]
    found: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count(),
        "memory": memory,
        "rows": rows,
        "policies": policies,
        "refreshed": first,
        "changed": timed(lambda: refreshed("second", known)),
        "separate": timed(separate),
        "load": [busy, _load()],
    }
    stop(spark)
    shutil.rmtree(state)
    return found


def _read(spark: "SparkSession") -> int:
    """Return how many rows Spark's tasks have read from files and from what they kept."""
    context: Any = spark.sparkContext  # pyspark tells no rows
    nothing, of_java = context._jvm.java.util.ArrayList(), context._gateway  # noqa: SLF001 -- as above
    quantiles = of_java.new_array(of_java.jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(nothing, False, False, quantiles, nothing)  # noqa: SLF001, FBT003
    return sum(int(stages.apply(number).inputRecords()) for number in range(stages.size()))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)


def _load() -> float:
    return os.getloadavg()[0] / (os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main())
