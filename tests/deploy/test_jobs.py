"""Test jobs of a deployed stack: package, start, schedule, role, status, logs and alarms."""

import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import NotFound
from deltaic_ops.cli import app
from deltaic_ops.deploy.sam import BuildTarget
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import DeltaTable
from deploy.deployments import Deployment
from deploy.emr import APPLICATION, StandIn
from held_lease import held_lease
from typer.testing import CliRunner, Result

pytestmark = [pytest.mark.deploy, pytest.mark.spark]

MAX_WAIT_SECONDS = 600
DATASET = """
name: {name}
sources:
  arrivals: {{format: csv, paths: ["s3://{lake}/inbox/*.csv"], schema: "id BIGINT NOT NULL, dose INT"}}
write: {{mode: {mode}}}
target: {{location: "s3://{lake}/jobs/{name}", share: "jobs_share.built.{name}", create_share: true}}
expectations:
  - {{expect: range, column: dose, min: 1, max: {most}}}
schedule: {{expression: "{when}"}}
"""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Clients and settings of the tests."""

    lake: str
    folder: Path
    environment: dict[str, str]
    catalog: CatalogAdmin
    leases: Leases
    stand_in: StandIn
    client: Callable[[Any], Any]

    def dataset(self, name: str, *, most: int = 4, when: str = "rate(1 day)", mode: str = "merge, keys: [id]") -> str:
        file = self.folder / f"{name}.yaml"
        file.write_text(DATASET.format(name=name, lake=self.lake, most=most, when=when, mode=mode))
        return str(file)

    def deltaic(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["pipeline", *arguments], env=self.environment)

    def rows(self, name: str) -> list[dict[str, Any]]:
        options = {**self.environment, "AWS_ALLOW_HTTP": "true"}
        rows: pa.Table = DeltaTable(f"s3://{self.lake}/jobs/{name}", storage_options=options).to_pyarrow_table()
        return sorted(rows.to_pylist(), key=lambda row: row["id"])


@pytest.fixture(scope="module")
def stand_in(
    embedded_aws: EmbeddedAws, client: Callable[[Any], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandIn]:
    with StandIn(tmp_path_factory.mktemp("emr"), embedded_aws.environment, client) as service:
        yield service


@pytest.fixture(scope="module")
def jobs(  # noqa: PLR0917 -- fixtures are arguments
    deployment: Deployment,
    stand_in: StandIn,
    lake: str,
    embedded_aws: EmbeddedAws,
    client: Callable[[Any], Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Jobs:
    """Return a stack with a package, whose functions use the stand-in for EMR Serverless."""
    endpoints = {"AWS_ENDPOINT_URL_EMR_SERVERLESS": stand_in.endpoint}
    functions, name = client("lambda"), "deltaic-deploytest-submit-job"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**variables, **endpoints}})
    functions.get_waiter("function_updated_v2").wait(FunctionName=name)
    version = functions.publish_version(FunctionName=name)["Version"]
    functions.get_waiter("published_version_active").wait(FunctionName=name, Qualifier=version)
    functions.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
    client("s3").put_object(Bucket=lake, Key="inbox/1.csv", Body=b"id,dose\n1,2\n2,3\n3,4\n")
    outputs = deployment.outputs
    dynamo = Dynamo(lambda: client("dynamodb"))
    admin = CatalogAdmin(outputs.catalog_table, outputs.tokens_table, dynamo)
    leases = Leases(outputs.catalog_table, dynamo)
    environment = {**embedded_aws.environment, **endpoints, "DELTAIC_STACK": "deltaic-deploytest"}
    jobs_ = Jobs(lake, tmp_path_factory.mktemp("datasets"), environment, admin, leases, stand_in, client)
    refused = jobs_.deltaic("run", jobs_.dataset("too_early"), "--on", "emr")
    assert (refused.exit_code, stand_in.runs) == (1, {})
    assert "deltaic pipeline package`" in refused.output
    packaged = jobs_.deltaic("package", "--python", BuildTarget.this_machine().python, "--json")
    assert packaged.exit_code == 0, packaged.output
    return jobs_


def wait_for_run(jobs: Jobs, name: str) -> dict[str, Any]:
    """Wait for the end of a run, and return it from the output of `list`."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not any(name in run.request["name"].split() and run.ended for run in list(jobs.stand_in.runs.values())):
        assert time.monotonic() < deadline, f"no run of {name} ended: {jobs.deltaic('logs', name).output}"
        time.sleep(0.2)
    runs = json.loads(jobs.deltaic("list", "--json").stdout)["runs"]
    return next(run for run in runs if name in run["name"].split())


