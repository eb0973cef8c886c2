"""Start jobs on EMR Serverless: one job run for each run id, and another one only after a failure.

A later request with the same run id returns the existing job run, unless that failed or was cancelled.

The application has the release `emr-spark-8.1.0` (Spark 4.1.1, Delta 4.2.0, Scala 2.13, Java 17: the versions that the
pipeline pins). `deltaic pipeline package` uploads the job's Python packages and its start script to S3.
"""  # noqa: INP001 -- Lambda loads it by its file

import os
import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal

from deltaic.errors import InvalidParameter, NotFound
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from mypy_boto3_emr_serverless import EMRServerlessClient
    from mypy_boto3_s3 import S3Client

PYTHON = "./environment/bin/python"
DELTA_JARS = ("/usr/share/aws/delta/lib/delta-spark.jar", "/usr/share/aws/delta/lib/delta-storage.jar")
"""Paths of Delta's jars in the EMR release, which are not on the class path by default."""

CURRENT = "jobs/current"
"""Key of the S3 object that contains the folder name of the current package."""

MOST_DEATHS = 20
"""Maximum number of failed or cancelled job runs for one run id; skipping each one costs two requests to EMR."""

UNFILLED = re.compile(r"<aws\.scheduler\.[a-z-]+>")
"""Placeholder that EventBridge Scheduler replaces in a schedule's input; emulators do not replace it."""

Text = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00-\x08\x0b-\x1f]*$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9:._-]{0,63}$")]
Setting = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class JobRequest(BaseModel):
    """Request to run a job, with the arguments of its command line."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    job: Literal["run", "backfill", "maintain", "publish", "usage", "views"]
    """Name of the job in `deltaic_pipeline.entry`."""

    name: Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f]{1,128}$")]
    """Dataset, table or view of the job; part of the job run's name."""

    run_id: RunId
    """Id of the run: a request with the same id starts another job run only if the first failed or was cancelled."""

    arguments: Annotated[list[Text], Field(max_length=100)]
    """Arguments of the job's command line, without the run id."""

    spark: dict[Annotated[str, StringConstraints(pattern=r"^spark\.[A-Za-z0-9.-]{1,200}$")], Setting] = {}
    """Spark settings for the sizes of driver and executors, such as spark.driver.memory; values contain no spaces."""

    jars: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^s3://[^\s,\x00-\x1f]{3,1000}$")]], Field(max_length=20)
    ] = []
    """Jars for the class path, such as JDBC drivers."""

    attempts: Annotated[int, Field(ge=1, le=5)] = 1
    """Maximum number of attempts by EMR; later attempts commit nothing twice, because they have the same run id."""

    timeout_minutes: Annotated[int, Field(ge=1, le=10_080)] = 120
    """Minutes after which EMR cancels the job run."""

    @property
    def title(self) -> str:
        """Name of the job run: the job, its dataset, table or view, and the run id."""
        return f"{self.job} {self.name} {self.run_id}"

    @property
    def client_token(self) -> str:
        """Idempotency token for EMR; it includes the job's name, because two jobs can have the same run id."""
        return sha256(self.title.encode()).hexdigest()


class JobSettings(BaseModel):
    """Settings of jobs on EMR, from the function's environment variables."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    application_id: str = Field(alias="JOBS_APPLICATION")
    job_role_arn: str = Field(alias="JOB_ROLE_ARN")
    bucket: str = Field(alias="JOBS_BUCKET")
    log_group: str = Field(alias="JOBS_LOG_GROUP")
    region: str = Field(alias="AWS_REGION")
    catalog_table: str = Field(alias="CATALOG_TABLE")
    tokens_table: str = Field(alias="TOKENS_TABLE")
    signing_role_arn: str = Field(alias="SIGNING_ROLE_ARN")
    url_ttl_seconds: str = Field(alias="URL_TTL_SECONDS")


def package(client: "S3Client", settings: JobSettings) -> str:
    """Return the S3 URL of the current package's folder; raises NotFound if no package was uploaded yet."""
    try:
        digest = client.get_object(Bucket=settings.bucket, Key=CURRENT)["Body"].read().decode().strip()
    except (client.exceptions.NoSuchKey, client.exceptions.ClientError) as error:
        # Without ListBucket, S3 answers AccessDenied for a missing key.
        if error.response["Error"]["Code"] not in {"NoSuchKey", "AccessDenied"}:
            raise
        raise NotFound("no package of the jobs was uploaded yet. Run `deltaic pipeline package`") from error
    return f"s3://{settings.bucket}/jobs/{digest}"


