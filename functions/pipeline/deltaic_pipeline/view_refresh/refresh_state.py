"""The state of a Delta table as its log has it, and the state of a view that its last commit of rows names."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.jvm import to_dict
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest, mark_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "deltaic-view"
VERSION_BITS = 32
"""Of a transaction's version the low bits are the source's version, and the others count the refreshes."""

RECENT_COMMITS = 20

Mark = tuple[int, str, dict[str, Any]]
"""A commit's version, its time and its writer's metadata."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A Delta table at one version."""

    location: str
    version: int
    id: str
    columns: str
    properties: Mapping[str, str]
    snapshot: Any

    def transactions(self) -> dict[str, int]:
        """Return the last version of each application that wrote by a name (protocol, "Transaction Identifiers")."""
        written = self.snapshot.setTransactions()
        each = map(written.apply, range(written.size()))
        return {str(one.appId()): int(one.version()) for one in each}

    def bytes(self) -> int:
        """Return the size of all its data files."""
        return int(self.snapshot.sizeInBytes())

    def rows(self, spark: "SparkSession") -> "DataFrame":
        """Return the table's rows at this version (lazily)."""
        return spark.read.format("delta").option("versionAsOf", self.version).load(spark_path(self.location))

    def row_counts(self, spark: "SparkSession") -> dict[str, int]:
        """Return how many rows each audience has, by the statistics that every file carries."""
        from pyspark.sql import DataFrame

        files = DataFrame(self.snapshot.allFiles().toDF(), spark)
        count = "CAST(get_json_object(stats, '$.numRecords') AS BIGINT) AS rows"
        audience = f"partitionValues['{AUDIENCE_COLUMN}'] AS audience"
        rows: list[Any] = files.selectExpr(audience, count).groupBy("audience").sum("rows").collect()
        return {row[0]: int(row[1] or 0) for row in rows}


@dataclass(frozen=True, slots=True)
class RefreshState:
    """What a view's rows are made of, as the last commit of them says (decision 88)."""

    number: int

    definition: str
    source_id: str
    source_columns: str
    source_version: int

    @classmethod
    def of(cls, table: TableState) -> "RefreshState | None":
        """Return the state of a view's table; None if no refresh has written it."""
        ours = [(version, name) for name, version in table.transactions().items() if name.startswith(f"{APPLICATION}/")]
        if not ours:
            return None
        version, name = max(ours)
        _, definition, source_id, source_columns = name.split("/")
        return cls(version >> VERSION_BITS, definition, source_id, source_columns, version & ((1 << VERSION_BITS) - 1))

    @property
    def application(self) -> str:
        """The name by which its commit is written."""
        return f"{APPLICATION}/{self.definition}/{self.source_id}/{self.source_columns}"

    @property
    def version(self) -> int:
        """The version of that application: it grows with every commit, whatever the definition."""
        return self.number << VERSION_BITS | self.source_version


def table_state(spark: "SparkSession", location: str) -> TableState | None:
    """Return a table at its latest version; None where there is none."""
    snapshot = latest(spark, spark_path(location))
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
    """Return the latest commits of a view's refreshes, newest first."""
    from delta.tables import DeltaTable

    commits: list[Any] = DeltaTable.forPath(spark, spark_path(location)).history(RECENT_COMMITS).collect()
    marks = [(commit["version"], utc(commit["timestamp"]), mark_of(commit["userMetadata"])) for commit in commits]
    return [mark for mark in marks if "view" in mark[2]]


def utc(moment: datetime) -> str:
    """Return a moment as a view's table tells it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def digest(value: object) -> str:
    """Return the short digest of what is canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _shape(schema: Any) -> Any:
    """Return a schema without what does not change its rows: comments, defaults, nullability."""
    if isinstance(schema, list):
        return [_shape(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _shape(value) for name, value in schema.items() if name not in {"metadata", "nullable"}}
    mapped = schema.get("metadata", {}).get("delta.columnMapping.physicalName")
    return {**kept, "physicalName": mapped} if mapped else kept