def test_schedule_starts_a_run_that_shares_the_table(jobs: Jobs) -> None:
    start = datetime.now(UTC) + timedelta(seconds=2)
    file = jobs.dataset("scheduled", when=f"at({start:%Y-%m-%dT%H:%M:%S})")
    driver = jobs.folder / "database.jar"
    zipfile.ZipFile(driver, "w").close()
    scheduled = jobs.deltaic("schedule", file, "--jar", str(driver), "--memory", "900m", "--minutes", "30")
    assert scheduled.exit_code == 0, scheduled.output
    run = wait_for_run(jobs, "scheduled")
    request = jobs.stand_in.runs[run["jobRunId"]].request
    parameters = request["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"]
    assert re.search(r"spark\.jars=\S+,s3://\S+/drivers/database/\w+\.jar ", parameters), parameters
    assert {f"spark.{part}.memory=900m" for part in ("driver", "executor")} <= set(parameters.split())
    assert (request["executionTimeoutMinutes"], request["retryPolicy"]) == (30, {"maxAttempts": 2})
    logs = jobs.deltaic("logs", run["jobRunId"])
    assert run["state"] == "SUCCESS", logs.output
    assert jobs.rows("scheduled") == [{"id": 1, "dose": 2}, {"id": 2, "dose": 3}, {"id": 3, "dose": 4}]
    assert jobs.catalog.tables.get("jobs_share", "built", "scheduled").location == f"s3://{jobs.lake}/jobs/scheduled"
    status = jobs.deltaic("status", "scheduled", "--json")
    assert (status.exit_code, json.loads(status.stdout)[0]["state"]) == (0, "SUCCESS")
    assert [json.loads(line)["event"] for line in logs.stdout.splitlines() if line.startswith("{")][-1] == "done"
    assert [schedule["dataset"] for schedule in json.loads(jobs.deltaic("list", "--json").stdout)["schedules"]] == [
        "scheduled"
    ]
    assert jobs.deltaic("schedule", file, "--remove").exit_code == 0
    assert jobs.deltaic("schedule", file, "--remove").exit_code == 1


def test_repeated_run_id_returns_the_same_run(jobs: Jobs) -> None:
    [first] = [run for run in jobs.stand_in.runs.values() if " scheduled " in run.request["name"]]
    run_id = first.request["name"].split()[-1]
    before = len(jobs.stand_in.runs)
    url = first.request["jobDriver"]["sparkSubmit"]["entryPointArguments"][1]
    payload = {"job": "run", "name": "scheduled", "arguments": [url, "--wait=600", "--json"], "runId": run_id}
    answer = jobs.client("lambda").invoke(
        FunctionName="deltaic-deploytest-submit-job:live", Payload=json.dumps(payload)
    )
    assert json.loads(answer["Payload"].read())["jobRunId"] == first.id
    assert len(jobs.stand_in.runs) == before


def test_failed_job_raises_the_alarm_and_changes_nothing(jobs: Jobs, alarm_topic: str) -> None:
    queue = jobs.client("sqs").create_queue(QueueName="deploytest-alarms")["QueueUrl"]
    arn = jobs.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**allowed, "Resource": arn}]}
    jobs.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    jobs.client("sns").subscribe(TopicArn=alarm_topic, Protocol="sqs", Endpoint=arn)
    file = jobs.dataset("refused", most=2)
    result = jobs.deltaic("run", file, "--on", "emr", "--run-id", "r1")
    assert result.exit_code == 3, result.output
    assert "dose" in result.output
    run = wait_for_run(jobs, "refused")
    assert (run["state"], run["attempt"]) == ("FAILED", 1)
    assert jobs.deltaic("status", "refused").exit_code == 3
    with pytest.raises(NotFound):
        jobs.catalog.tables.get("jobs_share", "built", "refused")
    assert "Contents" not in jobs.client("s3").list_objects_v2(Bucket=jobs.lake, Prefix="jobs/refused/_delta_log/0")
    [message] = jobs.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    alarm = json.loads(json.loads(message["Body"])["Message"])
    assert alarm["Trigger"]["MetricName"] == "FailedJobs"
    assert "docs/runbook.md#jobfailuresalarm" in alarm["AlarmDescription"]


