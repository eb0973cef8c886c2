"""A request becomes exactly one StartJobRun, or is refused with everything that is wrong with it."""

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber
from deltaic.errors import InvalidParameter, NotFound
from deltaic_pipeline import entry
from deltaic_pipeline.arguments import job_of, parser

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
JOB = "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc123/jobruns/job-1"
PACKAGE = "s3://code/jobs/c0ffee"


def client(service: Any) -> Any:
    return boto3.client(service, region_name="eu-west-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="x")


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


def test_an_event_becomes_exactly_this_request(app: ModuleType) -> None:
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
                    "--conf spark.log.level=ERROR "
                    "--conf spark.driver.memory=8g "
                    "--conf spark.jars=/usr/share/aws/delta/lib/delta-spark.jar,"
                    "/usr/share/aws/delta/lib/delta-storage.jar,"
                    f"{PACKAGE}/spark-avro.jar,s3://code/drivers/postgresql/9f.jar "
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
    answer = {"applicationId": "00abc123", "jobRunId": "job-1", "arn": JOB}
    with Stubber(emr) as stub:
        stub.add_response("start_job_run", answer, expected)
        started = app.start(emr, app.JobSettings.model_validate(ENVIRONMENT), PACKAGE, request)
        stub.assert_no_pending_responses()
    assert started == {"applicationId": "00abc123", "jobRunId": "job-1", "runId": "2026-11-22T06:00:00Z"}


def test_two_datasets_of_one_time_are_two_jobs(app: ModuleType) -> None:
    tokens = {
        app.JobRequest.model_validate({**EVENT, **change}).client_token
        for change in ({}, {"name": "sites"}, {"job": "maintain"}, {"runId": "2026-11-23T06:00:00Z"})
    }
    assert len(tokens) == 4
    assert app.JobRequest.model_validate({**EVENT, "attempts": 1}).client_token in tokens


def test_jobs_run_with_the_current_package(app: ModuleType) -> None:
    s3, where = client("s3"), app.JobSettings.model_validate(ENVIRONMENT)
    with Stubber(s3) as stub:
        stub.add_response(
            "get_object", {"Body": StreamingBody(io.BytesIO(b"c0ffee\n"), 7)}, {"Bucket": "code", "Key": "jobs/current"}
        )
        assert app.package(s3, where) == PACKAGE


@pytest.mark.parametrize("code", ["NoSuchKey", "AccessDenied"])
def test_without_a_package_it_says_how_to_make_one(app: ModuleType, code: str) -> None:
    s3, where = client("s3"), app.JobSettings.model_validate(ENVIRONMENT)
    with Stubber(s3) as stub:
        stub.add_client_error("get_object", code)
        with pytest.raises(NotFound, match="deltaic pipeline package"):
            app.package(s3, where)


def test_publish_understands_its_arguments_there_too() -> None:
    arguments = ["--from", "s3://inbox/day/", "--format=json", "--to=s3://lake/t", "--table=a.b.c", "--run-id=r"]
    job = job_of(parser().parse_args(arguments))
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
def test_a_wrong_event_starts_nothing(app: ModuleType, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        app.handler({**EVENT, **change}, SimpleNamespace(aws_request_id="7a1c"))


def test_everything_wrong_is_said_at_once(app: ModuleType) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        app.handler({**EVENT, "job": "x", "attempts": 9}, SimpleNamespace(aws_request_id="7a1c"))
    assert all(word in refusal.value.message for word in ("job", "attempts"))


@pytest.mark.parametrize("job", entry.JOBS)
def test_every_job_can_be_entered(app: ModuleType, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.JobRequest.model_validate({**EVENT, "job": job}).job == job
    with pytest.raises(SystemExit) as ended:
        entry.main([job, "--help"])
    assert ended.value.code == 0
    assert job in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["os"], ["../run"]])
def test_nothing_else_can_be_entered(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(arguments) == 2
    assert "is not a job" in capsys.readouterr().err
