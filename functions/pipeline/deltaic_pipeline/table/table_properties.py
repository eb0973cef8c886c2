"""Set the properties, comments and clustering of a table as its target declares them.

This commits one more version after the rows, and only if something differs.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import java_class, no_option, scala_map, scala_seq, to_dict
from deltaic_pipeline.spark.quoting import literal, quoted, unquoted
from deltaic_pipeline.spark.spark_errors import full_message, spark_failures
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.target import DeltaTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
CLUSTERS = "org.apache.spark.sql.delta.skipping.clustering"
"""Java package in Delta for clustered tables."""
CLUSTERING = "delta.feature.clustering"
"""Property that enables clustering; Delta does not store it with the table's properties."""


def describe(spark: "SparkSession", target: DeltaTarget) -> bool:
    """Set missing properties, comments and clustering in one commit; return whether anything was missing.

    Safe to repeat: a run that was killed after it committed its rows does this when it is started again.
    """
    location = spark_path(target.location)
    if not any(_statements(spark, target, location)):
        return False
    properties = _missing_properties(spark, location, target.required_properties)
    if target.cluster_by:
        properties |= _missing_properties(spark, location, {CLUSTERING: "supported"})
    transaction, metadata = propose_metadata(spark, location, properties, target=target)
    transaction.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position
    actions = scala_seq([])
    if target.cluster_by:
        clustering = java_class(f"{CLUSTERS}.ClusteredTableUtils")
        names = scala_seq(map(quoted, target.cluster_by))
        actions = clustering.getClusteringDomainMetadataForAlterTableClusterBy(names, transaction)
    # One commit, of half a second; SQL would need a commit for each property.
    operation = java_class("org.apache.spark.sql.delta.DeltaOperations$SetTableProperties")
    with session_settings(spark, {USER_METADATA: json.dumps({"described": target.description_digest})}):
        activate(spark)  # so that Delta uses its settings
        transaction.commit(actions, operation(scala_map(properties)))
    return True


@contextmanager
def session_settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Apply Spark settings to a session for the block, and unset them afterwards."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def set_properties(spark: "SparkSession", location: str, properties: Mapping[str, str]) -> None:
    """Set properties of a table in one commit, even if it has them already."""
    spark.sql(_alter(spark_path(location), properties))


def pending_sql(spark: "SparkSession", target: DeltaTarget) -> list[str]:
    """Return SQL statements for the changes that `describe` would make now; empty if the table needs none."""
    location = spark_path(target.location)
    return [statement.replace(f" delta.{quoted(location)}", "") for statement in _statements(spark, target, location)]


def check_properties(spark: "SparkSession", target: DeltaTarget) -> None:
    """Check before rows are written that Spark and Delta accept the target's properties for this table."""
    location = spark_path(target.location)
    properties = _missing_properties(spark, location, target.required_properties)
    if not properties:
        return
    constraints = [name for name in properties if name.lower().startswith("delta.constraints.")]
    if constraints:
        raise PipelineError(f"{constraints[0]} is a constraint. Add it with ALTER TABLE ... ADD CONSTRAINT.")
    spark.sql(f"EXPLAIN {_alter(location, properties)}")  # refuses names that Spark reserves, such as `provider`
    transaction, metadata = propose_metadata(spark, location, properties)
    transaction.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position


def check_clustering(spark: "SparkSession", target: DeltaTarget, schema: str = "") -> None:
    """Check before rows are written that Delta can cluster this table by the target's columns.

    `schema` is the table's future schema as JSON; empty: its current schema.
    """
    if not target.cluster_by:
        return
    transaction, metadata = propose_metadata(spark, spark_path(target.location), target.required_properties, schema)
    if not metadata.partitionColumns().isEmpty() and not target.rewrites:
        raise PipelineError(f"{target.location} is partitioned, and Delta cannot cluster it. Remove cluster_by.")
    names = scala_seq(map(quoted, target.cluster_by))
    columns = java_class(f"{CLUSTERS}.temp.ClusterBySpec").fromColumnNames(names)
    clustering = java_class(f"{CLUSTERS}.ClusteredTableUtils")
    clustering.validateClusteringColumnsInStatsSchema(transaction.protocol(), metadata, columns)


def check_new_properties(spark: "SparkSession", target: DeltaTarget) -> None:
    """Raise an error for properties that Delta rejects for a new table, and for constraints with a subquery."""
    for name, value in target.properties.items():
        if name.lower().startswith("delta.constraints."):
            refuse_queries(spark, value)
    propose_metadata(spark, spark_path(target.location), target.required_properties)


def delta_log(spark: "SparkSession", location: str) -> Any:
    """Return Delta's `DeltaLog` object for a location, even if there is no table."""
    session = spark._jsparkSession  # noqa: SLF001 -- pyspark has no public access to it
    return java_class("org.apache.spark.sql.delta.DeltaLog").forTable(session, location)


def is_delta_table(spark: "SparkSession", location: str) -> bool:
    """Return whether there is a Delta table at a location."""
    session = spark._jsparkSession  # noqa: SLF001 -- as `delta_log`
    return bool(java_class("io.delta.tables.DeltaTable").isDeltaTable(session, spark_path(location)))


