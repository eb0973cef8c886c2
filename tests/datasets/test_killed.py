"""Test jobs in separate processes: killed and repeated, interrupted, or on a full disk."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import yaml
from datasets.files import dataset, json_source, run_of
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic_datasets.run.batch import build
from deltaic_pipeline import entry
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.column_names import THE_TABLE
from deltaic_terminal.progress import silent
from held_lease import held_lease
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
"""How often the job is killed. Each time Spark must start; `test_dying` checks more and exact points."""

SEED = os.environ.get("DELTAIC_SEED") or uuid4().hex
FIRST = [{"id": n, "name": "old"} for n in range(50)]
SECOND = [{"id": n, "name": None if n % 10 == 9 else "new"} for n in range(25, 75)]
EXPECTED = {n: "old" if n % 10 == 9 else "new" for n in range(25, 75) if n % 10 != 9 or n < 50}
"""The second delivery is a full extract without the keys of the first, except those of quarantined rows."""


def content(place: Place, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return dataset(
        place.location,
        sources={"s": json_source(place.folder, name, rows, "id INT NOT NULL, name STRING")},
        write={"mode": "merge", "keys": ["id"], "delete_missing": True, "at_most": "50 %"},
        target={"comment": f"as {name}", "share": f"killed.s.{place.prefix}", "create_share": True},
        expectations=[{"expect": "not_null", "columns": ["name"], "action": "quarantine"}],
    )


def start(place: Place, environment: Mapping[str, str], content: Mapping[str, Any], *shell: str) -> "Job":
    file = place.folder / "dataset.yaml"
    file.write_text(yaml.safe_dump(dict(content)))
    command = [*shell, sys.executable, "-m", "deltaic_datasets.run.job", str(file), "--run-id=second", "--json"]
    message = {**environment, "PATH": os.environ["PATH"]}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=message, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_killed_and_repeated_run_makes_one_commit(
    spark: "SparkSession", catalog: JobCatalog, place: Place, dynamo: Dynamo, job_environment: Mapping[str, str]
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
        _, messages = process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}, messages
        killed.append((pause, process.returncode))
        for location in (place.location, f"{place.location}_quarantine"):
            lease = held_lease(leases, location)
            if lease is not None:  # or the run would wait for the lease to expire
                leases.release(location, lease.holder)
    assert -signal.SIGKILL in {status for _, status in killed[1:]}, killed
    build(spark, run_of(content(place, "second", SECOND), "second"), catalog, silent)
    again = build(spark, run_of(content(place, "second", SECOND), "second"), catalog, silent)
    assert again.repeated, killed
    rows = place.table().rows("id", "name")
    assert dict(rows) == EXPECTED, killed
    assert len(rows) == len(EXPECTED)
    aside = place.table("_quarantine").rows("id")
    assert aside == [(n,) for n in range(25, 75) if n % 10 == 9], killed
    for suffix in ("", "_quarantine"):
        marks = [commit.get("userMetadata") or "" for commit in place.table(suffix).open().history()]
        assert ['"run": "second"' in mark for mark in marks].count(True) == 1, killed
    assert place.table().open().metadata().description == "as second"


def test_full_disk_ends_a_run_with_a_message_and_no_change(
    spark: "SparkSession", catalog: JobCatalog, place: Place, job_environment: Mapping[str, str], s3: "S3Client"
) -> None:
    build(spark, run_of(content(place, "first", FIRST), "first"), catalog, silent)

    def log() -> list[str]:
        return [
            item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{place.prefix}/_delta_log/0")["Contents"]
        ]

    before = log()
    draw = random.Random(1)  # noqa: S311 -- bytes that do not compress
    many = [{"id": n, "name": draw.randbytes(40).hex()} for n in range(20_000)]
    # The job's processes cannot write files of more than 200 kB, as on a full disk.
    environment = {**job_environment, "PYTHONDONTWRITEBYTECODE": "1"}  # otherwise truncated bytecode would remain
    process = start(place, environment, content(place, "many", many), "bash", "-c", 'ulimit -f 200; exec "$@"', "job")
    output, messages = process.communicate(timeout=300)
    assert process.returncode == 1, messages
    message, more = messages.splitlines()
    assert re.match(r"error: \S+dataset\.yaml:\d+: write: a disk is full \(", message)
    assert "--show-values" in more
    failed = json.loads(output.splitlines()[-1])
    assert (failed["event"], failed["exitCode"]) == ("failed", 1)
    assert log() == before


def refused(file: str, environment: Mapping[str, str], job: str = "run", *more: str, code: int = 1) -> list[str]:
    """Return the messages of a job that must fail before Spark starts; it has no Java."""
    command = [sys.executable, "-m", entry.JOBS[job], *more, file]
    done = subprocess.run(command, env={**environment, "PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    return done.stderr.splitlines()


@pytest.mark.parametrize("position", ["disk", "S3"])
def test_wrong_file_is_refused_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], s3: "S3Client", position: str
) -> None:
    wrong = "name: a\nwrite: {mode: append}\nsources: {}\n"
    (place.folder / "wrong.yaml").write_text(wrong)
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/wrong.yaml", Body=wrong.encode())
    file = f"{place.location if position == 'S3' else place.folder}/wrong.yaml"
    assert refused(file, job_environment) == [
        f"error: {file}:1: target: is required",
        f"error: {file}:3: sources: is empty: add at least one",
    ]


def test_delete_at_most_needs_delete_missing(place: Place, job_environment: Mapping[str, str]) -> None:
    file = place.folder / "kept.yaml"
    file.write_text(yaml.safe_dump(content(place, "s", FIRST) | {"write": {"mode": "merge", "keys": ["id"]}}))
    [message] = refused(str(file), job_environment, "run", "--delete-at-most=50%")
    assert message == "error: --delete-at-most is only for datasets with write.delete_missing: remove the option."
    *_, message = refused(str(file), job_environment, "run", "--delete-at-most=half", code=2)
    assert "'half' is not a limit such as 50% or '100 rows'" in message


def test_unreadable_dataset_file_is_reported_by_name(place: Place, job_environment: Mapping[str, str]) -> None:
    file = f"{place.location}/none.yaml"
    assert refused(file, job_environment) == [f"error: {file} cannot be read: NoSuchKey."]
    closed = {**job_environment, "AWS_ACCESS_KEY_ID": "nobody"}
    [message] = refused(file, closed)
    assert message.startswith(f"error: {file} cannot be read: ")


def test_missing_locations_are_reported_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], s3: "S3Client"
) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/in/a.csv", Body=b"id")
    (place.folder / "b.csv").write_text("id")
    paths = [
        f"{place.location}/in/*.csv",
        f"{place.location}/out/*.csv",
        "b.csv",
        "c.csv",
        f"s3://{BUCKET}s/in",
        f"{place.folder}/none/*.csv",
    ]
    file = place.folder / "lost.yaml"
    file.write_text(
        f"name: a\nwrite: {{mode: append}}\ntarget:\n  location: s3://{BUCKET[:-1]}/a\nsources:\n  s:\n"
        "    format: csv\n    paths:\n" + "".join(f"    - {path}\n" for path in paths)
    )
    assert refused(str(file), job_environment) == [
        f"error: {file}:4: target.location: there is no bucket '{BUCKET[:-1]}': did you mean {BUCKET}?",
        f"error: {file}:10: sources.s.paths[1]: there is nothing at {paths[1]}",
        f"error: {file}:12: sources.s.paths[3]: there is nothing at {place.folder}/c.csv",
        f"error: {file}:13: sources.s.paths[4]: there is no bucket '{BUCKET}s': did you mean {BUCKET}?",
        f"error: {file}:14: sources.s.paths[5]: there is nothing at {paths[5]}",
    ]


@pytest.mark.usefixtures("catalog")
def test_missing_share_is_reported_before_spark_starts(place: Place, job_environment: Mapping[str, str]) -> None:
    file = place.folder / "unshared.yaml"
    file.write_text(
        yaml.safe_dump(content(place, "s", FIRST) | {"target": {"location": place.location, "share": "a.b.c"}})
    )
    [message] = refused(str(file), job_environment)
    assert ": target.share: there is no share 'a'" in message


@pytest.fixture
def kept_columns(place: Place, s3: "S3Client") -> None:
    """Create a table with the columns `id` and `day` at the test's location."""
    schema = {"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
    ]}  # fmt: skip
    metadata = {
        "id": "0", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
        "partitionColumns": [], "configuration": {},
    }  # fmt: skip
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    body = "\n".join(map(json.dumps, lines)).encode()
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/_delta_log/{0:020}.json", Body=body)


