"""Two Spark drivers, each a process of its own: no acknowledged commit is lost, whatever Java the machine has."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.embedded import free_port
from deltaic_pipeline.spark.jars import NEEDED, ensure
from deltaic_terminal.environment import machine
from pipeline.place import BUCKET

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LOCATION = f"s3://{BUCKET}/drivers/people"
TABLE = "drivers.s.people"


@dataclass(frozen=True)
class Outcome:
    """How a driver ended."""

    status: int
    shown: str


@pytest.fixture(scope="module")
def outcomes(
    s3: "S3Client",
    dynamo: Dynamo,
    job_environment: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Outcome]:
    """Start two publishers of one table at once, neither with a usable Java of the machine nor with a network."""
    assert s3.head_bucket(Bucket=BUCKET)
    assert dynamo is not None
    ensure(NEEDED, machine(), lambda _: None)
    folder = tmp_path_factory.mktemp("drivers")
    wrong = folder / "bin" / "java"
    wrong.parent.mkdir()
    wrong.write_text("#!/bin/sh\necho '    java.specification.version = 25' >&2\n")
    wrong.chmod(0o755)
    no_java = _tools(folder / "tools")
    nobody = f"http://127.0.0.1:{free_port()}"  # any jar that is not in the cache would be a failure
    paths = [f"{no_java}", f"{wrong.parent}:{no_java}"]
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
        environment = {**job_environment, "PATH": path, "DEFAULT_ARTIFACT_REPOSITORY": nobody}
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    try:
        shown = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [Outcome(process.returncode, text) for process, text in zip(processes, shown, strict=True)]


def _tools(folder: Path) -> Path:
    """Make a PATH that holds what Spark's start scripts call, and no Java."""
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "env", "uname", "cat", "rm", "mkdir", "tr", "sed", "nice"):
        program = shutil.which(name)
        if program:
            (folder / name).symlink_to(program)
    return folder


def test_both_publish_without_a_java_of_the_machine_and_without_a_network(outcomes: list[Outcome]) -> None:
    assert [outcome.status for outcome in outcomes] == [0, 0], "\n".join(outcome.shown for outcome in outcomes)


def test_no_acknowledged_commit_is_lost(outcomes: list[Outcome], s3: "S3Client") -> None:
    log = s3.list_objects_v2(Bucket=BUCKET, Prefix="drivers/people/_delta_log/0")["Contents"]
    bodies = [s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read().decode() for item in log]
    actions = [json.loads(line) for body in bodies for line in body.split("\n") if line]
    assert len(outcomes) == len(bodies) == 2
    assert {action["txn"]["appId"] for action in actions if "txn" in action} == {
        "deltaic-publish/run-0",
        "deltaic-publish/run-1",
    }
    statistics = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
    assert sum(entry["numRecords"] for entry in statistics) == 20


def test_the_table_is_registered_once(outcomes: list[Outcome], admin: CatalogAdmin) -> None:
    assert len(outcomes) == 2
    entries = list(admin.tables.list("drivers"))
    assert [(entry.name, entry.location) for entry in entries] == [("people", LOCATION)]


def test_each_step_is_shown_with_its_time(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        shown = [line for line in outcome.shown.splitlines() if line.startswith("ok ")]
        steps = ["Starting", "Taking", "Reading", "Writing", "Describing", "Registering"]
        assert [line.split()[1] for line in shown] == steps
        assert "Traceback" not in outcome.shown
