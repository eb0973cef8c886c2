"""The start of a job on EMR Serverless: a validated request becomes one job run for its run id.

While that one has not failed and was not cancelled it is given back; after it the same id goes on in another.

The application has the release `emr-spark-8.1.0` (Spark 4.1.1, Delta 4.2.0, Scala 2.13, Java 17: what the pipeline
pins). The job's own Python packages, and the script that it enters by, are what `deltaic pipeline package` put in S3.
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
"""Where that release keeps Delta; it is not on the class path by itself."""

CURRENT = "jobs/current"
"""The object that names the folder of the package that jobs run with."""

MOST_DEATHS = 20
"""How many job runs of one run id may fail or be cancelled; each costs two calls to find the next one."""

UNFILLED = re.compile(r"<aws\.scheduler\.[a-z-]+>")
"""What EventBridge Scheduler replaces in a schedule's input, and emulators of it do not."""

Text = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00-\x08\x0b-\x1f]*$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9:._-]{0,63}$")]
Setting = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class JobRequest(BaseModel):
    """One run of a job, with the arguments that its command line takes anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    job: Literal["run", "backfill", "maintain", "publish", "usage", "views"]
    """A job by its name in `deltaic_pipeline.entry`."""

    name: Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f]{1,128}$")]
    """What is built or kept: with the run's id it names the run to people."""

    run_id: RunId
    """Names the run: the same one again starts no second job, unless the first died, and makes no second version."""

    arguments: Annotated[list[Text], Field(max_length=100)]
    """All but the run's id."""

    spark: dict[Annotated[str, StringConstraints(pattern=r"^spark\.[A-Za-z0-9.-]{1,200}$")], Setting] = {}
    """Sizes of driver and executors, such as spark.driver.memory; no value has a space."""

    jars: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^s3://[^\s,\x00-\x1f]{3,1000}$")]], Field(max_length=20)
    ] = []
    """Drivers of databases, put on the class path."""

    attempts: Annotated[int, Field(ge=1, le=5)] = 1
    """How often EMR tries at most; a repeated attempt commits nothing twice, since it has the run's id."""

    timeout_minutes: Annotated[int, Field(ge=1, le=10_080)] = 120
    """How long EMR lets it run."""

    @property
    def title(self) -> str:
        """The name of the job run: job, what it is about, the run's id."""
        return f"{self.job} {self.name} {self.run_id}"

    @property
    def client_token(self) -> str:
        """What EMR knows a repetition by. Two jobs may have one run id, as those of one schedule's time."""
        return sha256(self.title.encode()).hexdigest()


class JobSettings(BaseModel):
    """Where jobs run, as the function's environment says."""

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


def package(client: "S3Client", where: JobSettings) -> str:
    """Return the URL of the package's folder; raises NotFound when there is none yet."""
    try:
        digest = client.get_object(Bucket=where.bucket, Key=CURRENT)["Body"].read().decode().strip()
    except (client.exceptions.NoSuchKey, client.exceptions.ClientError) as error:
        if error.response["Error"]["Code"] not in {
            "NoSuchKey",
            "AccessDenied",
        }:  # without ListBucket S3 says the latter
            raise
        raise NotFound("the jobs have no code yet: run `deltaic pipeline package`") from error
    return f"s3://{where.bucket}/jobs/{digest}"


def start(client: "EMRServerlessClient", where: JobSettings, folder: str, request: JobRequest) -> dict[str, str]:
    """Start the job and return its ids: those of the job that the run id already has, unless that one died."""
    environment = {
        "CATALOG_TABLE": where.catalog_table,
        "TOKENS_TABLE": where.tokens_table,
        "SIGNING_ROLE_ARN": where.signing_role_arn,
        "URL_TTL_SECONDS": where.url_ttl_seconds,
        "AWS_REGION": where.region,
        "PYSPARK_DRIVER_PYTHON": PYTHON,
        "PYSPARK_PYTHON": PYTHON,
    }
    settings = {
        # The job tells what Spark refused, without values of rows; Spark logs them with the stack traces of its tasks.
        "spark.log.level": "OFF",
        **request.spark,
        "spark.jars": ",".join([*DELTA_JARS, f"{folder}/spark-avro.jar", *request.jars]),
        # Tables are paths and Deltaic's catalog is its own: nothing asks a Hive metastore, or Glue, for databases.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.archives": f"{folder}/environment.tar.gz#environment",
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in environment.items()},
        "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
    }
    logs: Any = {
        "enabled": True,
        "logGroupName": where.log_group,
        "logStreamNamePrefix": "jobs",
        "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
    }
    parameters: Any = {
        "applicationId": where.application_id,
        "executionRoleArn": where.job_role_arn,
        "name": request.title,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{folder}/job.py",
                "entryPointArguments": [request.job, *request.arguments, f"--run-id={request.run_id}"],
                "sparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in settings.items()),
            }
        },
        "configurationOverrides": {"monitoringConfiguration": {"cloudWatchLoggingConfiguration": logs}},
        "executionTimeoutMinutes": request.timeout_minutes,
        "retryPolicy": {"maxAttempts": request.attempts},
    }
    job_run_id = _job_run(client, parameters, request)
    return {"applicationId": where.application_id, "jobRunId": job_run_id, "runId": request.run_id}


def _job_run(client: "EMRServerlessClient", parameters: dict[str, Any], request: JobRequest) -> str:
    """Return EMR's id of the run; raises InvalidParameter for a run id that died too often.

    EMR answers a token with the job run that it once started by it, dead or alive, so each that died is followed by one
    of a token made from its own id. A run that goes on writes nothing twice: the job knows what its run id has written.
    """
    token = request.client_token
    for _ in range(MOST_DEATHS):
        job_run_id = client.start_job_run(**parameters, clientToken=token)["jobRunId"]
        known = client.get_job_run(applicationId=parameters["applicationId"], jobRunId=job_run_id)["jobRun"]
        if known["state"] not in {"FAILED", "CANCELLED"}:
            return job_run_id
        token = sha256(f"{request.title} after {job_run_id}".encode()).hexdigest()
    raise InvalidParameter(
        f"run id {request.run_id}: {MOST_DEATHS} job runs failed or were cancelled: see `deltaic pipeline logs "
        f"{job_run_id}`; another run id starts afresh, and appends again what this one may have written"
    )


def filled(event: dict[str, Any], request_id: str) -> dict[str, Any]:
    """Return an event with a run id, and without what an emulator of Scheduler has left as it was."""
    given = {"runId": request_id, **event}
    if UNFILLED.fullmatch(str(given["runId"])):
        given["runId"] = request_id
    if isinstance(given.get("arguments"), list):
        given["arguments"] = [each for each in given["arguments"] if not UNFILLED.search(str(each))]
    return given


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Validate the event, start the job and answer `{applicationId, jobRunId, runId}`.

    Without `runId` the invocation's own id names the run, so that Lambda's retries of it start no second job. Raises
    InvalidParameter, which says everything that is wrong with the event, and NotFound.
    """
    try:
        request = JobRequest.model_validate(filled(event, context.aws_request_id))
    except ValidationError as refusal:
        problems = [
            f"{'.'.join(str(part) for part in error['loc']) or 'request'}: {error['msg']}" for error in refusal.errors()
        ]
        raise InvalidParameter("; ".join(problems)) from None
    where = JobSettings.model_validate(dict(os.environ))
    return start(_client("emr-serverless"), where, package(_client("s3"), where), request)


@cache
def _client(service: Any) -> Any:
    import boto3

    return boto3.client(service)