@pytest.mark.usefixtures("catalog", "kept_columns")
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param(
            {"write": {"mode": "merge", "keys": ["idd"]}},
            [f"write.keys[0]: 'idd' is not a column of {THE_TABLE}: did you mean id?"],
            id="a key",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"write": {"mode": "merge", "keys": ["idd"]}, "target": {"evolve_schema": True, "partition_by": ["new"]}},
            ["write.keys[0]: 'idd' is not a column of the table: did you mean id?"],
            id="a key, and columns may come",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"target": {"partition_by": ["dya"]}, "expectations": [{"expect": "unique", "columns": ["idd"]}]},
            [
                f"expectations[0].columns[0]: 'idd' is not a column of {THE_TABLE}: did you mean id?",
                "target.partition_by[0]: 'dya' is not a column: did you mean day?",
            ],
            id="columns of a partition and an expectation",
        ),
    ],
)
def test_missing_columns_are_reported_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], parts: dict[str, Any], message: list[str]
) -> None:
    source = {"format": "json", "paths": [str(place.folder)]}
    file = place.folder / "columns.yaml"
    dataset_content = {"name": "columns", "sources": {"s": source}, "write": {"mode": "append"}, **parts}
    dataset_content["target"] = {"location": place.location, **parts.get("target", {})}
    file.write_text(yaml.safe_dump(dataset_content))
    messages = [line.removeprefix(f"error: {file}:").partition(": ")[2] for line in refused(str(file), job_environment)]
    assert messages == message


