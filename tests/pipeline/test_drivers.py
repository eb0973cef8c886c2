"""Test that two concurrent Spark drivers lose no confirmed commit, with any Java on the machine."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from class_archive import archive_path
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.embedded import free_port
from deltaic_pipeline.spark.jars import NEEDED, ensure_jars
from deltaic_pipeline.spark.java import bundled_runtime, find_java
from deltaic_terminal.environment import machine
from pipeline.place import BUCKET

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of Spark sessions before
]

LOCATION = f"s3://{BUCKET}/drivers/people"
TABLE = "drivers.s.people"


@dataclass(frozen=True)
class DriverResult:
    """Exit status and output of a driver."""

    status: int
    output: str


@pytest.fixture(scope="module")
def results(
    s3: "S3Client",
    dynamo: Dynamo,
    job_environment: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[DriverResult]:
    """Start two publishers of one table at once, without a network, and one of them without a usable Java."""
    assert s3.head_bucket(Bucket=BUCKET)
    assert dynamo is not None
    ensure_jars(NEEDED, machine(), lambda _: None)
    folder = tmp_path_factory.mktemp("drivers")
    wrong_java = folder / "bin" / "java"
    wrong_java.parent.mkdir()
    wrong_java.write_text("#!/bin/sh\necho '    java.specification.version = 25' >&2\n")
    wrong_java.chmod(0o755)
    no_java = _tools(folder / "tools")
    closed_address = f"http://127.0.0.1:{free_port()}"  # a jar outside the cache would fail
    java = find_java(machine(), bundled_runtime()).home / "bin"
    paths = [f"{wrong_java.parent}:{no_java}", f"{java}:{no_java}"]
    processes = []
    for number, path in enumerate(paths):
        file = folder / f"{number}.json"
        file.write_text("".join(json.dumps({"id": 100 * number + row}) + "\n" for row in range(10)))
        command = [sys.executable, "-m", "deltaic_pipeline.publish", "--from", str(file), "--format", "json"]
        command += [
            "--mode",
            "append",
            "--to",
            LOCATION,
            "--table",
            TABLE,
            "--create-share",
            "--wait",
            "240",
            "--run-id",
            f"run-{number}",
        ]
        environment = {**job_environment, "PATH": path, "DEFAULT_ARTIFACT_REPOSITORY": closed_address}
        if number == 0 or not archive_path().exists():
            # Otherwise the job would archive the classes of a Java that no other test uses, for 40 seconds.
            environment["_JAVA_OPTIONS"] = "-XX:DumpLoadedClassList=/dev/null"
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    try:
        outputs = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [DriverResult(process.returncode, text) for process, text in zip(processes, outputs, strict=True)]


def _tools(folder: Path) -> Path:
    """Create a PATH with the programs that Spark's start scripts call, and without Java."""
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "env", "uname", "cat", "rm", "mkdir", "tr", "sed", "nice"):
        program = shutil.which(name)
        if program:
            (folder / name).symlink_to(program)
    return folder


def test_both_publish_without_a_network_and_one_without_java_on_the_machine(results: list[DriverResult]) -> None:
    assert [result.status for result in results] == [0, 0], "\n".join(result.output for result in results)


def test_no_confirmed_commit_is_lost(results: list[DriverResult], s3: "S3Client") -> None:
    log = s3.list_objects_v2(Bucket=BUCKET, Prefix="drivers/people/_delta_log/0")["Contents"]
    bodies = [s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read().decode() for item in log]
    actions = [json.loads(line) for body in bodies for line in body.split("\n") if line]
    assert len(results) == len(bodies) == 2
    assert {action["txn"]["appId"] for action in actions if "txn" in action} == {
        "deltaic-publish/run-0",
        "deltaic-publish/run-1",
    }
    statistics = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
    assert sum(entry["numRecords"] for entry in statistics) == 20


def test_the_table_is_registered_once(results: list[DriverResult], admin: CatalogAdmin) -> None:
    assert len(results) == 2
    entries = list(admin.tables.list("drivers"))
    assert [(entry.name, entry.location) for entry in entries] == [("people", LOCATION)]


def test_each_step_is_reported_with_its_time(results: list[DriverResult]) -> None:
    for result in results:
        lines = [line for line in result.output.splitlines() if line.startswith("ok ")]
        steps = ["Starting", "Acquiring", "Reading", "Writing", "Describing", "Registering"]
        assert [line.split()[1] for line in lines] == steps
        assert "Traceback" not in result.output