def start(client: "EMRServerlessClient", settings: JobSettings, folder: str, request: JobRequest) -> dict[str, str]:
    """Start a job run, or find this run id's earlier job run that did not fail; return its ids."""
    environment = {
        "CATALOG_TABLE": settings.catalog_table,
        "TOKENS_TABLE": settings.tokens_table,
        "SIGNING_ROLE_ARN": settings.signing_role_arn,
        "URL_TTL_SECONDS": settings.url_ttl_seconds,
        "AWS_REGION": settings.region,
        "PYSPARK_DRIVER_PYTHON": PYTHON,
        "PYSPARK_PYTHON": PYTHON,
    }
    spark_settings = {
        # The job reports Spark's errors without values of rows; Spark's log would have them, with stack traces.
        "spark.log.level": "OFF",
        **request.spark,
        "spark.jars": ",".join([*DELTA_JARS, f"{folder}/spark-avro.jar", *request.jars]),
        # Tables are paths, and Deltaic has its own catalog: no job needs a Hive metastore or Glue.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.archives": f"{folder}/environment.tar.gz#environment",
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in environment.items()},
        "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
    }
    logs: Any = {
        "enabled": True,
        "logGroupName": settings.log_group,
        "logStreamNamePrefix": "jobs",
        "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
    }
    parameters: Any = {
        "applicationId": settings.application_id,
        "executionRoleArn": settings.job_role_arn,
        "name": request.title,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{folder}/job.py",
                "entryPointArguments": [request.job, *request.arguments, f"--run-id={request.run_id}"],
                "sparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in spark_settings.items()),
            }
        },
        "configurationOverrides": {"monitoringConfiguration": {"cloudWatchLoggingConfiguration": logs}},
        "executionTimeoutMinutes": request.timeout_minutes,
        "retryPolicy": {"maxAttempts": request.attempts},
    }
    job_run_id = _job_run(client, parameters, request)
    return {"applicationId": settings.application_id, "jobRunId": job_run_id, "runId": request.run_id}


def _job_run(client: "EMRServerlessClient", parameters: dict[str, Any], request: JobRequest) -> str:
    """Return EMR's id of the job run; raises InvalidParameter if 20 job runs of this run id failed.

    EMR returns the same job run for the same token, even after it failed. So the token for the next job run is derived
    from the id of the failed one. A repeated run writes nothing twice: the table's log identifies commits by run id.
    """
    token = request.client_token
    for _ in range(MOST_DEATHS):
        job_run_id = client.start_job_run(**parameters, clientToken=token)["jobRunId"]
        job_run = client.get_job_run(applicationId=parameters["applicationId"], jobRunId=job_run_id)["jobRun"]
        if job_run["state"] not in {"FAILED", "CANCELLED"}:
            return job_run_id
        token = sha256(f"{request.title} after {job_run_id}".encode()).hexdigest()
    raise InvalidParameter(
        f"run id {request.run_id}: {MOST_DEATHS} job runs failed or were cancelled. See `deltaic pipeline logs "
        f"{job_run_id}`. A new run id starts from the beginning: rows that this one has appended are appended again"
    )


def fill_event(event: dict[str, Any], request_id: str) -> dict[str, Any]:
    """Add a run id to an event, and remove placeholders that an emulator of EventBridge Scheduler did not replace."""
    request = {"runId": request_id, **event}
    if UNFILLED.fullmatch(str(request["runId"])):
        request["runId"] = request_id
    if isinstance(request.get("arguments"), list):
        request["arguments"] = [argument for argument in request["arguments"] if not UNFILLED.search(str(argument))]
    return request


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Validate the event, start the job and return `{applicationId, jobRunId, runId}`.

    Without `runId`, the invocation's id is the run id, so that Lambda's retries start no second job. Raises
    InvalidParameter with all errors of the event, and NotFound.
    """
    try:
        request = JobRequest.model_validate(fill_event(event, context.aws_request_id))
    except ValidationError as refusal:
        problems = [
            f"{'.'.join(str(part) for part in error['loc']) or 'request'}: {error['msg']}" for error in refusal.errors()
        ]
        raise InvalidParameter("; ".join(problems)) from None
    settings = JobSettings.model_validate(dict(os.environ))
    return start(_client("emr-serverless"), settings, package(_client("s3"), settings), request)


@cache
def _client(service: Any) -> Any:
    import boto3

    return boto3.client(service)
