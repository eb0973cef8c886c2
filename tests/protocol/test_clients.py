"""Test which clients follow pages, ignore statistics or lack the delta format."""

import pytest
from deltaic.protocol.clients import follows_pages, lacks_delta_format, reads_statistics

REST = "QueryId-0a1b2c3d  Hadoop/3.4.2 Linux/6.1 OpenJDK_64-Bit_Server_VM/17.0.9 java/17.0.9 scala/2.13.16"


@pytest.mark.parametrize(
    "agent",
    [
        f"Delta-Sharing-Spark/1.1.0 Spark/3.5.0 {REST}",
        f"Delta-Sharing-Spark/1.3.10 Spark/4.1.1 {REST}",
        f"Delta-Sharing-Spark/1.10.0 Spark/4.1.1 {REST}",
        f"Delta-Sharing-SparkStructuredStreaming/1.2.3 Spark/3.5.3 {REST}",
    ],
)
def test_the_spark_client_follows_pages_from_1_1_0_on(agent: str) -> None:
    """`getFiles` always calls `getFilesByPage`: github.com/delta-io/delta-sharing, v1.1.0 to v1.4.1."""
    assert follows_pages(agent)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("", id="nothing"),
        pytest.param(f"Delta-Sharing-Spark/1.0.5 Spark/3.5.0 {REST}", id="the last that follows only where it asked"),
        pytest.param(f"Delta-Sharing-Spark/0.7.13 Spark/3.5.0 {REST}", id="the line before"),
        pytest.param(f"Delta-Sharing-Spark/2.0.0 Spark/5.0.0 {REST}", id="a line that nobody has read"),
        pytest.param(f"Delta-Sharing-Spark/1.1.0-SNAPSHOT Spark/3.5.0 {REST}", id="no release"),
        pytest.param(f"Delta-Sharing-Spark/1.1 Spark/3.5.0 {REST}", id="no release either"),
        pytest.param("Delta-Sharing-Spark/<unknown>", id="unknown"),
        pytest.param(f"Delta-Sharing-Spark/1.3.10 Databricks-Runtime/17.3 {REST}", id="a source that is not public"),
        pytest.param(f"proxy/1.0 Delta-Sharing-Spark/1.3.10 Spark/4.1.1 {REST}", id="somebody who speaks for it"),
        pytest.param("Delta-Sharing-Python/1.3.3 pandas/2.2.3 PyArrow/20.0.0 Python/3.11.9", id="Python"),
        pytest.param("delta-kernel-sharing/1.3.10", id="kernel"),
        pytest.param("python-requests/2.32.3", id="by hand"),
    ],
)
def test_other_clients_do_not_follow_pages(agent: str) -> None:
    assert not follows_pages(agent)


@pytest.mark.parametrize("version", ["0.3.0", "0.7.8", "1.0.0", "1.1.1", "1.3.3", "1.4.1"])
def test_the_python_client_reads_no_statistics(version: str) -> None:
    """The client never uses `AddFile.stats`: github.com/delta-io/delta-sharing, v0.3.0 to v1.4.1."""
    assert not reads_statistics(
        f"Delta-Sharing-Python/{version} pandas/2.2.3 PyArrow/20.0.0 Python/3.11.9 System/Linux"
    )


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("", id="nothing"),
        pytest.param("Delta-Sharing-Python/0.2.0 pandas/1.2", id="before it said its name"),
        pytest.param("Delta-Sharing-Python/1.5.0 pandas/2.2.3", id="a version that nobody has read"),
        pytest.param("Delta-Sharing-Python/2.0.0 pandas/2.2.3", id="a line that nobody has read"),
        pytest.param("Delta-Sharing-Python/1.4.1.dev0 pandas/2.2.3", id="no release"),
        pytest.param("Delta-Sharing-Python/<unknown>", id="unknown"),
        pytest.param("proxy/1.0 Delta-Sharing-Python/1.4.1", id="somebody who speaks for it"),
        pytest.param(f"Delta-Sharing-Spark/1.3.10 Spark/4.1.1 {REST}", id="Spark"),
        pytest.param("python-requests/2.32.3", id="by hand"),
    ],
)
def test_other_clients_may_read_statistics(agent: str) -> None:
    assert reads_statistics(agent)


@pytest.mark.parametrize(
    ("agent", "lacks"),
    [
        pytest.param("Delta-Sharing-Python/0.5.4 pandas/1.5.3", True, id="parquet only"),
        pytest.param("Delta-Sharing-Python/1.0.5 pandas/2.2.3", True, id="the last of parquet only"),
        pytest.param("Delta-Sharing-Python/1.2.0 pandas/2.2.3", True, id="parquet only for changes"),
        pytest.param("Delta-Sharing-Python/1.3.0 pandas/2.2.3", False, id="the first with both for changes"),
        pytest.param("Delta-Sharing-Python/1.10.0 pandas/2.2.3", False, id="a later one"),
        pytest.param("Delta-Sharing-Python/<unknown>", False, id="unknown"),
        pytest.param(f"Delta-Sharing-Spark/1.0.5 Spark/3.5.0 {REST}", False, id="Spark"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_the_python_client_requests_changes_in_delta_format_from_1_3_on(agent: str, lacks: bool) -> None:
    """`use_delta_format` of `load_table_changes_as_pandas`: github.com/delta-io/delta-sharing, v1.3.0."""
    assert lacks_delta_format(agent) is lacks