def backfill_arguments(jobs: Jobs, name: str) -> tuple[str, ...]:
    """Create a dataset with a variable, and return the arguments of a backfill of two days."""
    file = Path(jobs.dataset(name, mode="append"))
    content = file.read_text().replace("inbox/*.csv", "days/{{ day }}/*.csv")
    file.write_text(f"variables: {{day: {{type: date}}}}\n{content}")
    return "backfill", str(file), "--from", "2026-01-01", "--to", "2026-01-02", "--on", "emr"


def test_backfill_of_several_days_is_one_job(jobs: Jobs) -> None:
    before = len(jobs.stand_in.runs)
    started = jobs.deltaic(*backfill_arguments(jobs, "months"), "--detach", "--json")
    assert started.exit_code == 0, started.output
    assert len(jobs.stand_in.runs) == before + 1
    cancel_run(jobs, json.loads(started.stdout)[0]["jobRunId"])


# In CI, datasets/test_backfill.py continues backfills, and the tests before and after this one run jobs.
@pytest.mark.long
def test_backfill_is_one_job_that_continues_after_a_failed_step(jobs: Jobs) -> None:
    line = backfill_arguments(jobs, "days")
    put = jobs.client("s3").put_object
    put(Bucket=jobs.lake, Key="days/2026-01-01/a.csv", Body=b"id,dose\n1,2\n")
    put(Bucket=jobs.lake, Key="days/2026-01-02/a.csv", Body=b"id,dose\n2,9\n")
    first = jobs.deltaic(*line)
    assert first.exit_code == 3, first.output
    assert re.search(r"(?m)^done +days-2026-01-01 ", first.output)
    assert re.search(r"(?m)^error: days-2026-01-02: ", first.output)
    put(Bucket=jobs.lake, Key="days/2026-01-02/a.csv", Body=b"id,dose\n2,3\n")
    second = jobs.deltaic(*line)
    assert second.exit_code == 0, second.output
    assert re.search(r"(?m)^skipped +days-2026-01-01 ", second.output)
    assert jobs.rows("days") == [{"id": 1, "dose": 2}, {"id": 2, "dose": 3}]
    runs = json.loads(jobs.deltaic("runs", line[1], "--json").stdout)
    ended = sorted((run["run"], run["exit"]) for run in runs)
    assert ended == [("days-2026-01-01", 0), ("days-2026-01-02", 0), ("days-2026-01-02", 3)]


@pytest.mark.long
def test_table_is_maintained_by_a_job(jobs: Jobs) -> None:
    result = jobs.deltaic("maintain", f"s3://{jobs.lake}/jobs/scheduled", "--on", "emr", "--checkpoint-after", "1")
    assert result.exit_code == 0, result.output
    log = jobs.client("s3").list_objects_v2(Bucket=jobs.lake, Prefix="jobs/scheduled/_delta_log/")["Contents"]
    assert [item["Key"] for item in log if item["Key"].endswith(".checkpoint.parquet")]


def cancel_run(jobs: Jobs, run_id: str) -> None:
    """Cancel a run as soon as it has a process, and wait for its end."""
    run = jobs.stand_in.runs[run_id]
    while run.process is None:
        time.sleep(0.1)
    cancelled = jobs.deltaic("cancel", run_id, "--json")
    assert json.loads(cancelled.stdout)[0]["state"] == "CANCELLED"
    while run.ended is None:
        time.sleep(0.1)


