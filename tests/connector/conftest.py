"""Fixtures of the connector's tests: a Spark session with its jar, a server, and a recording proxy."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from client.golden_shares import Shared, share
from client.provider import Provider, provide
from deltaic_pipeline.spark.jars import ensure_jars
from deltaic_pipeline.spark.session import session, stop
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_terminal.environment import machine
from golden.library import load
from iceberg.spark_with_iceberg import RUNTIME

from connector.sharing import Connector
from connector.wire import Wire, start_wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR_VARIABLE = "DELTAIC_CONNECTOR_JAR"


@pytest.fixture(scope="package")
def connector_jar() -> Path:
    """Return the jar of the connector, or skip."""
    path = os.environ.get(JAR_VARIABLE)
    if not path:
        pytest.skip(f"set {JAR_VARIABLE} to the connector's jar; tests/connector/README.md says how to build it")
    jar = Path(path).absolute()
    assert jar.is_file(), f"{JAR_VARIABLE} names {jar}, which is not a file: see tests/connector/README.md"
    return jar


@pytest.fixture(scope="package")
def direct_provider(connector_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    assert connector_jar  # skipped before a server is started
    with provide(tmp_path_factory.mktemp("connector")) as provider_:
        yield provider_


@pytest.fixture(scope="package")
def wire(direct_provider: Provider) -> Iterator[Wire]:
    with start_wire(direct_provider.stack.endpoint) as wire_:
        yield wire_


@pytest.fixture(scope="package")
def spark(connector_jar: Path, direct_provider: Provider) -> Iterator["SparkSession"]:
    """Start a separate session, because an earlier one has no connector on its class path."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # see `collect_garbage`
        active = SparkSession.getActiveSession()
        if active is not None:
            stop(active)
            gc.collect()
    access = S3Access.from_environment(direct_provider.stack.environment)
    jars = (connector_jar, *ensure_jars([RUNTIME], machine(), print))
    spark_session = session("connector", access, tests=True, jars=jars)
    yield spark_session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        stop(spark_session)
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def collect_garbage() -> Iterator[None]:
    """Collect garbage while the warning filter is active, because pyspark does not close sockets of collected rows."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def clear_delta_log_cache(spark: "SparkSession") -> Iterator[None]:
    """Clear Delta's cache after each test: it keeps each response in delta format as a table for an hour."""
    yield
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(scope="package")
def connector(
    spark: "SparkSession", direct_provider: Provider, wire: Wire, tmp_path_factory: pytest.TempPathFactory
) -> Connector:
    return Connector(spark, direct_provider.reached_by(wire.endpoint, tmp_path_factory.mktemp("wire")), wire)


@pytest.fixture(scope="package")
def shared(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shared]:
    """Return a function that shares a golden table, once for all tests."""
    folder = tmp_path_factory.mktemp("golden")
    shares: dict[str, Shared] = {}

    def get(name: str) -> Shared:
        if name not in shares:
            shares[name] = share(connector.provider, load(name), folder / name)
        return shares[name]

    return get
