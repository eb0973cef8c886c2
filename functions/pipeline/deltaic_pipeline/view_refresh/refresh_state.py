"""Read the state of a Delta table from its log, and of a view from its last commit."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.jvm import to_dict
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot, parse_mark
from deltaic_pipeline.table.transactions import RECENT_COMMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "deltaic-view"
VERSION_BITS = 32
"""Number of low bits of a transaction's version that hold the source's version; the other bits count refreshes."""

Mark = tuple[int, str, dict[str, Any]]
"""Version of a commit, its time, and the `userMetadata` of its writer."""


@dataclass(frozen=True, slots=True)
class TableState:
    """State of a Delta table at one version."""

    location: str
    version: int
    id: str
    columns: str
    properties: Mapping[str, str]
    snapshot: Any

    def transactions(self) -> dict[str, int]:
        """Return the latest version of each application id (Delta protocol, "Transaction Identifiers")."""
        actions = self.snapshot.setTransactions()
        return {str(action.appId()): int(action.version()) for action in map(actions.apply, range(actions.size()))}

    def bytes(self) -> int:
        """Return the size of all data files in bytes."""
        return int(self.snapshot.sizeInBytes())

    def rows(self, spark: "SparkSession") -> "DataFrame":
        """Return the table's rows at this version (lazily)."""
        return spark.read.format("delta").option("versionAsOf", self.version).load(spark_path(self.location))

    def row_counts(self, spark: "SparkSession") -> dict[str, int]:
        """Return the number of rows of each audience (partition of a view), from the statistics of the data files."""
        from pyspark.sql import DataFrame

        files = DataFrame(self.snapshot.allFiles().toDF(), spark)
        count = "CAST(get_json_object(stats, '$.numRecords') AS BIGINT) AS rows"
        audience = f"partitionValues['{AUDIENCE_COLUMN}'] AS audience"
        rows: list[Any] = files.selectExpr(audience, count).groupBy("audience").sum("rows").collect()
        return {row[0]: int(row[1] or 0) for row in rows}


@dataclass(frozen=True, slots=True)
class RefreshState:
    """State of a view's rows, which their last commit records as a transaction in the log (decision 88)."""

    number: int
    definition: str
    source_id: str
    source_columns: str
    source_version: int

    @classmethod
    def of(cls, table: TableState) -> "RefreshState | None":
        """Read the state from a view's table; None if no refresh has written the table."""
        prefix = f"{APPLICATION}/"
        commits = [(version, name) for name, version in table.transactions().items() if name.startswith(prefix)]
        if not commits:
            return None
        version, name = max(commits)
        _, definition, source_id, source_columns = name.split("/")
        return cls(version >> VERSION_BITS, definition, source_id, source_columns, version & ((1 << VERSION_BITS) - 1))

    @property
    def application(self) -> str:
        """Application id of the commit's transaction."""
        return f"{APPLICATION}/{self.definition}/{self.source_id}/{self.source_columns}"

    @property
    def version(self) -> int:
        """Version of the commit's transaction, which increases with every commit."""
        return self.number << VERSION_BITS | self.source_version


def table_state(spark: "SparkSession", location: str) -> TableState | None:
    """Return the state of a Delta table at its latest version; None if the table does not exist."""
    snapshot = latest_snapshot(spark, spark_path(location))
    if snapshot.version() < 0:
        return None
    metadata = snapshot.metadata()
    properties = to_dict(metadata.configuration())
    return TableState(
        location,
        int(snapshot.version()),
        str(metadata.id()),
        digest(_shape(json.loads(metadata.schemaString()))),
        properties,
        snapshot,
    )


def recent_marks(spark: "SparkSession", location: str) -> list[Mark]:
    """Return version, time and `userMetadata` of the latest refresh commits of a view, newest first."""
    from delta.tables import DeltaTable

    commits: list[Any] = DeltaTable.forPath(spark, spark_path(location)).history(RECENT_COMMITS).collect()
    marks = [(commit["version"], utc(commit["timestamp"]), parse_mark(commit["userMetadata"])) for commit in commits]
    return [mark for mark in marks if "view" in mark[2]]


def utc(time: datetime) -> str:
    """Format a time in UTC with milliseconds, such as `2026-11-22T08:00:00.000+00:00`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def digest(value: object) -> str:
    """Return the first 16 digits of the SHA-256 digest of a value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _shape(schema: Any) -> Any:
    """Remove comments, defaults and nullability from a schema, which do not change rows."""
    if isinstance(schema, list):
        return [_shape(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shape = {name: _shape(value) for name, value in schema.items() if name not in {"metadata", "nullable"}}
    physical_name = schema.get("metadata", {}).get("delta.columnMapping.physicalName")
    return {**shape, "physicalName": physical_name} if physical_name else shape
