"""Decimals of databases are read with all their digits, or refused."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from datasets.databases import Database
from datasets.files import dataset, run_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.database import refuse_rounded
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_terminal.progress import silent
from pipeline.place import Place
from pyspark.sql import types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

POSTGRES, ORACLE = "jdbc:postgresql://x/y", "jdbc:oracle:thin:@x"
NUMERIC = 2
"""`java.sql.Types.NUMERIC`."""


def as_spark_reads(spark: "SparkSession", url: str, precision: int, scale: int) -> types.StructType:
    """Return Spark's type for a NUMERIC column of a database."""
    jvm: Any = spark.sparkContext._jvm
    described = jvm.javax.sql.rowset.RowSetMetaDataImpl()
    described.setColumnCount(1)
    described.setColumnName(1, "amount")
    described.setColumnLabel(1, "amount")
    described.setColumnType(1, NUMERIC)
    described.setColumnTypeName(1, "numeric")
    described.setPrecision(1, precision)
    if scale >= 0:
        described.setScale(1, scale)
    answer = jvm.javax.sql.rowset.RowSetProvider.newFactory().createCachedRowSet()
    answer.setMetaData(described)
    utils = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)
    schema = utils.getSchema(None, answer, dialect, False, False)  # noqa: FBT003 -- Scala's, by position
    return types.StructType.fromJson(json.loads(schema.json()))


@pytest.mark.parametrize(
    ("url", "precision", "scale"), [(POSTGRES, 0, 0), (POSTGRES, 50, 2), (POSTGRES, 60, 45), (ORACLE, 0, 0)]
)
def test_decimals_that_spark_would_round_are_refused(
    spark: "SparkSession", url: str, precision: int, scale: int
) -> None:
    with pytest.raises(PipelineError, match=r"amount would be decimal\(38,\d+\). Use `query` and cast them"):
        refuse_rounded(as_spark_reads(spark, url, precision, scale))


@pytest.mark.parametrize(("precision", "scale"), [(38, 18), (38, 0), (12, 3), (5, 5)])
@pytest.mark.parametrize("url", [POSTGRES, ORACLE])
def test_decimals_that_fit_are_read(spark: "SparkSession", url: str, precision: int, scale: int) -> None:
    schema = as_spark_reads(spark, url, precision, scale)
    assert schema.fields[0].dataType == types.DecimalType(precision, scale)
    refuse_rounded(schema)


def test_decimals_of_a_database_keep_all_digits(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    database = Database(spark, "decimals")
    database.run("CREATE TABLE t (a DECIMAL(31, 2), b NUMERIC(5), c DECIMAL(31, 31))")
    database.insert("t", f"{'9' * 29}.25, 12345, 0.{'1' * 31}")
    build(spark, run_of(dataset(place.location, sources={"s": database.source("t")})), catalog, silent)
    [row] = place.table().rows(*place.table().columns())
    assert [str(value) for value in row] == [f"{'9' * 29}.25", "12345", f"0.{'1' * 31}"]
