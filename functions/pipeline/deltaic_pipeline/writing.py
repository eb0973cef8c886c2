"""Rows on their way into a Delta table as one version: overwrite, append or merge, at most once per run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.sources import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["overwrite", "append", "merge"]
MODES: tuple[str, ...] = get_args(Mode)

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
APPLICATION = "deltaic-publish/"
RUN_VERSION = 1
RECENT_COMMITS = 20
INCOMPARABLE = frozenset({"map", "variant", "interval", "geometry", "geography"})
"""Types that SQL cannot compare: a row that has one counts as changed in a merge."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Delta table to write."""

    location: str
    mode: Mode = "overwrite"
    partition_by: Sequence[str] = ()
    """Used when the table is created, or rewritten with `evolve_schema`."""

    keys: Sequence[str] = ()
    """Columns that identify a row (merge only)."""

    change_data_feed: bool = True
    """Turned on for new and existing tables; False leaves an existing table as it is."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Further table properties, such as `delta.deletedFileRetentionDuration`."""

    evolve_schema: bool = False
    """Accept new columns (append, merge) or another schema and partitioning (overwrite)."""

    def check(self) -> None:
        """Raise `PipelineError` when the fields contradict each other."""
        if (self.mode == "merge") != bool(self.keys):
            raise PipelineError("mode merge and keys belong together: name the columns that identify a row.")

    @property
    def wanted_properties(self) -> dict[str, str]:
        """Every property that the table shall have."""
        return {**({CHANGE_DATA_FEED: "true"} if self.change_data_feed else {}), **self.properties}


@dataclass(frozen=True, slots=True)
class Written:
    """What a run did to the table."""

    version: int
    """The version that holds the run's rows, or the latest one when an earlier attempt is too long ago to be found."""

    repeated: bool
    """True when an earlier attempt of the same run had already committed, so that nothing was written now."""

    metrics: Mapping[str, str]
    """Delta's operation metrics of that version (`numOutputRows`, `numFiles`, ...)."""


def write(spark: "SparkSession", rows: "DataFrame", target: Target, run_id: str) -> Written:
    """Write the rows as one version of the table and return what was committed, read back from the log.

    A second call with the same `run_id` commits nothing (Delta protocol, "Transaction Identifiers"). The caller holds
    the table's lease, and calls `set_properties` afterwards: a new table is made with its properties, an existing one
    takes none in the transaction that writes rows. They are checked here, so whatever is refused, rows or properties,
    is refused before the log has anything of this run. Raises `PipelineError` if the commit is not in the log
    afterwards.
    """
    from delta.tables import DeltaTable

    target.check()
    _refuse_void_columns(rows)
    location = spark_path(target.location)
    exists = DeltaTable.isDeltaTable(spark, location)
    before = _latest(spark, location, run_id) if exists else None
    if before is not None and before.commit is not None:
        return Written(before.commit, repeated=True, metrics=before.metrics)
    unchanged = -1 if before is None else before.version
    if exists:
        _check_properties(spark, location, _lacking(spark, location, target.wanted_properties))
    if target.mode == "merge":
        _refuse_repeated_keys(rows, target.keys)
    with _transaction(spark, run_id):
        if target.mode == "merge" and exists:
            _merge(spark, rows, target, location)
        else:
            _save(rows, target, location, exists=exists)
    after = _latest(spark, location, run_id)
    if after.commit is not None:
        return Written(after.commit, repeated=False, metrics=after.metrics)
    if after.version == unchanged:
        # The log's `txn` action says that the run has committed, longer ago than the latest commits.
        return Written(after.version, repeated=True, metrics={})
    raise PipelineError(
        f"the commit of run {run_id} is not in the log of {target.location}: "
        "another writer that does not take the table's lease has overwritten it. Run the job again."
    )


def set_properties(spark: "SparkSession", target: Target) -> bool:
    """Set what an existing table lacks, as a version of its own, and tell whether there was anything to set.

    Safe to repeat: a run that was ended between its rows and its properties sets them when it is started again.
    """
    location = spark_path(target.location)
    lacking = _lacking(spark, location, target.wanted_properties)
    if lacking:
        spark.sql(_alter(location, lacking))
    return bool(lacking)


def _save(rows: "DataFrame", target: Target, location: str, *, exists: bool) -> None:
    writer = rows.write.format("delta").mode("append" if target.mode == "append" else "overwrite")
    if target.partition_by and (not exists or target.evolve_schema):
        writer = writer.partitionBy(*target.partition_by)
    if not exists:
        writer = writer.options(**target.wanted_properties)
    if target.evolve_schema:
        writer = writer.option("overwriteSchema" if target.mode == "overwrite" else "mergeSchema", "true")
    writer.save(location)