def activate(spark: "SparkSession") -> None:
    """Make this session the active one in the JVM for this thread, so that Delta uses its settings."""
    java_class("org.apache.spark.sql.SparkSession").setActiveSession(spark._jsparkSession)  # noqa: SLF001 -- as above


def latest_snapshot(spark: "SparkSession", location: str) -> Any:
    """Return Delta's `Snapshot` of a table's latest version, which is -1 if there is no table."""
    # The public statements (SHOW, DESCRIBE) read the complete state of the log.
    nothing = no_option()
    return delta_log(spark, location).update(False, nothing, nothing)  # noqa: FBT003 -- Scala's, by position


def commit_lines(snapshot: Any, version: int) -> Generator[dict[str, Any]]:
    """Yield the actions of a commit file one by one, without computing the table's state."""
    log = snapshot.deltaLog()
    path = java_class("org.apache.spark.sql.delta.util.FileNames").unsafeDeltaFile(log.logPath(), version)
    lines = log.store().readAsIterator(path, log.newDeltaHadoopConf())
    try:
        while lines.hasNext():
            yield json.loads(lines.next())
    finally:
        lines.close()


def commit_info(snapshot: Any, version: int) -> dict[str, Any]:
    """Return the `commitInfo` of a version; empty if its writer, unlike Delta, did not write it as first line."""
    with closing(commit_lines(snapshot, version)) as actions:
        return dict(next(actions).get("commitInfo", {}))


def parse_mark(user_metadata: str | None) -> dict[str, Any]:
    """Return the `userMetadata` of a commit as a dictionary; empty unless the text is a JSON object."""
    with suppress(ValueError):
        mark = json.loads(user_metadata or "")
        return mark if isinstance(mark, dict) else {}
    return {}


def properties_of(spark: "SparkSession", location: str) -> dict[str, str]:
    """Return the properties of a table, including its protocol."""
    return to_dict(latest_snapshot(spark, location).getProperties())


def _statements(spark: "SparkSession", target: DeltaTarget, location: str) -> Iterator[str]:
    table, snapshot = f"delta.{quoted(location)}", latest_snapshot(spark, location)
    newest = parse_mark(commit_info(snapshot, int(snapshot.version())).get("userMetadata"))
    if newest.get("described") == target.description_digest:
        return
    missing_properties = _missing_properties(spark, location, target.required_properties)
    if missing_properties:
        yield _alter(location, missing_properties)
    if target.comment is not None and (snapshot.metadata().description() or "") != target.comment:
        yield f"COMMENT ON TABLE {table} IS {literal(target.comment)}"
    if target.cluster_by:
        [[columns]] = spark.sql(f"DESCRIBE DETAIL {table}").select("clusteringColumns").collect()
        if [unquoted(name).lower() for name in columns] != [name.lower() for name in target.cluster_by]:
            yield f"ALTER TABLE {table} CLUSTER BY ({', '.join(quoted(name) for name in target.cluster_by)})"
    if target.column_comments:
        fields = {field.name.lower(): field for field in spark.read.format("delta").load(location).schema.fields}
        for name, comment in target.column_comments.items():
            field = fields.get(name.lower())
            if field is not None and (field.metadata or {}).get("comment", "") != comment:
                yield f"ALTER TABLE {table} ALTER COLUMN {quoted(field.name)} COMMENT {literal(comment)}"


def _missing_properties(spark: "SparkSession", location: str, required: Mapping[str, str]) -> dict[str, str]:
    present = properties_of(spark, location) if required else {}
    return {name: value for name, value in required.items() if present.get(name) != value}


def _alter(location: str, properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))
    return f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ({pairs})"


def propose_metadata(
    spark: "SparkSession",
    location: str,
    properties: Mapping[str, str],
    schema: str = "",
    target: DeltaTarget | None = None,
) -> tuple[Any, Any]:
    """Return a new Delta transaction and the table's metadata with these properties and `target`'s comments."""
    # Delta has no public API to try this without a commit.
    transaction = delta_log(spark, location).startTransaction()
    metadata = transaction.metadata()
    configuration = metadata.configuration()
    configs = java_class("org.apache.spark.sql.delta.DeltaConfigs")
    for name, value in properties.items():
        try:
            configuration = configuration.concat(configs.validateConfigurations(scala_map({name: value})))
        except spark_failures() as refusal:
            reason = full_message(refusal).strip().partition("\n")[0]  # no row was read, so it has no values of rows
            raise PipelineError(f"the property {name} cannot be '{value}': {reason}") from refusal
    proposed = metadata.copy(
        metadata.id(),
        metadata.name(),
        metadata.description() if target is None or target.comment is None else target.comment,
        metadata.format(),
        _add_comments(schema or metadata.schemaString(), target.column_comments if target else {}),
        metadata.partitionColumns(),
        configuration,
        metadata.createdTime(),
    )
    return transaction, proposed


def _add_comments(schema: str, comments: Mapping[str, str]) -> str:
    comments_by_name = {name.lower(): comment for name, comment in comments.items()}
    if not comments_by_name:
        return schema
    parsed = json.loads(schema)
    for field in parsed["fields"]:
        if (comment := comments_by_name.get(field["name"].lower())) is not None:
            field["metadata"]["comment"] = comment
    return json.dumps(parsed)
