"""Test that a request becomes exactly one StartJobRun, or is refused with all its errors."""

import importlib.util
import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber
from deltaic.errors import InvalidParameter, NotFound
from deltaic_ops.cli.jobs.jobs import request
from deltaic_pipeline import entry
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.publish import job_from
from deploy.emr import violations

APP = Path(__file__).parents[2] / "functions" / "pipeline" / "submit" / "app.py"
EVENT: dict[str, Any] = {
    "job": "run",
    "name": "patients",
    "runId": "2026-11-22T06:00:00Z",
    "arguments": ["s3://code/datasets/patients/0a1b.yaml", "--wait=600", "--json"],
    "jars": ["s3://code/drivers/postgresql/9f.jar"],
    "spark": {"spark.driver.memory": "8g"},
    "attempts": 2,
}
ENVIRONMENT = {
    "JOBS_APPLICATION": "00abc123",
    "JOB_ROLE_ARN": "arn:aws:iam::123456789012:role/jobs",
    "JOBS_BUCKET": "code",
    "JOBS_LOG_GROUP": "/deltaic/dev/jobs",
    "AWS_REGION": "eu-west-1",
    "CATALOG_TABLE": "catalog",
    "TOKENS_TABLE": "tokens",
    "SIGNING_ROLE_ARN": "arn:aws:iam::123456789012:role/signing",
    "URL_TTL_SECONDS": "3600",
}
PACKAGE = "s3://code/jobs/c0ffee"
TOKEN = sha256(b"run patients 2026-11-22T06:00:00Z").hexdigest()


