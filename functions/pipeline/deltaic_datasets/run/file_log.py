"""Read Spark's log of the files that a stream has read, from the stream's checkpoint."""

from typing import TYPE_CHECKING

from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.table.malformed_rows import FILE
from deltaic_pipeline.table.sources import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def last_batch(spark: "SparkSession", checkpoint: str) -> int:
    """Return the number of the last batch that a stream has written; -1 if there is none."""
    folder = java_class("org.apache.hadoop.fs.Path")(f"{spark_path(checkpoint)}/commits")
    files = folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001 -- no public access
    if not files.exists(folder):
        return -1
    names = [str(status.getPath().getName()) for status in files.listStatus(folder)]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def unread_rows(spark: "SparkSession", checkpoint: str, rows: "DataFrame") -> "DataFrame":
    """Return the rows of files that no written batch of the stream has read."""
    last = last_batch(spark, checkpoint)
    if last < 0:
        return rows
    logged = spark.read.text(f"{spark_path(checkpoint)}/sources/0")
    files = logged.selectExpr("from_json(value, 'path STRING, batchId BIGINT') AS file").where(
        f"file.batchId <= {last}"
    )
    file = FILE if FILE in rows.columns else "_metadata.file_path"
    files = files.selectExpr("regexp_replace(file.path, '^s3a:', 's3:') AS __read").distinct()
    located = rows.selectExpr("*", f"regexp_replace({file}, '^s3a:', 's3:') AS __path")
    return located.join(files, on=located["__path"] == files["__read"], how="left_anti").drop("__path")
