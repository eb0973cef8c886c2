"""Jobs in processes of their own: killed anywhere and started again, or on a disk that takes no more."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import yaml
from datasets.files import dataset, json_source, run_of
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic_pipeline.building import build
from deltaic_pipeline.register import Catalog
from deltaic_pipeline.steps import silent
from pipeline.place import BUCKET, CATALOG, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

    Job = subprocess.Popen[str]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KILLS = int(os.environ.get("DELTAIC_KILLS", "1"))
"""How often the job is killed; each is a start of Spark. `test_dying` has more points, and exact ones."""

SEED = os.environ.get("DELTAIC_SEED") or uuid4().hex
FIRST = [{"id": n, "name": "old"} for n in range(50)]
SECOND = [{"id": n, "name": None if n % 10 == 9 else "new"} for n in range(25, 75)]
EXPECTED = dict.fromkeys(range(50), "old") | {n: "new" for n in range(25, 75) if n % 10 != 9}


def content(place: Place, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return dataset(
        place.location,
        sources={"s": json_source(place.folder, name, rows, "id INT NOT NULL, name STRING")},
        write={"mode": "merge", "keys": ["id"]},
        target={"comment": f"as {name}", "share": f"killed.s.{place.prefix}"},
        expectations=[{"expect": "not_null", "columns": ["name"], "action": "quarantine"}],
    )


def start(place: Place, environment: Mapping[str, str], content: Mapping[str, Any], *shell: str) -> "Job":
    file = place.folder / "dataset.yaml"
    file.write_text(yaml.safe_dump(dict(content)))
    command = [*shell, sys.executable, "-m", "deltaic_pipeline.run", str(file), "--run-id=second", "--json"]
    told = {**environment, "PATH": os.environ["PATH"]}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=told, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_a_run_that_is_killed_anywhere_ends_with_the_same_tables_and_one_commit(
    spark: "SparkSession", catalog: Catalog, place: Place, dynamo: Dynamo, job_environment: Mapping[str, str]
) -> None:
    build(spark, run_of(content(place, "first", FIRST), "first"), catalog, silent)
    draw, leases = random.Random(SEED), Leases(CATALOG, dynamo)  # noqa: S311 -- any point will do
    killed: list[tuple[Any, ...]] = [("seed", SEED)]
    for _ in range(KILLS):
        process = start(place, job_environment, content(place, "second", SECOND))
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("step") == "Starting Spark":
                break
        pause = draw.uniform(0, 7)
        time.sleep(pause)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # Python and its JVM
        _, said = process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}, said
        killed.append((pause, process.returncode))
        for location in (place.location, f"{place.location}_quarantine"):
            lease = leases.find(location)
            if lease is not None:  # or one waits until it ends
                leases.release(location, lease.holder)
    assert -signal.SIGKILL in {status for _, status in killed[1:]}, killed
    build(spark, run_of(content(place, "second", SECOND), "second"), catalog, silent)
    again = build(spark, run_of(content(place, "second", SECOND), "second"), catalog, silent)
    assert again.repeated, killed
    table = spark.read.format("delta").load(place.spark_location)
    assert {row["id"]: row["name"] for row in table.collect()} == EXPECTED, killed
    assert table.count() == len(EXPECTED)
    aside = spark.read.format("delta").load(f"{place.spark_location}_quarantine").collect()
    assert sorted(row["id"] for row in aside) == [n for n in range(25, 75) if n % 10 == 9], killed
    for location in (place.spark_location, f"{place.spark_location}_quarantine"):
        marks = spark.sql(f"DESCRIBE HISTORY delta.`{location}`").select("userMetadata").collect()
        assert [row["userMetadata"] for row in marks].count('{"run": "second"}') == 1, killed
    detail: Any = spark.sql(f"DESCRIBE DETAIL delta.`{place.spark_location}`").first()
    assert detail["description"] == "as second"


def test_a_full_disk_ends_a_run_with_a_message_and_the_table_as_it_was(
    spark: "SparkSession", catalog: Catalog, place: Place, job_environment: Mapping[str, str], s3: "S3Client"
) -> None:
    build(spark, run_of(content(place, "first", FIRST), "first"), catalog, silent)

    def log() -> list[str]:
        return [
            item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{place.prefix}/_delta_log/0")["Contents"]
        ]

    before = log()
    draw = random.Random(1)  # noqa: S311 -- bytes that do not compress
    many = [{"id": n, "name": draw.randbytes(40).hex()} for n in range(20_000)]
    # No process of the job may write a file of more than 200 kB, as if its disk were full.
    process = start(
        place, job_environment, content(place, "many", many), "bash", "-c", 'ulimit -f 200; exec "$@"', "job"
    )
    shown, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    [told] = [line for line in said.splitlines() if not line.startswith("WARNING: Using incubator modules")]
    assert told.startswith("error: a disk is full (")
    failed = json.loads(shown.splitlines()[-1])
    assert (failed["event"], failed["exitCode"]) == ("failed", 1)
    assert log() == before


def refused(file: str, environment: Mapping[str, str]) -> list[str]:
    """Return what a run of a file that is wrong says; there is no Java, so it ends before Spark starts."""
    command = [sys.executable, "-m", "deltaic_pipeline.run", file]
    done = subprocess.run(command, env={**environment, "PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()


@pytest.mark.parametrize("where", ["disk", "S3"])
def test_a_wrong_file_ends_a_run_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], s3: "S3Client", where: str
) -> None:
    wrong = "name: a\nwrite: {mode: append}\nsources: {}\n"
    (place.folder / "wrong.yaml").write_text(wrong)
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/wrong.yaml", Body=wrong.encode())
    file = f"{place.location if where == 'S3' else place.folder}/wrong.yaml"
    assert refused(file, job_environment) == [
        f"error: {file}:1: target: is required",
        f"error: {file}:3: sources: is empty: name at least one",
    ]


def test_a_file_that_cannot_be_read_is_told_by_its_name(place: Place, job_environment: Mapping[str, str]) -> None:
    file = f"{place.location}/none.yaml"
    assert refused(file, job_environment) == [f"error: {file} cannot be read: NoSuchKey."]
    closed = {**job_environment, "AWS_ACCESS_KEY_ID": "nobody"}
    [told] = refused(file, closed)
    assert told.startswith(f"error: {file} cannot be read: ")
