"""Amazon's DynamoDB Local for tests: jars from Maven Central, downloaded once, on a loopback port."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from deltaic_ops.local.embedded import free_port
from deltaic_terminal.environment import machine

HERE = Path(__file__).parent
JARS = machine().cache / "dynamodb-local-3.3.1"


@contextmanager
def started(folder: Path) -> Iterator[int]:
    """Run DynamoDB Local during the block and yield its port; skip the test if it is not available."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or (maven is None and not JARS.is_dir()):
        unavailable("DynamoDB Local needs Java 17, and Maven on the first run")
    if not JARS.is_dir():
        _download(str(maven))
    port = free_port()
    log = folder / "log"
    command = [
        str(java),
        "-Xmx384m",
        # It lives for a minute or two: compiling its code at length would cost more than the code saves.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Djava.library.path={JARS}",
        "-cp",
        f"{JARS}/*",
        str(HERE / "LoopbackDynamoDb.java"),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        _wait(process, port, log)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _download(maven: str) -> None:
    """Copy all jars to the cache, or none."""
    JARS.parent.mkdir(parents=True, exist_ok=True)
    partial = JARS.with_name(f"{JARS.name}.{uuid4().hex}")
    command = [maven, "-q", "-B", "-f", str(HERE / "dynamodb-local.xml"), "dependency:copy-dependencies"]
    result = subprocess.run(
        [*command, f"-DoutputDirectory={partial}", "-DincludeScope=runtime"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if result.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        unavailable(f"DynamoDB Local could not be downloaded from Maven Central:\n{result.stdout[-2000:]}")
    if JARS.is_dir():  # another run has copied them
        shutil.rmtree(partial)
    else:
        partial.rename(JARS)


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    client = boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=10),
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            client.list_tables()
        except Exception:  # noqa: BLE001 -- any error means that it is not running yet
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                unavailable(f"DynamoDB Local did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        else:
            client.close()
            return


def unavailable(reason: str) -> NoReturn:
    """Skip the test on a developer's machine, but fail in CI, so that a test is not always skipped."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)