@pytest.mark.usefixtures("kept_columns")
@pytest.mark.parametrize(
    "job", ["run", "publish", *(pytest.param(job, marks=pytest.mark.long) for job in ("maintain", "usage"))]
)
def test_another_writer_is_reported_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], catalog: JobCatalog, job: str
) -> None:
    (place.folder / "rows.json").write_text('{"id": 1}\n')
    file = place.folder / "held.yaml"
    source = {"format": "json", "paths": [str(place.folder / "*.json")]}
    target = {"location": place.location}
    file.write_text(
        yaml.safe_dump({"name": "held", "sources": {"s": source}, "write": {"mode": "append"}, "target": target})
    )
    arguments = {
        "run": [str(file)],
        "publish": ["--from", f"{place.folder}/rows.json", "--format=json", f"--to={place.location}"],
        "maintain": [place.location],
        "usage": ["--requests", str(place.folder), "--fetches", str(place.folder), f"--to={place.location}"],
    }[job]
    catalog.leases.acquire(place.location, "somebody", timedelta(seconds=60))
    last = arguments.pop()
    *_, message = refused(last, job_environment, job, *arguments, code=4)
    assert message.startswith(f"error: {place.location} is being written by somebody (")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"--key": "idd", "--mode": "merge", "--schema": "id INT"},
            "--key: 'idd' is not a column of the rows: did you",
        ),
        pytest.param(
            {"--key": "idd", "--mode": "merge"},
            "--key: 'idd' is not a column of the table, which gets no other without",
            marks=pytest.mark.long,
        ),
        ({"--partition-by": "dya"}, "--partition-by: 'dya' is not a column of the table, which gets no other without"),
        ({"--format": "delta", "--from": f"s3://{BUCKET}/none"}, f"there is no Delta table at s3://{BUCKET}/none"),
        ({"--option": "seperator=;"}, "--option seperator is not an option of Spark's csv reader: did you mean sep?"),
        ({"--schema": "id INTT"}, "--schema has the type 'INTT', which Spark does not know: did you mean int?"),
        # test_missing_locations_are_reported_before_spark_starts has these of a run.
        pytest.param({"--from": "none/*.csv"}, "there is nothing at none/*.csv", marks=pytest.mark.long),
        pytest.param({"--to": f"s3://{BUCKET}s/t"}, f"there is no bucket '{BUCKET}s': did", marks=pytest.mark.long),
        ({"--table": "no_share.s.t"}, "there is no share 'no_share'"),
    ],
)
@pytest.mark.usefixtures("catalog", "kept_columns")
def test_wrong_publication_is_refused_before_spark_starts(
    place: Place, job_environment: Mapping[str, str], parts: dict[str, str], message: str
) -> None:
    (place.folder / "a.csv").write_text("id\n1\n")
    options = {"--to": place.location, "--format": "csv", **parts}
    source = options.pop("--from", f"{place.folder}/a.csv")
    arguments = [argument for option in options.items() for argument in option]
    [line] = refused(source, job_environment, "publish", *arguments, "--from")
    assert line.startswith(f"error: {message}")