def test_cancelled_run_writes_nothing(jobs: Jobs) -> None:
    started = jobs.deltaic("run", jobs.dataset("cancelled"), "--on", "emr", "--detach", "--json")
    assert started.exit_code == 0, started.output
    run_id = json.loads(started.stdout)[0]["jobRunId"]
    cancel_run(jobs, run_id)
    assert jobs.deltaic("status", run_id).exit_code == 1
    assert "Contents" not in jobs.client("s3").list_objects_v2(Bucket=jobs.lake, Prefix="jobs/cancelled/")


def kill_job_run(jobs: Jobs, job_run: str, location: str, condition: Callable[[], object]) -> None:
    """Kill a job run when the condition is true, and release its lease."""
    run = jobs.stand_in.runs[job_run]
    while not condition():
        assert run.ended is None, jobs.deltaic("logs", job_run).output
        time.sleep(0.1)
    jobs.stand_in.kill(run)
    while run.ended is None:
        time.sleep(0.1)
    assert run.state == "FAILED"
    lease = held_lease(jobs.leases, location)
    assert lease is not None
    jobs.leases.release(location, lease.holder)


@pytest.mark.parametrize(
    "name",
    [
        "dying",
        # Killed before its commit too: pipeline/test_publish and datasets/test_killed cover this without a cluster.
        pytest.param("dying_twice", marks=pytest.mark.long),
    ],
)
def test_run_id_continues_after_its_job_was_killed(jobs: Jobs, name: str) -> None:
    file, location = jobs.dataset(name, mode="append"), f"s3://{jobs.lake}/jobs/{name}"

    def start_run() -> str:
        result = jobs.deltaic("run", file, "--on", "emr", "--run-id", name, "--detach", "--json")
        assert result.exit_code == 0, result.output
        return str(json.loads(result.stdout)[0]["jobRunId"])

    s3 = jobs.client("s3")

    def commits() -> list[str]:
        objects = s3.list_objects_v2(Bucket=jobs.lake, Prefix=f"jobs/{name}/_delta_log/0")
        return [item["Key"] for item in objects.get("Contents", []) if item["Key"].endswith(".json")]

    started = [start_run()]
    assert start_run() == started[0]  # while the job runs
    if name == "dying_twice":
        kill_job_run(jobs, started[0], location, lambda: held_lease(jobs.leases, location))
        assert commits() == []
        started.append(start_run())
    kill_job_run(jobs, started[-1], location, commits)
    commits_before, rows = commits(), jobs.rows(name)
    assert rows == [{"id": 1, "dose": 2}, {"id": 2, "dose": 3}, {"id": 3, "dose": 4}]
    last = start_run()
    assert last not in started
    assert len(set(started)) == len(started)
    while jobs.stand_in.runs[last].ended is None:
        time.sleep(0.1)
    logs = jobs.deltaic("logs", last)
    assert jobs.stand_in.runs[last].state == "SUCCESS", logs.output
    assert (commits(), jobs.rows(name)) == (commits_before, rows)
    assert jobs.catalog.tables.get("jobs_share", "built", name).location == location
    assert start_run() == last  # the finished run


def test_missing_run_is_named_in_the_error(jobs: Jobs) -> None:
    for verb in ("status", "logs", "cancel"):
        answer = jobs.deltaic(verb, "nowhere")
        assert (answer.exit_code, "'nowhere'" in answer.output) == (1, True)


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("emr-serverless:StartJobRun", f"/applications/{APPLICATION}", True),
        ("emr-serverless:StartJobRun", "/applications/00other", False),
        ("emr-serverless:GetJobRun", f"/applications/{APPLICATION}/jobruns/1", True),
        ("emr-serverless:GetJobRun", "/applications/00other/jobruns/1", False),
        ("emr-serverless:CancelJobRun", f"/applications/{APPLICATION}/jobruns/1", False),
    ],
)
def test_function_starts_only_jobs_of_its_application(
    deployment: Deployment, client: Callable[[Any], Any], action: str, resource: str, allowed: bool
) -> None:
    decision = client("iam").simulate_principal_policy(
        PolicySourceArn=deployment.roles["SubmitJob"],
        ActionNames=[action],
        ResourceArns=[f"arn:aws:emr-serverless:us-east-1:000000000000:{resource}"],
    )
    assert (decision["EvaluationResults"][0]["EvalDecision"] == "allowed") is allowed
