"""Read tables and queries of databases by JDBC, in parallel if the source declares `partitions`."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltaic.settings import settings
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.quoting import quoted

from deltaic_datasets.file.dataset_model import JdbcSource, Password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

PARALLEL = frozenset({"partitioncolumn", "lowerbound", "upperbound", "numpartitions"})
"""Options of Spark's JDBC reader for parallel reads, which must be omitted from a query of a single value."""


def read_database(spark: "SparkSession", source: JdbcSource) -> "DataFrame":
    """Return the rows of a JDBC source as a lazy DataFrame; raises `PipelineError` if its password cannot be read."""
    ranges = source.partitions
    parallel = {} if ranges is None else {
        "partitionColumn": ranges.column,
        "lowerBound": str(ranges.lower),
        "upperBound": str(ranges.upper),
        "numPartitions": str(ranges.count),
    }  # fmt: skip
    rows = _read(spark, source, _table_expression(source), source.options | parallel)
    refuse_rounded(rows.schema)
    return rows


def refuse_rounded(schema: "StructType") -> None:
    """Raise `PipelineError` for decimal columns that Spark would round: without precision, or above 38 digits."""
    from pyspark.sql import types

    rounded = [
        f"{field.name} would be {field.dataType.simpleString()}"
        for field in schema.fields
        if isinstance(field.dataType, types.DecimalType)
        and (field.metadata or {}).get("scale", field.dataType.scale) != field.dataType.scale
    ]
    if rounded:
        raise PipelineError(
            f"columns whose digits Spark would round: {', '.join(rounded)}. Use `query` and cast them to a type that "
            "has all their digits, such as CAST(amount AS NUMERIC(38, 6))."
        )


def highest_value(spark: "SparkSession", source: JdbcSource, field: "StructField") -> str | None:
    """Return the highest value of a column as a string, computed by the database; None if there are no rows.

    Raises `PipelineError` if the column has a null, because a row with null is in no range of watermark values.
    """
    options = {option: value for option, value in source.options.items() if option.lower() not in PARALLEL}
    if not _read(spark, source, _table_expression(source), options).where(f"{quoted(field.name)} IS NULL").isEmpty():
        raise PipelineError(
            f"rows without a value in {field.name} would never be read: use a `query` that leaves them out, or another "
            "column as watermark."
        )
    dialects = java_class("org.apache.spark.sql.jdbc.JdbcDialects")
    name = dialects.get(source.url).quoteIdentifier(field.name)
    table = _table_expression(source)
    query = f"(SELECT MAX({name}) AS deltaic_value FROM {table}) deltaic_asked"  # noqa: S608 -- the file's own
    rows = _read(spark, source, query, options).toDF("value")
    value: Any = rows.selectExpr(f"CAST(CAST(value AS {field.dataType.simpleString()}) AS STRING)").first()
    return None if value is None else value[0]


def _table_expression(source: JdbcSource) -> str:
    return str(source.table) if source.query is None else f"({source.query}) deltaic_rows"


def _read(spark: "SparkSession", source: JdbcSource, table: str, extra: Mapping[str, str]) -> "DataFrame":
    options = {**extra, "url": source.url, "dbtable": table, "fetchsize": str(source.fetch_size)}
    if source.driver is not None:
        options["driver"] = source.driver
    if source.user is not None:
        options["user"] = source.user
    if source.password is not None:
        options["password"] = read_password(source.password)
    return spark.read.format("jdbc").options(**options).load()


def read_password(source: Password) -> str:
    """Return a password from an environment variable or Secrets Manager; raises `PipelineError` if it is missing."""
    if source.environment is not None:
        value = os.environ.get(source.environment)
        if value is None:
            raise PipelineError(f"the environment variable {source.environment} is not set: set it to the password.")
        return value
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    session = boto3.Session()
    client = session.client("secretsmanager", region_name=session.region_name or settings().region)
    try:
        secret = str(client.get_secret_value(SecretId=str(source.secret))["SecretString"])
    except ClientError as refusal:
        code = refusal.response["Error"]["Code"]
        raise PipelineError(f"the secret {source.secret} cannot be read: {code}.") from None
    except (BotoCoreError, KeyError) as failure:
        raise PipelineError(f"the secret {source.secret} cannot be read: {type(failure).__name__}.") from None
    if source.field is None:
        return secret
    try:
        return str(json.loads(secret)[source.field])
    except (ValueError, KeyError, TypeError):
        raise PipelineError(f"the secret {source.secret} is not a JSON object with a field {source.field}.") from None
