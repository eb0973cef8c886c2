"""Build a golden table, read it back with Spark, and store both for tests without Spark."""

# ruff: noqa: T201 -- building takes minutes and prints its progress

import json
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

PLACEHOLDER = "file:/golden-tables"
"""Replaces, in stored logs, the URI of the folder of all tables (absolute paths of shallow clones)."""

BUILDERS: "dict[str, Callable[[Bench], None]]" = {}


def golden(builder: "Callable[[Bench], None]") -> "Callable[[Bench], None]":
    """Register a function that builds the table of the same name; its docstring describes the table."""
    BUILDERS[builder.__name__] = builder
    return builder


@dataclass(frozen=True)
class Bench:
    """Folder of a table that is being built, below `root`."""

    spark: "SparkSession"
    root: Path
    name: str

    @property
    def path(self) -> Path:
        """The table's folder."""
        return self.root / self.name / "delta"

    @property
    def log(self) -> Path:
        """The table's log."""
        return self.path / "_delta_log"

    def sql(self, *statements: str) -> None:
        """Run statements in which `{t}` is this table; each write creates a version."""
        for statement in statements:
            self.spark.sql(statement.replace("{t}", f"delta.`{self.path}`")).collect()

    def create(self, columns: str, tail: str = "", **properties: str) -> None:
        """Create the empty table; write dots in property names as two underscores."""
        pairs = ", ".join(f"'delta.{name.replace('__', '.')}' = '{value}'" for name, value in properties.items())
        clause = f"TBLPROPERTIES ({pairs})" if pairs else ""
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING delta {tail} {clause}")

    def write(self, rows: "DataFrame", mode: str = "append", **options: str) -> None:
        """Write rows with the DataFrame API."""
        rows.write.format("delta").mode(mode).options(**options).save(str(self.path))

    def checkpoint(self) -> None:
        """Write a checkpoint of the latest version."""
        jvm: Any = self.spark.sparkContext._jvm
        session: Any = self.spark._jsparkSession
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, str(self.path)).checkpoint()

    def forget(self) -> None:
        """Clear Spark's cache of the log, after a change by hand."""
        jvm: Any = self.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def commit(self, version: int) -> list[dict[str, Any]]:
        """Return the actions of a commit."""
        text = (self.log / f"{version:020}.json").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line]

    def rewrite(self, version: int, actions: list[dict[str, Any]], name: str = "") -> None:
        """Replace a commit, or write another file of the log."""
        target = self.log / (name or f"{version:020}.json")
        lines = [json.dumps(action, separators=(",", ":"), ensure_ascii=False) for action in actions]
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.log / f".{target.name}.crc").unlink(missing_ok=True)

    @contextmanager
    def conf(self, **settings: str) -> "Iterator[None]":
        """Set `spark.databricks.delta.*` settings during a block; write dots as two underscores."""
        names = {f"spark.databricks.delta.{name.replace('__', '.')}": value for name, value in settings.items()}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in names:
                self.spark.conf.unset(name)


def build(bench: Bench) -> None:
    """Build a table, and store what Spark reads from every version and from the change feed."""
    BUILDERS[bench.name](bench)
    bench.forget()
    expected = bench.root / bench.name / "expected"
    expected.mkdir(parents=True)
    versions = sorted(int(file.name[:20]) for file in bench.log.glob("0*.json") if file.name[20:] == ".json")
    readable = []
    for version in versions:
        try:
            table = rows(bench.spark, bench.path, version)
        except Exception as unreadable:  # noqa: BLE001 -- some files or commits are deleted by design
            print(f"  {bench.name} version {version} is not readable: {str(unreadable).splitlines()[0][:120]}")
            continue
        pq.write_table(table, expected / f"{version}.parquet", compression="zstd")
        readable.append(version)
    feed = None
    if readable:
        feed = change_feed(bench.spark, bench.path, readable)
    if feed is not None:
        pq.write_table(feed[1], expected / "changes.parquet", compression="zstd")
    description = {
        "shows": " ".join((BUILDERS[bench.name].__doc__ or "").split()),
        "versions": readable,
        "changes": None if feed is None else feed[0],
    }
    (bench.root / bench.name / "golden.json").write_text(json.dumps(description, indent=1) + "\n")


def rows(spark: "SparkSession", path: Path, version: int) -> pa.Table:
    """Return what Spark reads at a version; variants as JSON."""
    table = spark.read.format("delta").option("versionAsOf", version).load(str(path))
    return as_arrow(table)


def change_feed(spark: "SparkSession", path: Path, versions: list[int]) -> tuple[list[int], pa.Table] | None:
    """Return range and rows of the longest feed up to the last version, or None."""
    for first in versions:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", first).option("endingVersion", versions[-1])
        try:
            table = as_arrow(reader.load(str(path)))
        except Exception:  # noqa: BLE001, S112 -- disabled, or across a schema change: try a later start
            continue
        return [first, versions[-1]], table
    return None


def as_arrow(table: "DataFrame") -> pa.Table:
    """Return the rows; variants as JSON."""
    expressions = [
        f"to_json(`{field.name}`) AS `{field.name}`" if field.dataType.typeName() == "variant" else f"`{field.name}`"
        for field in table.schema.fields
    ]
    return table.selectExpr(*expressions).toArrow()


def store(built: Path, name: str, target: Path) -> None:
    """Copy a built table to `target`, without Hadoop's checksums and with relocatable absolute paths."""
    shutil.rmtree(target / name, ignore_errors=True)

    def ignored(_: str, names: list[str]) -> list[str]:
        hidden = [entry for entry in names if entry.startswith(".") and entry.endswith(".crc")]
        return [*hidden, *(entry for entry in names if entry == "_staged_commits")]

    shutil.copytree(built / name, target / name, ignore=ignored)
    for file in (target / name / "delta" / "_delta_log").glob("*.json"):
        text = file.read_bytes()
        file.write_bytes(text.replace(f"file:{built}".encode(), PLACEHOLDER.encode()))