def _merge(spark: "SparkSession", rows: "DataFrame", target: Target, location: str) -> None:
    """Insert new keys and update known ones; a row that says what the table already says is left alone.

    So the change feed, and with it every recipient's incremental read, holds the real changes only.
    """
    from delta.tables import DeltaTable

    same_key = " AND ".join(f"old.{_quoted(key)} <=> new.{_quoted(key)}" for key in target.keys)
    table = DeltaTable.forPath(spark, location)
    known = {name.lower() for name in table.toDF().columns}
    others = [field for field in rows.schema.fields if field.name not in target.keys]
    comparable = all(not any(name in field.dataType.simpleString() for name in INCOMPARABLE) for field in others)
    changed = None
    if comparable and all(field.name.lower() in known for field in others):
        pairs = [f"old.{_quoted(field.name)} <=> new.{_quoted(field.name)}" for field in others]
        changed = f"NOT ({' AND '.join(pairs)})" if pairs else "false"
    merge = table.alias("old").merge(rows.alias("new"), same_key)
    if target.evolve_schema:
        merge = merge.withSchemaEvolution()
    merge.whenMatchedUpdateAll(condition=changed).whenNotMatchedInsertAll().execute()


def _refuse_repeated_keys(rows: "DataFrame", keys: Sequence[str]) -> None:
    from pyspark.sql import functions

    missing = [key for key in keys if key.lower() not in {name.lower() for name in rows.columns}]
    if missing:
        raise PipelineError(f"the key column {missing[0]} is not among the rows' columns: {', '.join(rows.columns)}.")
    quoted = [_quoted(key) for key in keys]
    repeated = rows.groupBy(*quoted).agg(functions.count("*").alias("rows")).where("rows > 1").select(*quoted).first()
    if repeated is not None:
        named = ", ".join(f"{key} = {value!r}" for key, value in zip(keys, repeated, strict=True))
        raise PipelineError(f"several rows to merge have the same key ({named}): reduce them to one in the SQL.")


def _refuse_void_columns(rows: "DataFrame") -> None:
    """Refuse columns of Spark's type void (`SELECT NULL AS x`): Delta leaves them out of its files without a word."""
    from pyspark.sql import types

    def voids(found: types.DataType, path: str) -> Iterator[str]:
        match found:
            case types.NullType():
                yield path
            case types.StructType():
                for field in found.fields:
                    yield from voids(field.dataType, f"{path}.{field.name}" if path else field.name)
            case types.ArrayType():
                yield from voids(found.elementType, f"{path}.element")
            case types.MapType():
                yield from voids(found.keyType, f"{path}.key")
                yield from voids(found.valueType, f"{path}.value")

    names = list(voids(rows.schema, ""))
    if names:
        raise PipelineError(
            f"Delta stores no column of type void, which these are: {', '.join(names)}. Give each a type in the SQL, "
            "such as CAST(NULL AS STRING), or leave it out."
        )


def _lacking(spark: "SparkSession", location: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted properties that the table has not, or has with another value."""
    shown: list[Any] = spark.sql(f"SHOW TBLPROPERTIES delta.{_quoted(location)}").collect() if wanted else []
    present = {row["key"]: row["value"] for row in shown}
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _alter(location: str, properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in sorted(properties.items()))
    return f"ALTER TABLE delta.{_quoted(location)} SET TBLPROPERTIES ({pairs})"


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


@contextmanager
def _transaction(spark: "SparkSession", run_id: str) -> Iterator[None]:
    """Mark the commits of this session with the run, in the log's `txn` action and in `commitInfo`."""
    settings = {
        "spark.databricks.delta.write.txnAppId": APPLICATION + run_id,
        "spark.databricks.delta.write.txnVersion": str(RUN_VERSION),
        "spark.databricks.delta.commitInfo.userMetadata": _user_metadata(run_id),
        # Few large files are few signed URLs.
        "spark.databricks.delta.optimizeWrite.enabled": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The end of the log: the latest version, and the run's commit if it is among the latest ones."""

    version: int
    commit: int | None
    metrics: Mapping[str, str]


def _latest(spark: "SparkSession", location: str, run_id: str) -> _Latest:
    from delta.tables import DeltaTable

    recent: list[Any] = DeltaTable.forPath(spark, location).history(RECENT_COMMITS).collect()
    mine = next((commit for commit in recent if commit["userMetadata"] == _user_metadata(run_id)), None)
    if mine is None:
        return _Latest(recent[0]["version"], None, {})
    return _Latest(recent[0]["version"], mine["version"], dict(mine["operationMetrics"] or {}))


def _user_metadata(run_id: str) -> str:
    return json.dumps({"run": run_id})


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
