"""A Spark session with Iceberg's jars, which replaces another session of the worker."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from deltaic_pipeline.spark.jars import Jar, ensure_jars
from deltaic_pipeline.spark.session import session, stop
from deltaic_terminal.environment import machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNTIME: Final = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.11.0",
    47_959_591,
    "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
)
AWS: Final = Jar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    "1.11.0",
    63_613_165,
    "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
)


@contextmanager
def spark_with(*jars: Jar) -> Iterator["SparkSession"]:
    """Start a session with these jars, after stopping the active one."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        active = SparkSession.getActiveSession()
        if active is not None:
            stop(active)
        spark = session("iceberg", tests=True, jars=ensure_jars(jars, machine(), print))
        yield spark
        stop(spark)
        gc.collect()
