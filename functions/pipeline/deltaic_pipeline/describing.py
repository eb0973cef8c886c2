"""What a table says of itself: properties, comments and clustering, brought to what the target wants of them.

They are versions of their own, after the rows (decision 40), and only where something differs.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.quoting import literal, quoted
from deltaic_pipeline.sources import spark_path
from deltaic_pipeline.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe(spark: "SparkSession", target: Target) -> bool:
    """Give an existing table what it lacks, each kind as a version of its own; tell whether there was anything.

    Safe to repeat: a run that was ended between its rows and this does it when it is started again.
    """
    statements = list(_statements(spark, target, spark_path(target.location)))
    for statement in statements:
        spark.sql(statement)
    return bool(statements)


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
    _check_properties(spark, location, _lacking(spark, location, target.wanted_properties))


def _statements(spark: "SparkSession", target: Target, location: str) -> Iterator[str]:
    table = f"delta.{quoted(location)}"
    lacking = _lacking(spark, location, target.wanted_properties)
    if lacking:
        yield _alter(location, lacking)
    detail: Any = spark.sql(f"DESCRIBE DETAIL {table}").select("description", "clusteringColumns").first()
    if target.comment is not None and (detail["description"] or "") != target.comment:
        yield f"COMMENT ON TABLE {table} IS {literal(target.comment)}"
    if target.cluster_by and list(detail["clusteringColumns"]) != list(target.cluster_by):
        yield f"ALTER TABLE {table} CLUSTER BY ({', '.join(quoted(name) for name in target.cluster_by)})"
    if target.column_comments:
        fields = {field.name.lower(): field for field in spark.read.format("delta").load(location).schema.fields}
        for name, comment in target.column_comments.items():
            field = fields.get(name.lower())
            if field is not None and (field.metadata or {}).get("comment", "") != comment:
                yield f"ALTER TABLE {table} ALTER COLUMN {quoted(field.name)} COMMENT {literal(comment)}"


def _lacking(spark: "SparkSession", location: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted properties that the table has not, or has with another value."""
    shown: list[Any] = spark.sql(f"SHOW TBLPROPERTIES delta.{quoted(location)}").collect() if wanted else []
    present = {row["key"]: row["value"] for row in shown}
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _alter(location: str, properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))
    return f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ({pairs})"


def _check_properties(spark: "SparkSession", location: str, properties: Mapping[str, str]) -> None:
    """Have Spark and Delta refuse what they will not set on this table: in a transaction that is never committed."""
    if not properties:
        return
    constraints = [name for name in properties if name.lower().startswith("delta.constraints.")]
    if constraints:
        raise PipelineError(f"{constraints[0]} is a constraint: add it with ALTER TABLE ... ADD CONSTRAINT.")
    spark.sql(f"EXPLAIN {_alter(location, properties)}")  # names that Spark keeps for itself, such as `provider`
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 -- Delta has no public way to try without committing
    delta = jvm.org.apache.spark.sql.delta
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, location).startTransaction()  # noqa: SLF001
    given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(properties))
    metadata = transaction.metadata()
    proposed = metadata.copy(
        metadata.id(),
        metadata.name(),
        metadata.description(),
        metadata.format(),
        metadata.schemaString(),
        metadata.partitionColumns(),
        metadata.configuration().concat(delta.DeltaConfigs.validateConfigurations(given)),
        metadata.createdTime(),
    )
    transaction.updateMetadata(proposed, False)  # noqa: FBT003 -- Scala's, by position
