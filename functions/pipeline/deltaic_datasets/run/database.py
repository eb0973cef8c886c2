"""Reads rows of a database by JDBC: in parallel by ranges of a column, with a password that no file and no log has."""

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
"""Options of Spark's reader that name a column, which one value does not have."""


def read_database(spark: "SparkSession", source: JdbcSource) -> "DataFrame":
    """Return the rows (lazily); raises `PipelineError` when the password is not where the source says."""
    ranges = source.partitions
    parallel = {} if ranges is None else {
        "partitionColumn": ranges.column,
        "lowerBound": str(ranges.lower),
        "upperBound": str(ranges.upper),
        "numPartitions": str(ranges.count),
    }  # fmt: skip
    rows = _read(spark, source, _rows(source), source.options | parallel)
    refuse_rounded(rows.schema)
    return rows


def refuse_rounded(schema: "StructType") -> None:
    """Raise `PipelineError` for decimals that Spark would round: NUMERIC without a precision or beyond 38 digits."""
    from pyspark.sql import types

    rounded = [
        f"{field.name} would be {field.dataType.simpleString()}"
        for field in schema.fields
        if isinstance(field.dataType, types.DecimalType)
        and (field.metadata or {}).get("scale", field.dataType.scale) != field.dataType.scale
    ]
    if rounded:
        raise PipelineError(
            f"columns whose digits Spark would round: {', '.join(rounded)}. Read them by `query`, with a cast to what "
            "they hold, such as CAST(amount AS NUMERIC(38, 6))."
        )


def highest(spark: "SparkSession", source: JdbcSource, field: "StructField") -> str | None:
    """Return the highest value of a column as text; None where there is no row.

    The database finds it. Raises `PipelineError` where a row has none: no bounds would ever hold it.
    """
    options = {option: value for option, value in source.options.items() if option.lower() not in PARALLEL}
    if not _read(spark, source, _rows(source), options).where(f"{quoted(field.name)} IS NULL").isEmpty():
        raise PipelineError(
            f"rows have no value in {field.name}, and would never be read: leave them out by a query, or mark another "
            "column."
        )
    dialects = java_class("org.apache.spark.sql.jdbc.JdbcDialects")
    name = dialects.get(source.url).quoteIdentifier(field.name)
    asked = f"(SELECT MAX({name}) AS deltaic_value FROM {_rows(source)}) deltaic_asked"  # noqa: S608 -- the file's own
    found = _read(spark, source, asked, options).toDF("value")
    value: Any = found.selectExpr(f"CAST(CAST(value AS {field.dataType.simpleString()}) AS STRING)").first()
    return None if value is None else value[0]


def _rows(source: JdbcSource) -> str:
    return str(source.table) if source.query is None else f"({source.query}) deltaic_rows"


def _read(spark: "SparkSession", source: JdbcSource, table: str, further: Mapping[str, str]) -> "DataFrame":
    options = {**further, "url": source.url, "dbtable": table, "fetchsize": str(source.fetch_size)}
    if source.driver is not None:
        options["driver"] = source.driver
    if source.user is not None:
        options["user"] = source.user
    if source.password is not None:
        options["password"] = password(source.password)
    return spark.read.format("jdbc").options(**options).load()


def password(where: Password) -> str:
    """Return a password from the environment or from Secrets Manager; raises `PipelineError`, which never holds it."""
    if where.environment is not None:
        found = os.environ.get(where.environment)
        if found is None:
            raise PipelineError(f"the environment variable {where.environment}, which holds a password, is not set.")
        return found
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    session = boto3.Session()
    client = session.client("secretsmanager", region_name=session.region_name or settings().region)
    try:
        secret = str(client.get_secret_value(SecretId=str(where.secret))["SecretString"])
    except ClientError as refusal:
        code = refusal.response["Error"]["Code"]
        raise PipelineError(f"the secret {where.secret} cannot be read: {code}.") from None
    except (BotoCoreError, KeyError) as failure:
        raise PipelineError(f"the secret {where.secret} cannot be read: {type(failure).__name__}.") from None
    if where.field is None:
        return secret
    try:
        return str(json.loads(secret)[where.field])
    except (ValueError, KeyError, TypeError):
        raise PipelineError(f"the secret {where.secret} is not a JSON object with a field {where.field}.") from None
