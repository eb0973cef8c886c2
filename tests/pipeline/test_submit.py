"""A request becomes exactly one StartJobRun, or is refused with everything that is wrong with it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from deltaic.errors import InvalidParameter
from deltaic_pipeline.arguments import job_of, parser

APP = Path(__file__).parents[2] / "functions" / "pipeline" / "submit" / "app.py"
EVENT = {
    "runId": "2026-11-21",
    "source": ["s3://inbox/day/", "s3://inbox/more file.json"],
    "format": "json",
    "location": "s3://lake/vaccine/patients",
    "table": "vaccine_share.acme_vaccine_data.vaccine_patients",
    "mode": "merge",
    "keys": ["patient_id"],
    "partitionBy": ["date"],
    "options": {"multiLine": "true"},
    "sql": "SELECT * FROM source WHERE site = 'Turku' AND name <> '-- x'",
}
ENVIRONMENT = {
    "EMR_APPLICATION_ID": "00abc123",
    "EMR_JOB_ROLE_ARN": "arn:aws:iam::123456789012:role/jobs",
    "EMR_ENTRY_POINT": "s3://code/publish.py",
    "EMR_ENVIRONMENT": "s3://code/environment.tar.gz",
    "CATALOG_TABLE": "catalog",
}
JOB = "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc123/jobruns/job-1"
ARGUMENTS = [
    "--from",
    "s3://inbox/day/",
    "s3://inbox/more file.json",
    "--format=json",
    "--to=s3://lake/vaccine/patients",
    "--table=vaccine_share.acme_vaccine_data.vaccine_patients",
    "--mode=merge",
    "--run-id=2026-11-21",
    "--wait=600",
    "--catalog=catalog",
    "--key=patient_id",
    "--partition-by=date",
    "--option=multiLine=true",
    "--sql=SELECT * FROM source WHERE site = 'Turku' AND name <> '-- x'",
]


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
    client = boto3.client(
        "emr-serverless", region_name="eu-west-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="x"
    )
    expected = {
        "applicationId": "00abc123",
        "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
        "clientToken": "2026-11-21",
        "name": "publish vaccine_share.acme_vaccine_data.vaccine_patients",
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": "s3://code/publish.py",
                "entryPointArguments": ARGUMENTS,
                "sparkSubmitParameters": (
                    "--conf spark.jars=/usr/share/aws/delta/lib/delta-spark.jar,"
                    "/usr/share/aws/delta/lib/delta-storage.jar "
                    "--conf spark.archives=s3://code/environment.tar.gz#environment "
                    "--conf spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=./environment/bin/python "
                    "--conf spark.emr-serverless.driverEnv.PYSPARK_PYTHON=./environment/bin/python "
                    "--conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python"
                ),
            }
        },
        "executionTimeoutMinutes": 120,
        "retryPolicy": {"maxAttempts": 3},
    }
    answer = {"applicationId": "00abc123", "jobRunId": "job-1", "arn": JOB}
    with Stubber(client) as stub:
        stub.add_response("start_job_run", answer, expected)
        request = app.PublishRequest.model_validate(EVENT)
        started = app.start(client, app.JobSettings.model_validate(ENVIRONMENT), request)
        stub.assert_no_pending_responses()
    assert started == {"applicationId": "00abc123", "jobRunId": "job-1", "runId": "2026-11-21"}


def test_the_job_understands_the_arguments() -> None:
    job = job_of(parser().parse_args(ARGUMENTS))
    assert (job.source.format, list(job.source.paths)) == ("json", EVENT["source"])
    assert (job.target.mode, list(job.target.keys), list(job.target.partition_by)) == (
        "merge",
        ["patient_id"],
        ["date"],
    )
    assert (job.sql, job.run_id, job.history) == (EVENT["sql"], "2026-11-21", True)
    assert job.wait.total_seconds() == 600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"mode": "merge", "keys": []}, "mode merge and keys belong together", id="merge without keys"),
        pytest.param({"source": ["/etc/passwd"]}, "reads s3://", id="a local file"),
        pytest.param({"source": []}, "source", id="nothing to read"),
        pytest.param({"location": "file:///tmp/x"}, "location", id="a location that is not S3"),
        pytest.param({"location": "s3://b/a\nb"}, "location", id="a control character"),
        pytest.param({"runId": "--conf x"}, "runId", id="a run id that is an option"),
        pytest.param({"format": "table", "source": ["--sql=DROP"]}, "dash", id="a table that is an option"),
        pytest.param({"table": "two.parts"}, "table", id="a table without a share"),
        pytest.param({"jars": "s3://evil/x.jar"}, "jars", id="an unknown field"),
        pytest.param({"timeoutMinutes": 0}, "timeoutMinutes", id="no time"),
    ],
)
def test_a_wrong_event_starts_nothing(app: ModuleType, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        app.handler({**EVENT, **change}, SimpleNamespace(aws_request_id="7a1c"))
