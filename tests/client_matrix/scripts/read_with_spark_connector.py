"""Read with Spark's sharing connector, whose jar DELTAIC_CONNECTOR_JAR names."""

import os
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from client_matrix.scripts import reading
from deltaic_pipeline.spark.session import session, stop
from deltaic_pipeline.spark.storage_access import S3Access
from golden.workbench import as_arrow


def main() -> None:
    """Start Spark with the jar on its class path, and read each check."""
    jar = os.environ["DELTAIC_CONNECTOR_JAR"]
    spark = session("connector", S3Access(), tests=True, jars=[Path(jar).absolute()])

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
        rows: reading.Rows = as_arrow(frame.drop("_commit_timestamp")).to_pylist()
        return rows

    with ZipFile(jar) as classes:
        [version] = set(re.findall(rb"\d+\.\d+\.\d+", classes.read("io/delta/sharing/client/package$.class")))
    reading.main(version.decode(), read)
    stop(spark)


main()