def client(service: Any) -> Any:
    return boto3.client(service, region_name="eu-west-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="x")


def start_response(job_run_id: str) -> dict[str, Any]:
    """Return a response of StartJobRun."""
    arn = f"arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc123/jobruns/{job_run_id}"
    return {"applicationId": "00abc123", "jobRunId": job_run_id, "arn": arn}


def job_run_response(job_run_id: str, state: str) -> dict[str, Any]:
    """Return a response of GetJobRun."""
    at = datetime(2026, 11, 22, 6, tzinfo=UTC)
    run = {
        **start_response(job_run_id),
        "createdBy": "arn:aws:iam::123456789012:role/submit",
        "createdAt": at,
        "updatedAt": at,
        "executionRole": ENVIRONMENT["JOB_ROLE_ARN"],
        "state": state,
        "stateDetails": "told by EMR",
        "releaseLabel": "emr-spark-8.1.0",
        "jobDriver": {"sparkSubmit": {"entryPoint": f"{PACKAGE}/job.py"}},
    }
    return {"jobRun": run}


def submit_with_states(app: ModuleType, states: Sequence[str]) -> dict[str, str]:
    """Start the event's job after job runs in these states, and expect calls for each of them."""
    emr, request, token = client("emr-serverless"), app.JobRequest.model_validate(EVENT), ""
    with Stubber(emr) as stub:
        for number, state in enumerate(states, 1):
            token = sha256(f"{request.title} after job-{number - 1}".encode()).hexdigest() if token else TOKEN
            run_parameters = {"applicationId": "00abc123", "jobRunId": f"job-{number}"}
            rest = dict.fromkeys(("name", "executionRoleArn", "jobDriver", "configurationOverrides"), ANY)
            rest |= dict.fromkeys(("executionTimeoutMinutes", "retryPolicy"), ANY)
            start_parameters = {"applicationId": "00abc123", "clientToken": token, **rest}
            stub.add_response("start_job_run", start_response(f"job-{number}"), start_parameters)
            stub.add_response("get_job_run", job_run_response(f"job-{number}", state), run_parameters)
        try:
            return dict(app.start(emr, app.JobSettings.model_validate(ENVIRONMENT), PACKAGE, request))
        finally:
            stub.assert_no_pending_responses()


@pytest.fixture(scope="module")
def app() -> ModuleType:
    """Load the function as Lambda does: by its file."""
    spec = importlib.util.spec_from_file_location("submit_app", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_event_becomes_exactly_this_request(app: ModuleType) -> None:
    emr = client("emr-serverless")
    request = app.JobRequest.model_validate(EVENT)
    expected = {
        "applicationId": "00abc123",
        "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
        "clientToken": request.client_token,
        "name": "run patients 2026-11-22T06:00:00Z",
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{PACKAGE}/job.py",
                "entryPointArguments": ["run", *EVENT["arguments"], "--run-id=2026-11-22T06:00:00Z"],
                "sparkSubmitParameters": (
                    "--conf spark.log.level=OFF "
                    "--conf spark.driver.memory=8g "
                    "--conf spark.jars=/usr/share/aws/delta/lib/delta-spark.jar,"
                    "/usr/share/aws/delta/lib/delta-storage.jar,"
                    f"{PACKAGE}/spark-avro.jar,s3://code/drivers/postgresql/9f.jar "
                    "--conf spark.sql.catalogImplementation=in-memory "
                    f"--conf spark.archives={PACKAGE}/environment.tar.gz#environment "
                    "--conf spark.emr-serverless.driverEnv.CATALOG_TABLE=catalog "
                    "--conf spark.emr-serverless.driverEnv.TOKENS_TABLE=tokens "
                    "--conf spark.emr-serverless.driverEnv.SIGNING_ROLE_ARN=arn:aws:iam::123456789012:role/signing "
                    "--conf spark.emr-serverless.driverEnv.URL_TTL_SECONDS=3600 "
                    "--conf spark.emr-serverless.driverEnv.AWS_REGION=eu-west-1 "
                    "--conf spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=./environment/bin/python "
                    "--conf spark.emr-serverless.driverEnv.PYSPARK_PYTHON=./environment/bin/python "
                    "--conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python"
                ),
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {
                "cloudWatchLoggingConfiguration": {
                    "enabled": True,
                    "logGroupName": "/deltaic/dev/jobs",
                    "logStreamNamePrefix": "jobs",
                    "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
                }
            }
        },
        "executionTimeoutMinutes": 120,
        "retryPolicy": {"maxAttempts": 2},
    }
    assert violations(expected) == []
    with Stubber(emr) as stub:
        stub.add_response("start_job_run", start_response("job-1"), expected)
        stub.add_response("get_job_run", job_run_response("job-1", "SUBMITTED"))
        ids = app.start(emr, app.JobSettings.model_validate(ENVIRONMENT), PACKAGE, request)
        stub.assert_no_pending_responses()
    assert ids == {"applicationId": "00abc123", "jobRunId": "job-1", "runId": "2026-11-22T06:00:00Z"}


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING", "CANCELLING", "SUCCESS"])
def test_run_id_returns_its_job_run_until_that_dies(app: ModuleType, state: str) -> None:
    assert submit_with_states(app, [state])["jobRunId"] == "job-1"


@pytest.mark.parametrize("dead", [["FAILED"], ["CANCELLED"], ["FAILED", "CANCELLED", "FAILED"]])
def test_run_id_with_dead_job_runs_continues_in_another(app: ModuleType, dead: list[str]) -> None:
    ids = submit_with_states(app, [*dead, "PENDING"])
    assert (ids["jobRunId"], ids["runId"]) == (f"job-{len(dead) + 1}", "2026-11-22T06:00:00Z")


def test_run_id_that_died_too_often_is_refused_with_the_last_job_run(app: ModuleType) -> None:
    with pytest.raises(InvalidParameter, match=f"deltaic pipeline logs job-{app.MOST_DEATHS}`"):
        submit_with_states(app, ["FAILED"] * app.MOST_DEATHS)


def test_request_of_the_command_line_is_accepted(app: ModuleType) -> None:
    event = request("run", "patients", ["--json"], run_id="r", memory="8g", jars=["s3://code/a.jar"], minutes=300)
    job_request = app.JobRequest.model_validate(event)
    assert (job_request.timeout_minutes, job_request.jars) == (300, ["s3://code/a.jar"])
    assert job_request.spark == {"spark.driver.memory": "8g", "spark.executor.memory": "8g"}
    assert app.JobRequest.model_validate(request("run", "doses", [], run_id="r")).timeout_minutes == 120


def test_two_datasets_with_one_run_id_are_two_jobs(app: ModuleType) -> None:
    tokens = {
        app.JobRequest.model_validate({**EVENT, **change}).client_token
        for change in ({}, {"name": "sites"}, {"job": "maintain"}, {"runId": "2026-11-23T06:00:00Z"})
    }
    assert len(tokens) == 4
    assert app.JobRequest.model_validate({**EVENT, "attempts": 1}).client_token in tokens


def test_jobs_run_with_the_current_package(app: ModuleType) -> None:
    s3, settings = client("s3"), app.JobSettings.model_validate(ENVIRONMENT)
    with Stubber(s3) as stub:
        stub.add_response(
            "get_object", {"Body": StreamingBody(io.BytesIO(b"c0ffee\n"), 7)}, {"Bucket": "code", "Key": "jobs/current"}
        )
        assert app.package(s3, settings) == PACKAGE


@pytest.mark.parametrize("code", ["NoSuchKey", "AccessDenied"])
def test_error_without_a_package_says_how_to_create_one(app: ModuleType, code: str) -> None:
    s3, settings = client("s3"), app.JobSettings.model_validate(ENVIRONMENT)
    with Stubber(s3) as stub:
        stub.add_client_error("get_object", code)
        with pytest.raises(NotFound, match="deltaic pipeline package"):
            app.package(s3, settings)


def test_publish_parses_its_arguments_on_emr_too() -> None:
    arguments = ["--from", "s3://inbox/day/", "--format=json", "--to=s3://lake/t", "--table=a.b.c", "--run-id=r"]
    job = job_from(parser("publish").parse_args(arguments))
    assert (job.source.format, job.target.location, job.run_id) == ("json", "s3://lake/t", "r")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"job": "sample"}, "job", id="no job that is run there"),
        pytest.param({"name": "a b"}, "name", id="a name of two words"),
        pytest.param({"runId": "--conf x"}, "runId", id="a run id that is an option"),
        pytest.param({"arguments": ["a\x00b"]}, "arguments", id="a control character"),
        pytest.param({"arguments": ["x"] * 101}, "arguments", id="too many arguments"),
        pytest.param({"spark": {"spark.jars": "a --conf b=c"}}, "spark", id="a setting that is two"),
        pytest.param({"spark": {"hadoop.x": "y"}}, "spark", id="a setting that is not Spark's"),
        pytest.param({"jars": ["s3://a/b.jar,s3://evil/x.jar"]}, "jars", id="a driver that is two"),
        pytest.param({"jars": ["/etc/passwd"]}, "jars", id="a driver that is no object"),
        pytest.param({"entryPoint": "s3://evil/x.py"}, "entryPoint", id="an unknown field"),
        pytest.param({"timeoutMinutes": 0}, "timeoutMinutes", id="no time"),
    ],
)
def test_invalid_event_starts_no_job(app: ModuleType, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        app.handler({**EVENT, **change}, SimpleNamespace(aws_request_id="7a1c"))


def test_placeholders_that_an_emulator_of_scheduler_leaves_are_removed(app: ModuleType) -> None:
    when = "<aws.scheduler.scheduled-time>"
    event = {"job": "run", "arguments": ["f.yaml", f"--set=run_date={when}", "--set=site=<b>"], "runId": when}
    assert app.fill_event(event, "7a1c") == {"job": "run", "arguments": ["f.yaml", "--set=site=<b>"], "runId": "7a1c"}
    assert app.fill_event({"arguments": "x"}, "7a1c") == {"arguments": "x", "runId": "7a1c"}


def test_all_errors_are_reported_at_once(app: ModuleType) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        app.handler({**EVENT, "job": "x", "attempts": 9}, SimpleNamespace(aws_request_id="7a1c"))
    assert all(word in refusal.value.message for word in ("job", "attempts"))


@pytest.mark.parametrize("job", entry.JOBS)
def test_every_job_can_be_started_by_name(app: ModuleType, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.JobRequest.model_validate({**EVENT, "job": job}).job == job
    with pytest.raises(SystemExit) as ended:
        entry.main([job, "--help"])
    assert ended.value.code == 0
    assert job in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["os"], ["../run"]])
def test_other_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(arguments) == 2
    assert "is not a job" in capsys.readouterr().err