def interrupted(process: "Job", after: str, pause: float, number: int) -> list[str]:
    """Send a signal to the process group after a line of the job; return the job's messages."""
    stdout_, stderr_ = process.stdout, process.stderr
    assert stdout_ is not None
    assert stderr_ is not None
    for line in stdout_ if "--json" in process.args else stderr_:  # type: ignore[operator]
        if after in line:
            break
    time.sleep(pause)
    os.killpg(process.pid, number)
    stdout, err = process.communicate(timeout=60)
    assert process.returncode == 130, (stdout, err)
    steps = ("ok ", "failed ")
    return [line for line in err.splitlines() if not line.startswith(steps)]


@pytest.mark.parametrize(
    ("after", "pause", "number"),
    [
        pytest.param('"begun"', 2.0, signal.SIGINT, id="while Spark starts"),
        pytest.param('"Starting Spark"', 0.0, signal.SIGINT, id="when Spark has started", marks=pytest.mark.long),
        pytest.param('"Reading s"', 1.0, signal.SIGINT, id="while it writes", marks=pytest.mark.long),
        pytest.param('"Reading s"', 0.3, signal.SIGTERM, id="by SIGTERM"),
    ],
)
def test_interrupted_run_shows_in_one_line_how_to_continue(  # noqa: PLR0917 -- fixtures and a case
    place: Place, job_environment: Mapping[str, str], dynamo: Dynamo, after: str, pause: float, number: int
) -> None:
    process = start(place, job_environment, content(place, "second", SECOND))
    assert interrupted(process, after, pause, number) == [
        "stopped; to continue, run it again with --run-id second: committed rows are not written twice"
    ]
    assert held_lease(Leases(CATALOG, dynamo), place.location) is None


SESSION = """
import os, signal, sys, threading, time
from deltaic_pipeline.job_command import run_job
from deltaic_pipeline.spark.session import session
from pyspark import SparkContext

def meet():
    while not hasattr(SparkContext._active_spark_context, "profiler_collector"):  # the last step of a context's start
        time.sleep(0.001)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=meet, daemon=True).start()
sys.exit(run_job(lambda *_: (session("stopped"), time.sleep(60)), as_json=False, stopped="nothing was changed"))
"""


@pytest.mark.long  # in CI: test_interrupted_run_shows_in_one_line_how_to_continue
def test_interrupt_between_spark_and_its_session_shows_one_line(
    job_environment: Mapping[str, str],
) -> None:
    command = [sys.executable, "-c", SESSION]
    message = {**job_environment, "PATH": os.environ["PATH"]}
    completed = subprocess.run(command, env=message, capture_output=True, text=True, timeout=120, check=False)
    assert (completed.returncode, completed.stdout, completed.stderr) == (130, "", "stopped; nothing was changed\n")
