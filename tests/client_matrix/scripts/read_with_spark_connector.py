"""Read with Spark's sharing connector, whose jar DELTAIC_CONNECTOR_JAR names; the argument is its version.

For 4.4, the variable is a class path, which also has the jars delta-spark and delta-storage of that version.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from client_matrix.scripts import reading

JARS = os.environ["DELTAIC_CONNECTOR_JAR"]


def start() -> Any:
    """Start Spark with the jar on its class path."""
    if sys.argv[1] == "4.2":
        from deltaic_pipeline.spark.session import session
        from deltaic_pipeline.spark.storage_access import S3Access

        return session("connector", S3Access(), tests=True, jars=[Path(JARS).absolute()])
    from pyspark.sql import SparkSession

    settings: dict[str, Any] = {
        "spark.driver.extraClassPath": JARS,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    """Read each check."""
    spark = start()

    def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
        url = f"{job['profiles'][check['profile']]}#{job['share']}.{job['schema']}.{check['table']}"
        options: dict[str, Any] = {}
        if check["changes"]:
            first, last = check["changes"]
            options = {
                "readChangeFeed": True,
                "startingVersion": first,
                "endingVersion": last,
                "responseFormat": "delta",
            }
        elif check["version"] is not None:
            options = {"versionAsOf": check["version"]}
        frame = spark.read.format("deltaSharing").options(**options).load(url)
        rows: reading.Rows = frame.drop("_commit_timestamp").toArrow().to_pylist()
        return rows

    with ZipFile(JARS.partition(":")[0]) as classes:
        [version] = set(re.findall(rb"\d+\.\d+\.\d+", classes.read("io/delta/sharing/client/package$.class")))
    reading.main(version.decode(), read)
    spark.stop()


main()
