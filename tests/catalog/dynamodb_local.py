"""Amazon's own DynamoDB Local for tests: jars from Maven Central, fetched once, on a loopback port."""

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
    """Run it until the block ends, its log in the folder; yields its port. Skips the test where it cannot be had."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or (maven is None and not JARS.is_dir()):
        unavailable("DynamoDB Local needs Java 17, and Maven on the first run")
    if not JARS.is_dir():
        _fetch(str(maven))
    port = free_port()
    log = folder / "log"
    command = [
        str(java),
        "-Xmx384m",
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


def _fetch(maven: str) -> None:
    """Copy the jars to the cache, whole or not at all."""
    JARS.parent.mkdir(parents=True, exist_ok=True)
    partial = JARS.with_name(f"{JARS.name}.{uuid4().hex}")
    command = [maven, "-q", "-B", "-f", str(HERE / "dynamodb-local.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={partial}", "-DincludeScope=runtime"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        unavailable(f"DynamoDB Local could not be fetched from Maven Central:\n{done.stdout[-2000:]}")
    if JARS.is_dir():  # another run was faster
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
        except Exception:  # noqa: BLE001 -- whatever it is, it is not up
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                unavailable(f"DynamoDB Local did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        else:
            client.close()
            return


def unavailable(reason: str) -> NoReturn:
    """Skip where a developer lacks something; fail where the pipeline does, lest it be skipped for ever."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)
