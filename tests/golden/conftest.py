"""The Spark session that builds golden tables: the one of the jobs' tests, where both run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from deltaic_pipeline.session import session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    started = session("golden tables", tests=True)
    yield started
    stop(started)
