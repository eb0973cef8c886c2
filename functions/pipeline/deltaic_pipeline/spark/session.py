"""Start a Spark session with settings for Delta, S3 and the JVM, on one machine or on a cluster."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic_terminal.environment import Machine, machine, write_once

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jars import NEEDED, ensure_jars
from deltaic_pipeline.spark.java import Java, archive_option, bundled_runtime, find_java, make_archive
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.storage_access import S3Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

EVERYWHERE = {
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Java's old date classes lack the days that the change of calendars skipped, such as 1582-10-10.
    "spark.sql.datetime.java8API.enabled": "true",
    # Text that becomes SQL (steps, conditions, comments, properties) must not read the machine's variables: ${env:...}.
    "spark.sql.variable.substitute": "false",
    # Allow encodings that Java has and Spark 4 refuses by default, such as Windows-1252.
    "spark.sql.legacy.javaCharsets": "true",
    # zstd is smaller than snappy, and needs no native library, which fails where musl is installed.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "static",
    # Persisted rows are compressed as complete blocks anyway; trying every scheme on every column costs more.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Spark settings on one machine and on a cluster such as EMR."""

LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.memory": "1g",
    # All three listening ports stay on loopback.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # On one machine, two tasks keep two cores busy; the defaults of 200, 50 and 10,000 tasks only add start-up time.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Replaces the version checksum's 20 requests a commit; readers do not need the file.
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # One run of a dataset fills the 100 classes that Spark caches by default, so each later run in the process would
    # generate and compile its classes again: a third of its processor time.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
"""Spark settings on one machine, where one JVM is driver and executor."""

