"""The properties, comments and clustering of a table, brought to what the target wants of them.

They are one version, after the rows, and only where something differs.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import java_class, no_option, scala_map, scala_seq, to_dict
from deltaic_pipeline.spark.quoting import literal, quoted, unquoted
from deltaic_pipeline.spark.spark_errors import all_said, spark_failures
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
CLUSTERS = "org.apache.spark.sql.delta.skipping.clustering"
"""The Java package of clustered tables."""
CLUSTERING = "delta.feature.clustering"
"""The property that gives a table this feature, and stays nowhere."""


def describe(spark: "SparkSession", target: Target) -> bool:
    """Give an existing table what it lacks, as one version; tell whether there was anything.

    Safe to repeat: a run that was ended between its rows and this does it when it is started again.
    """
    location = spark_path(target.location)
    if not any(_statements(spark, target, location)):
        return False
    properties = _lacking(spark, location, target.wanted_properties)
    if target.cluster_by:
        properties |= _lacking(spark, location, {CLUSTERING: "supported"})
    transaction, metadata = proposed(spark, location, properties, target=target)
    transaction.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position
    actions = scala_seq([])
    if target.cluster_by:
        clustering = java_class(f"{CLUSTERS}.ClusteredTableUtils")
        names = scala_seq(map(quoted, target.cluster_by))
        actions = clustering.getClusteringDomainMetadataForAlterTableClusterBy(names, transaction)
    # One commit of half a second; by SQL each property would be one.
    operation = java_class("org.apache.spark.sql.delta.DeltaOperations$SetTableProperties")
    with configured(spark, {USER_METADATA: json.dumps({"described": target.description_digest})}):
        activate(spark)  # with its settings
        transaction.commit(actions, operation(scala_map(properties)))
    return True


@contextmanager
def configured(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session settings for the block."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def set_properties(spark: "SparkSession", location: str, properties: Mapping[str, str]) -> None:
    """Set properties of a table, whatever it has, as one version."""
    spark.sql(_alter(spark_path(location), properties))


def pending(spark: "SparkSession", target: Target) -> list[str]:
    """Return what `describe` would do now, in words."""
    location = spark_path(target.location)
    return [statement.replace(f" delta.{quoted(location)}", "") for statement in _statements(spark, target, location)]


def check_properties(spark: "SparkSession", target: Target) -> None:
    """Have Spark and Delta refuse what they would not set on this table, before anything is written."""
    location = spark_path(target.location)
    properties = _lacking(spark, location, target.wanted_properties)
    if not properties:
        return
    constraints = [name for name in properties if name.lower().startswith("delta.constraints.")]
    if constraints:
        raise PipelineError(f"{constraints[0]} is a constraint: add it with ALTER TABLE ... ADD CONSTRAINT.")
    spark.sql(f"EXPLAIN {_alter(location, properties)}")  # names that Spark keeps for itself, such as `provider`
    transaction, metadata = proposed(spark, location, properties)
    transaction.updateMetadata(metadata, False)  # noqa: FBT003 -- Scala's, by position


def check_clustering(spark: "SparkSession", target: Target, schema: str = "") -> None:
    """Have Delta refuse columns by which it would not cluster this table, before anything is written.

    `schema` is what the table will have, as JSON; empty: what it has.
    """
    if not target.cluster_by:
        return
    transaction, metadata = proposed(spark, spark_path(target.location), target.wanted_properties, schema)
    if not metadata.partitionColumns().isEmpty() and not target.rewrites:
        raise PipelineError(f"{target.location} is partitioned, and Delta clusters no table that is.")
    names = scala_seq(map(quoted, target.cluster_by))
    columns = java_class(f"{CLUSTERS}.temp.ClusterBySpec").fromColumnNames(names)
    clustering = java_class(f"{CLUSTERS}.ClusteredTableUtils")
    clustering.validateClusteringColumnsInStatsSchema(transaction.protocol(), metadata, columns)


def check_new_properties(spark: "SparkSession", target: Target) -> None:
    """Refuse properties that no new table can have, by Delta's word and where a constraint has a query within."""
    for name, value in target.properties.items():
        if name.lower().startswith("delta.constraints."):
            refuse_queries(spark, value)
    proposed(spark, spark_path(target.location), target.wanted_properties)


def delta_log(spark: "SparkSession", location: str) -> Any:
    """Return Delta's `DeltaLog` of a table, whether it exists or not."""
    session = spark._jsparkSession  # noqa: SLF001 -- pyspark has no public access to it
    return java_class("org.apache.spark.sql.delta.DeltaLog").forTable(session, location)


