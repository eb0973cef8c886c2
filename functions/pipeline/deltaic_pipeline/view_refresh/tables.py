"""Delta tables as their logs tell of them: the version, the columns, who wrote last, and how many rows a policy has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest
from deltaic_pipeline.view_refresh.definition import POLICY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECENT_COMMITS = 20

Mark = tuple[int, str, dict[str, Any]]
"""A commit's version, its time and what its writer said."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A Delta table at one version."""

    location: str
    version: int
    id: str
    schema: str
    """The columns with their types and physical names as canonical JSON: the same text, the same columns."""

    properties: Mapping[str, str]
    log: Any
    snapshot: Any

    def transactions(self) -> dict[str, int]:
        """Return the last version of each application that wrote by a name (protocol, "Transaction Identifiers")."""
        written = self.snapshot.setTransactions()
        found = [written.apply(number) for number in range(written.size())]
        return {str(one.appId()): int(one.version()) for one in found}

    def last_commit(self, spark: "SparkSession") -> list[dict[str, Any]]:
        """Return the actions of the commit that made this version, without computing the table's state."""
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 -- as in `seen`
        names = jvm.org.apache.spark.sql.delta.util.FileNames
        path = names.unsafeDeltaFile(self.log.logPath(), self.version)
        lines = self.log.store().read(path, self.log.newDeltaHadoopConf())
        return [json.loads(line) for line in jvm.scala.jdk.javaapi.CollectionConverters.asJava(lines)]

    def bytes(self) -> int:
        """Return the size of all its data files."""
        return int(self.snapshot.sizeInBytes())

    def rows(self, spark: "SparkSession") -> "DataFrame":
        """Return the table's rows at this version (lazily)."""
        return spark.read.format("delta").option("versionAsOf", self.version).load(spark_path(self.location))

    def counted(self, spark: "SparkSession") -> dict[str, int]:
        """Return how many rows each policy has, by the statistics that every file carries."""
        from pyspark.sql import DataFrame

        files = DataFrame(self.snapshot.allFiles().toDF(), spark)
        count = "CAST(get_json_object(stats, '$.numRecords') AS BIGINT) AS rows"
        found: list[Any] = (
            files.selectExpr(f"partitionValues['{POLICY}'] AS policy", count).groupBy("policy").sum("rows").collect()
        )
        return {row[0]: int(row[1] or 0) for row in found}


def seen(spark: "SparkSession", location: str) -> Seen | None:
    """Return a table at its latest version; None where there is none."""
    snapshot = latest(spark, spark_path(location))
    if snapshot.version() < 0:
        return None
    metadata = snapshot.metadata()
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 -- as `latest`
    properties = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(metadata.configuration()))
    return Seen(
        location,
        int(snapshot.version()),
        str(metadata.id()),
        json.dumps(_shape(json.loads(metadata.schemaString())), sort_keys=True),
        properties,
        snapshot.deltaLog(),
        snapshot,
    )


def recent_marks(spark: "SparkSession", location: str) -> list[Mark]:
    """Return the latest commits that carry a mark of their writer, newest first."""
    from delta.tables import DeltaTable

    commits: list[Any] = DeltaTable.forPath(spark, spark_path(location)).history(RECENT_COMMITS).collect()
    return [(commit["version"], _moment(commit["timestamp"]), mark) for commit in commits if (mark := _mark(commit))]


def _moment(local: datetime) -> str:
    return local.astimezone(UTC).isoformat(timespec="milliseconds")


def _mark(commit: Any) -> dict[str, Any]:
    try:
        found = json.loads(commit["userMetadata"] or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _shape(found: Any) -> Any:
    """Return a schema without what does not change its rows: comments, defaults, nullability."""
    if isinstance(found, list):
        return [_shape(one) for one in found]
    if not isinstance(found, dict):
        return found
    kept = {name: _shape(value) for name, value in found.items() if name not in {"metadata", "nullable"}}
    mapped = found.get("metadata", {}).get("delta.columnMapping.physicalName")
    return {**kept, "physicalName": mapped} if mapped else kept