TESTS = {
    "spark.master": "local[2]",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Spark settings for tests, whose tables are tiny: compiling queries costs more than interpreting them."""

# The JVM's log of archives would mix with the job's output.
# Java reads a database's times without a zone in its own zone, and Spark compares them in the session's: both are UTC.
JVM = ("-XX:+UseSerialGC", "-Xlog:disable", "-Duser.timezone=UTC")
JVM_LONG = (
    *JVM,
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""JVM options by default: the optimizing compiler waits for ten times as many calls of a method as usual. Code that
processes rows has that many within a second; the methods for planning queries are not worth optimizing."""
JVM_BRIEF = (*JVM, "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""JVM options for a session of one or two minutes, in which the optimizing compiler costs more than it saves. Without
it, the JVM reserves only 48 MB for code by default, which Spark fills within minutes; flushing took 40 % of time."""
STOP_TIMEOUT_SECONDS = 20
MUSL = Path("/lib/ld-musl-x86_64.so.1")
"""File of the C library musl; if it exists on a glibc system, snappy-java loads the wrong library and fails."""


def session(  # noqa: PLR0913 -- the settings that differ between jobs
    app: str,
    s3: S3Access | None = None,
    *,
    tests: bool = False,
    brief: bool = False,
    memory: str = "",
    jars: Sequence[Path] = (),
    report: Callable[[str], None] = lambda _: None,
) -> "SparkSession":
    """Return the Spark session of a job; start it if this process has none yet.

    On one machine, this finds Java and downloads the jars at the first use. In a driver that `spark-submit` started, it
    adds only Delta's settings; master, memory, class path and credentials stay. `brief` makes small jobs faster and
    large jobs slower (dry runs, usage); `tests` is for many tiny tables. `memory` limits the heap (`4g`; 1g if empty);
    Spark needs another 500 MB, and spills to SPARK_LOCAL_DIRS. `jars` are added to the class path, such as JDBC
    drivers. A running JVM keeps its memory, class path and options: a second call in the process returns the same
    session with the credentials of `s3`. Raises `PipelineError` of one line if Java, the jars or the session fail.
    """
    host = machine()
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError as missing:
        raise PipelineError(
            f"Spark is not installed ({missing.name}). Install Spark, Delta and Java: `pip install 'deltaic[pipeline]'`"
        ) from missing
    settings, archive = EVERYWHERE, None
    if not host.launched_by_spark:
        local_settings, archive = _jvm(host, brief=brief or tests, tests=tests, extra_jars=jars, report=report)
        heap = {"spark.driver.memory": memory} if memory else {}
        settings = EVERYWHERE | LOCAL | (TESTS if tests else {}) | heap | local_settings
    spark = _start(app, settings)
    if s3 is not None and not host.launched_by_spark:
        # Set in the running JVM: on the command line, every user of the machine could read the keys.
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 -- pyspark has no public way in
        for name, value in s3.hadoop().items():
            hadoop.set(name, value)
    # The caller gets Spark's errors as exceptions; pyspark would also log each, with a stack trace.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    _require_delta()
    if archive is not None:
        atexit.register(archive, java_class("java.lang.System").getProperty("java.class.path"))
    return spark


def _start(app: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        SparkContext.getOrCreate(SparkConf().setAppName(app).setAll(list(settings.items())))
    except PySparkRuntimeError as failure:
        raise PipelineError(
            f"Spark did not start with the Java at {os.environ.get('JAVA_HOME', 'the PATH')}: "
            f"{failure.getCondition() or failure}. See its output above."
        ) from failure
    if threading.current_thread() is threading.main_thread():
        # The context installs a handler that cancels jobs over this thread's connection, where another response can be
        # under way, such as that of the next line.
        signal.signal(signal.SIGINT, on_interrupt)
    return SparkSession.builder.appName(app).config(map=dict(settings)).getOrCreate()


def close_thread_connection(spark: "SparkSession") -> None:
    """Close this thread's connection to the JVM; each thread but the main thread must call this before it ends."""
    client = _gateway(spark)._gateway_client  # noqa: SLF001 -- pyspark has no public way in
    connection = client.get_thread_connection()
    if connection is not None:
        connection.close()


def close_callback_server(spark: "SparkSession") -> None:
    """Close the server for calls from the JVM to Python (`foreachBatch`); call this when no stream runs.

    While the server is open, the process does not exit. A later stream opens it again.
    """
    gateway = _gateway(spark)
    server = gateway.__dict__.get("_callback_server")
    if server is None:
        return
    for connection in list(server.connections):
        with suppress(OSError, AttributeError):  # it can close by itself at the same time
            connection.socket.shutdown(socket.SHUT_RDWR)  # ends the thread that reads from it
    gateway.shutdown_callback_server()
    gateway._callback_server = None  # noqa: SLF001 -- pyspark checks this before it opens one


def stop(spark: "SparkSession") -> None:
    """Stop the Spark session and its JVM, which frees some 700 MB of memory; safe to call twice."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:  # noqa: SLF001 -- the only check that starts none
        return
    gateway = _gateway(spark)
    warehouse = spark.conf.get("spark.sql.warehouse.dir") or ""
    spark.stop()
    if machine().launched_by_spark:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 -- pyspark keeps them for the process's life
    process: subprocess.Popen[bytes] = gateway.proc
    for connection in list(gateway._gateway_client.deque):  # noqa: SLF001 -- connections of other threads
        connection.close()
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # this is what ends the JVM
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(warehouse.removeprefix("file:"), ignore_errors=True)


def _gateway(spark: "SparkSession") -> Any:
    return spark.sparkContext._gateway  # noqa: SLF001 -- pyspark has no public way in


def _jvm(
    host: Machine, *, brief: bool, tests: bool, extra_jars: Sequence[Path], report: Callable[[str], None]
) -> tuple[dict[str, str], Callable[[str], object] | None]:
    """Find Java and the jars; return Spark settings for the JVM, and a function that archives its classes, if any."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 -- the only check that starts none
        return {}, None
    java = find_java(host, bundled_runtime())
    jars = ensure_jars(NEEDED, host, report)
    # pyspark starts the JVM and the Python workers from these variables; no setting replaces them.
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # At the end of the class path: the class archive is valid for a class path that begins with its own.
    os.environ["SPARK_DIST_CLASSPATH"] = os.pathsep.join(map(str, extra_jars))
    options = [
        *(JVM_BRIEF if brief else JVM_LONG),
        f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
    ]
    if MUSL.exists():
        options += [
            f"-Dorg.xerial.snappy.lib.path={_snappy_library(host.cache).parent}",
            "-Dorg.xerial.snappy.lib.name=libsnappyjava.so",
        ]
    archive_path = archive_of(java, host, jars)
    archive = None if extra_jars or tests or archive_path.exists() else partial(make_archive, java.home, archive_path)
    if archive or archive_path.exists():
        options.append(archive_option(archive_path))
    # One folder for each session: if two sessions created a common one at the same time, Hadoop would fail.
    folder = Path(
        tempfile.mkdtemp(prefix="deltaic-spark-", dir=os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None)
    )
    (folder / "s3a").mkdir()
    return {
        # The class path, not `spark.jars`: no copy into a temporary folder and no second class loader.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.warehouse.dir": str(folder),
        "spark.hadoop.fs.s3a.buffer.dir": str(folder / "s3a"),
    }, archive


def archive_of(java: Java, host: Machine, jars: Sequence[Path]) -> Path:
    """Return the path of the class archive that sessions on this machine use if it exists."""
    import pyspark

    return java.archive(host.cache, [*jars, Path(pyspark.__file__).with_name("jars")])


def _snappy_library(cache: Path) -> Path:
    """Return the path of the snappy library for glibc, extracted once from pyspark's jar into the cache."""
    import pyspark

    jar = next(Path(pyspark.__file__).parent.glob("jars/snappy-java-*.jar"))
    library = cache / "native" / jar.stem / "libsnappyjava.so"
    if not library.exists():
        with zipfile.ZipFile(jar) as archive:
            write_once(library, archive.read("org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"), mode=0o755)
    return library


def _require_delta() -> None:
    """Raise `PipelineError` if Delta is missing; Spark would start without it, and fail at the first table."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    initialize, outside_spark = True, False
    try:
        java_class("org.apache.spark.util.Utils").classForName(DELTA_EXTENSION, initialize, outside_spark)
    except Py4JJavaError as absent:
        raise PipelineError(
            "Delta Lake is not on Spark's class path: delete the jars in the cache folder, or on EMR pass "
            "spark.jars=/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar."
        ) from absent
