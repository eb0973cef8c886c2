"""The Spark session and every setting of it: Delta, s3a, the JVM and its traps, here or on a cluster with its own."""

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
from deltaic_pipeline.spark.jars import NEEDED, ensure
from deltaic_pipeline.spark.java import begun_with, bundled_runtime, find_java, make_archive
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.storage_access import S3Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

EVERYWHERE = {
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # What Spark hands to Java keeps days that were none when the calendar changed, such as 1582-10-10.
    "spark.sql.datetime.java8API.enabled": "true",
    # Text that becomes SQL (steps, conditions, comments, properties) holds no variables of the machine's: ${env:...}.
    "spark.sql.variable.substitute": "false",
    # Files in encodings that Java has and Spark 4 refuses, such as Windows-1252, are read.
    "spark.sql.legacy.javaCharsets": "true",
    # zstd is smaller than snappy, and needs no native library that musl's presence can spoil.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "static",
    # Rows that are kept on disk are compressed as whole blocks; trying every scheme on every column costs more.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""What holds on a laptop and on EMR alike."""

LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.memory": "1g",
    # All three listening ports stay on loopback.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # One machine: two tasks keep two cores busy; the cluster defaults of 200, 50 and 10,000 tasks only add start-up.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Replaces the version checksum's 20 requests a commit; readers do not need the file.
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # One run of a dataset fills the 100 classes that Spark keeps by default, so each next one of a process would
    # generate and compile all of its own again: a third of its processor time.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
"""One JVM, driver and executor in one. On EMR none of it applies."""

TESTS = {
    "spark.master": "local[2]",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Many tiny tables: compiling queries costs more than interpreting them."""

# What the JVM has to say of archives and the like would stand among a job's own lines.
# A database's times without a zone are those of Java's zone, and of the session's once they are compared there.
JVM = ("-XX:+UseSerialGC", "-Xlog:disable", "-Duser.timezone=UTC")
JVM_LONG = (
    *JVM,
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""For rows of any number: the optimizing compiler waits for ten times its usual signs. What the rows go through shows
them within a second; the rest of a run, thousands of methods of planning, is not worth that compiler's work."""
JVM_BRIEF = (*JVM, "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""For a session of a minute or two: the optimizing compiler would be paid for and not used. 20 million rows written
with it take 57 s of processor time, and 100 s without. Without that compiler the JVM sets 48 MB aside for code, which
Spark fills within minutes: making room then took 40 % of all time."""
STOP_TIMEOUT_SECONDS = 20
MUSL = Path("/lib/ld-musl-x86_64.so.1")
"""Where this file exists snappy-java takes the machine for a musl one, loads the wrong library and fails."""


def session(  # noqa: PLR0913 -- what differs between jobs
    app: str,
    s3: S3Access | None = None,
    *,
    tests: bool = False,
    brief: bool = False,
    memory: str = "",
    jars: Sequence[Path] = (),
    report: Callable[[str], None] = lambda _: None,
) -> "SparkSession":
    """Return the Spark session of a job, started if this process has none yet.

    Without a cluster it finds Java, fetches the jars on the first use and runs in this process; in a driver that
    `spark-submit` started it adds only Delta's settings and leaves master, memory, class path and credentials alone.
    `brief` trades speed on large data for an earlier end of a small job (dry runs, usage), `tests` even more for many
    tiny tables.
    `memory` bounds the heap (`4g`; 1g if empty), beside which Spark takes some 500 MB; what does not fit goes to
    SPARK_LOCAL_DIRS. `jars` are put on the class path, such as drivers of databases. The JVM's memory, class path and
    options are fixed once it runs: a second call in the same process returns the first session, pointed at `s3`.
    Raises `PipelineError` with one line when Java, the jars or the session cannot be had.
    """
    here = machine()
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError as missing:
        raise PipelineError(
            f"Spark is not installed ({missing.name}): `pip install 'deltaic[pipeline]'` brings it, Delta and a Java"
        ) from missing
    settings, archive = EVERYWHERE, None
    if not here.launched_by_spark:
        own, archive = _jvm(here, brief=brief or tests, tests=tests, more=jars, report=report)
        heap = {"spark.driver.memory": memory} if memory else {}
        settings = EVERYWHERE | LOCAL | (TESTS if tests else {}) | heap | own
    spark = _started(app, settings)
    if s3 is not None and not here.launched_by_spark:
        # Set inside the running JVM: on the command line every user of the machine could read the keys.
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 -- pyspark has no public way in
        for name, value in s3.hadoop().items():
            hadoop.set(name, value)
    # What Spark refuses reaches the caller as one error; pyspark would log it beside that, with a stack trace.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    _require_delta()
    if archive is not None:
        atexit.register(archive, java_class("java.lang.System").getProperty("java.class.path"))
    return spark


def _started(app: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        SparkContext.getOrCreate(SparkConf().setAppName(app).setAll(list(settings.items())))
    except PySparkRuntimeError as failure:
        raise PipelineError(
            f"Spark did not start with the Java at {os.environ.get('JAVA_HOME', 'the PATH')}: "
            f"{failure.getCondition() or failure}; what it printed is above."
        ) from failure
    if threading.current_thread() is threading.main_thread():
        # pyspark's own handler, the context's last act, asks the JVM to cancel over the connection on which an answer
        # may be under way, such as that to the session's making.
        signal.signal(signal.SIGINT, on_interrupt)
    return SparkSession.builder.appName(app).config(map=dict(settings)).getOrCreate()


def leave(spark: "SparkSession") -> None:
    """Close this thread's connection to the JVM; every thread but the main one calls it when it is done with Spark."""
    client = _gateway(spark)._gateway_client  # noqa: SLF001 -- pyspark has no public way in
    connection = client.get_thread_connection()
    if connection is not None:
        connection.close()


def end_callbacks(spark: "SparkSession") -> None:
    """Close what the JVM calls Python through (`foreachBatch`), once no stream runs; a later stream opens it again.

    A process that leaves it open does not end: closing a stream waits for the thread that reads from it.
    """
    gateway = _gateway(spark)
    server = gateway.__dict__.get("_callback_server")
    if server is None:
        return
    for connection in list(server.connections):
        with suppress(OSError, AttributeError):  # it may close by itself at this moment
            connection.socket.shutdown(socket.SHUT_RDWR)  # whoever reads from it reads its end
    gateway.shutdown_callback_server()
    gateway._callback_server = None  # noqa: SLF001 -- what pyspark asks before it opens one


def stop(spark: "SparkSession") -> None:
    """Stop the session and its JVM, some 700 MB of memory; a later `session` starts another one. Safe to call twice."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:  # noqa: SLF001 -- the only way to ask without starting one
        return
    gateway = _gateway(spark)
    warehouse = spark.conf.get("spark.sql.warehouse.dir") or ""
    spark.stop()
    if machine().launched_by_spark:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 -- pyspark keeps them for the process's life
    process: subprocess.Popen[bytes] = gateway.proc
    for connection in list(gateway._gateway_client.deque):  # noqa: SLF001 -- the threads that did not `leave`
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
    here: Machine, *, brief: bool, tests: bool, more: Sequence[Path], report: Callable[[str], None]
) -> tuple[dict[str, str], Callable[[str], object] | None]:
    """Prepare what has to be right before a JVM exists; return the settings that name it, and what keeps its classes.

    The latter is None where there is an archive already, and where one would be of files that differ between jobs.
    """
    import pyspark
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 -- the only way to ask without starting one
        return {}, None
    java = find_java(here, bundled_runtime())
    jars = ensure(NEEDED, here, report)
    # pyspark starts the JVM and the Python workers from these variables; no setting replaces them.
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = [
        *(JVM_BRIEF if brief else JVM_LONG),
        f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
    ]
    if MUSL.exists():
        options += [
            f"-Dorg.xerial.snappy.lib.path={_snappy_library(here.cache).parent}",
            "-Dorg.xerial.snappy.lib.name=libsnappyjava.so",
        ]
    kept = java.archive(here.cache, [*jars, Path(pyspark.__file__).with_name("jars")])
    archive = None if more or tests or kept.exists() else partial(make_archive, java.home, kept)
    if archive or kept.exists():
        options.append(begun_with(kept))
    # One folder for each session: two that made a common one at the same moment would fail over each other in Hadoop.
    folder = Path(
        tempfile.mkdtemp(prefix="deltaic-spark-", dir=os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None)
    )
    (folder / "s3a").mkdir()
    return {
        # The class path, not `spark.jars`: no copy into a temporary folder and no second class loader.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in (*jars, *more)),
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.warehouse.dir": str(folder),
        "spark.hadoop.fs.s3a.buffer.dir": str(folder / "s3a"),
    }, archive


def _snappy_library(cache: Path) -> Path:
    """Return the glibc build of snappy, taken once out of pyspark's own jar."""
    import pyspark

    jar = next(Path(pyspark.__file__).parent.glob("jars/snappy-java-*.jar"))
    library = cache / "native" / jar.stem / "libsnappyjava.so"
    if not library.exists():
        with zipfile.ZipFile(jar) as archive:
            write_once(library, archive.read("org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"), mode=0o755)
    return library


def _require_delta() -> None:
    """Refuse a session without Delta: Spark starts without its extension and fails much later, at the first table."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    initialize, outside_spark = True, False
    try:
        java_class("org.apache.spark.util.Utils").classForName(DELTA_EXTENSION, initialize, outside_spark)
    except Py4JJavaError as absent:
        raise PipelineError(
            "Delta Lake is not on Spark's class path: delete the jars in the cache folder, or on EMR pass "
            "spark.jars=/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar."
        ) from absent
