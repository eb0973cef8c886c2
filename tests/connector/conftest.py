"""Fixtures of the connector's tests: a Spark session with its jar, a server, and the requests between them."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from client.golden_shares import Shared, share
from client.provider import Provider, provide
from deltaic_pipeline.spark.session import session, stop
from deltaic_pipeline.spark.storage_access import S3Access
from golden.library import load

from connector.sharing import Connector
from connector.wire import Wire, tapped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR_VARIABLE = "DELTAIC_CONNECTOR_JAR"
BESIDE_SPARK = "SPARK_DIST_CLASSPATH"
"""Spark's own variable for more jars on the JVM's class path. Not `spark.jars`: those get a class loader of their own,
in which Delta's extension does not find the connector's planning rule, and then limits are not sent with filters."""


@pytest.fixture(scope="package")
def connector_jar() -> Path:
    """Return the jar of the connector, or skip."""
    told = os.environ.get(JAR_VARIABLE)
    if not told:
        pytest.skip(f"set {JAR_VARIABLE} to the connector's jar; tests/connector/README.md says how to build it")
    jar = Path(told).absolute()
    assert jar.is_file(), f"{JAR_VARIABLE} names {jar}, which is no file: see tests/connector/README.md"
    return jar


@pytest.fixture(scope="package")
def direct_provider(connector_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    assert connector_jar  # skipped before a server is started
    with provide(tmp_path_factory.mktemp("connector")) as running:
        yield running


@pytest.fixture(scope="package")
def wire(direct_provider: Provider) -> Iterator[Wire]:
    with tapped(direct_provider.stack.endpoint) as running:
        yield running


@pytest.fixture(scope="package")
def spark(connector_jar: Path, direct_provider: Provider) -> Iterator["SparkSession"]:
    """Start a session of this folder's own: an earlier one in this process has no connector on its class path."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # see `collected`
        earlier = SparkSession.getActiveSession()
        if earlier is not None:
            stop(earlier)
            gc.collect()
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv(BESIDE_SPARK, str(connector_jar))
        started = session("connector", S3Access.from_environment(direct_provider.stack.environment), tests=True)
    yield started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        stop(started)
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect what a module's tests leave while their filter holds: pyspark closes no socket that rows came over."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def forgotten(spark: "SparkSession") -> Iterator[None]:
    """Let Delta forget the tables of a test: each answer in delta format is a table of its own to it, kept an hour."""
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
    """Return a function that shares a golden table, once."""
    folder = tmp_path_factory.mktemp("golden")
    known: dict[str, Shared] = {}

    def get(name: str) -> Shared:
        if name not in known:
            known[name] = share(connector.provider, load(name), folder / name)
        return known[name]

    return get
