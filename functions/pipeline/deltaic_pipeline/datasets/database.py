"""Reads rows of a database by JDBC: in parallel by ranges of a column, with a password that no file and no log has."""

import json
import os
from typing import TYPE_CHECKING

from deltaic.settings import settings

from deltaic_pipeline.datasets.model import JdbcSource, Password
from deltaic_pipeline.failures import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_database(spark: "SparkSession", source: JdbcSource) -> "DataFrame":
    """Return the rows (lazily); raises `PipelineError` when the password is not where the source says."""
    table = source.table if source.query is None else f"({source.query}) deltaic_rows"
    options = {**source.options, "url": source.url, "dbtable": table, "fetchsize": str(source.fetch_size)}
    if source.driver is not None:
        options["driver"] = source.driver
    if source.user is not None:
        options["user"] = source.user
    if source.password is not None:
        options["password"] = password(source.password)
    if source.partitions is not None:
        ranges = source.partitions
        options |= {
            "partitionColumn": ranges.column,
            "lowerBound": str(ranges.lower),
            "upperBound": str(ranges.upper),
            "numPartitions": str(ranges.count),
        }
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