def is_delta_table(spark: "SparkSession", location: str) -> bool:
    """Return whether there is a Delta table at a location."""
    session = spark._jsparkSession  # noqa: SLF001 -- as `delta_log`
    return bool(java_class("io.delta.tables.DeltaTable").isDeltaTable(session, spark_path(location)))


def activate(spark: "SparkSession") -> None:
    """Make this thread's session the one whose settings the JVM uses."""
    java_class("org.apache.spark.sql.SparkSession").setActiveSession(spark._jsparkSession)  # noqa: SLF001 -- as above


def latest(spark: "SparkSession", location: str) -> Any:
    """Return the latest snapshot of a table as Delta has it; before the first commit its version is -1."""
    # The public ways (SHOW, DESCRIBE) read all of the log's state.
    nothing = no_option()
    return delta_log(spark, location).update(False, nothing, nothing)  # noqa: FBT003 -- Scala's, by position


def commit_lines(snapshot: Any, version: int) -> Generator[dict[str, Any]]:
    """Yield the actions of a commit as they are read, without computing the table's state."""
    log = snapshot.deltaLog()
    path = java_class("org.apache.spark.sql.delta.util.FileNames").unsafeDeltaFile(log.logPath(), version)
    lines = log.store().readAsIterator(path, log.newDeltaHadoopConf())
    try:
        while lines.hasNext():
            yield json.loads(lines.next())
    finally:
        lines.close()


def commit_info(snapshot: Any, version: int) -> dict[str, Any]:
    """Return the `commitInfo` of a version, which Delta writes as the first line; empty if another writer did not."""
    with closing(commit_lines(snapshot, version)) as actions:
        return dict(next(actions).get("commitInfo", {}))


def mark_of(user_metadata: str | None) -> dict[str, Any]:
    """Return the `userMetadata` of a commit if it is a JSON object, as this package writes it; otherwise nothing."""
    with suppress(ValueError):
        mark = json.loads(user_metadata or "")
        return mark if isinstance(mark, dict) else {}
    return {}


def properties_of(spark: "SparkSession", location: str) -> dict[str, str]:
    """Return the properties of a table, its protocol among them."""
    return to_dict(latest(spark, location).getProperties())


def _statements(spark: "SparkSession", target: Target, location: str) -> Iterator[str]:
    table, snapshot = f"delta.{quoted(location)}", latest(spark, location)
    newest = mark_of(commit_info(snapshot, int(snapshot.version())).get("userMetadata"))
    if newest.get("described") == target.description_digest:
        return
    lacking = _lacking(spark, location, target.wanted_properties)
    if lacking:
        yield _alter(location, lacking)
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


def _lacking(spark: "SparkSession", location: str, wanted: Mapping[str, str]) -> dict[str, str]:
    present = properties_of(spark, location) if wanted else {}
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _alter(location: str, properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))
    return f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ({pairs})"


def proposed(
    spark: "SparkSession", location: str, properties: Mapping[str, str], schema: str = "", target: Target | None = None
) -> tuple[Any, Any]:
    """Return a transaction that has begun, and what the table's metadata would be in it; `target` has the comments."""
    # Delta has no public way to try without committing.
    transaction = delta_log(spark, location).startTransaction()
    metadata = transaction.metadata()
    configuration = metadata.configuration()
    configs = java_class("org.apache.spark.sql.delta.DeltaConfigs")
    for name, value in properties.items():
        try:
            configuration = configuration.concat(configs.validateConfigurations(scala_map({name: value})))
        except spark_failures() as refusal:
            why = all_said(refusal).strip().partition("\n")[0]  # no row was read: there are no values in it
            raise PipelineError(f"the property {name} cannot be '{value}': {why}") from refusal
    proposed = metadata.copy(
        metadata.id(),
        metadata.name(),
        metadata.description() if target is None or target.comment is None else target.comment,
        metadata.format(),
        _commented(schema or metadata.schemaString(), target.column_comments if target else {}),
        metadata.partitionColumns(),
        configuration,
        metadata.createdTime(),
    )
    return transaction, proposed


def _commented(schema: str, comments: Mapping[str, str]) -> str:
    wanted = {name.lower(): comment for name, comment in comments.items()}
    if not wanted:
        return schema
    said = json.loads(schema)
    for field in said["fields"]:
        if (comment := wanted.get(field["name"].lower())) is not None:
            field["metadata"]["comment"] = comment
    return json.dumps(said)
