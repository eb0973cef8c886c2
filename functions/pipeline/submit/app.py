"""The start of a publication on EMR Serverless: a validated request becomes one StartJobRun, once a run id.

The application is created with the release label `emr-spark-8.1.0` (Spark 4.1.1, Delta 4.2.0, Scala 2.13, Java 17:
what the pipeline pins). The job's Python is a packed virtual environment that holds `deltaic_pipeline`.
"""  # noqa: INP001 -- Lambda loads it by its file

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from deltaic.errors import InvalidParameter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from mypy_boto3_emr_serverless import EMRServerlessClient

RELEASE_LABEL = "emr-spark-8.1.0"
PYTHON = "./environment/bin/python"
DELTA_JARS = "/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar"
"""Where that release keeps Delta; it is not on the class path by itself."""

ATTEMPTS = 3
"""A repeated attempt commits nothing twice: the job's writes carry its run id."""

S3Url = Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9.-]{3,63}(/[^\x00-\x1f]*)?$", max_length=1024)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Pairs = Annotated[dict[Name, str], Field(max_length=50)]


class PublishRequest(BaseModel):
    """What to publish (`deltaic_pipeline.publish` has the same words on its command line)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    run_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    """Names the run: the same one again starts no second job and makes no second version."""

    source: Annotated[list[S3Url | Name], Field(min_length=1, max_length=100)]
    format: Literal["csv", "json", "parquet", "delta", "table"]
    location: S3Url
    table: Annotated[str, StringConstraints(pattern=r"^.+\..+\..+$", max_length=767)]
    mode: Literal["overwrite", "append", "merge"] = "overwrite"
    keys: list[Name] = []
    partition_by: list[Name] = []
    options: Pairs = {}
    properties: Pairs = {}
    sql: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    history: bool = True
    wait_seconds: Annotated[int, Field(ge=0, le=3600)] = 600
    timeout_minutes: Annotated[int, Field(ge=1, le=1440)] = 120

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.mode == "merge") != bool(self.keys):
            raise ValueError("mode merge and keys belong together")
        if self.format != "table" and not all(re.match(r"s3://", path) for path in self.source):
            raise ValueError("source: a job on EMR reads s3:// locations, or one table of the metastore")
        if any(path.startswith("-") for path in self.source):
            raise ValueError("source: a name does not begin with a dash")
        return self

    def arguments(self, catalog_table: str) -> list[str]:
        """Return the command line of `deltaic_pipeline.publish`; no value can be taken for an option."""
        line = ["--from", *self.source, f"--format={self.format}", f"--to={self.location}"]
        line += [f"--table={self.table}", f"--mode={self.mode}", f"--run-id={self.run_id}"]
        line += [f"--wait={self.wait_seconds}", f"--catalog={catalog_table}"]
        line += [f"--key={key}" for key in self.keys]
        line += [f"--partition-by={column}" for column in self.partition_by]
        line += [f"--option={name}={value}" for name, value in self.options.items()]
        line += [f"--property={name}={value}" for name, value in self.properties.items()]
        line += [f"--sql={self.sql}"] if self.sql else []
        return [*line, *([] if self.history else ["--no-history"])]


class JobSettings(BaseModel):
    """Where jobs run, as the function's environment says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    application_id: str = Field(alias="EMR_APPLICATION_ID")
    job_role_arn: str = Field(alias="EMR_JOB_ROLE_ARN")
    entry_point: S3Url = Field(alias="EMR_ENTRY_POINT")
    """`publish.py` of the pipeline, in S3."""

    environment: S3Url = Field(alias="EMR_ENVIRONMENT")
    """The packed virtual environment (`venv-pack`), in S3."""

    catalog_table: str = Field(alias="CATALOG_TABLE")


def start(client: "EMRServerlessClient", where: JobSettings, request: PublishRequest) -> dict[str, str]:
    """Start the job and return its ids; EMR answers a repeated run id with the job that it already has."""
    submit = {
        "spark.jars": DELTA_JARS,
        "spark.archives": f"{where.environment}#environment",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": PYTHON,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": PYTHON,
        "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
    }
    answer = client.start_job_run(
        applicationId=where.application_id,
        executionRoleArn=where.job_role_arn,
        clientToken=request.run_id,
        name=f"publish {request.table}"[:256],
        jobDriver={
            "sparkSubmit": {
                "entryPoint": where.entry_point,
                "entryPointArguments": request.arguments(where.catalog_table),
                "sparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in submit.items()),
            }
        },
        executionTimeoutMinutes=request.timeout_minutes,
        retryPolicy={"maxAttempts": ATTEMPTS},
    )
    return {"applicationId": answer["applicationId"], "jobRunId": answer["jobRunId"], "runId": request.run_id}


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Validate the event, start the job and answer `{applicationId, jobRunId, runId}`; raises `InvalidParameter`.

    Without `runId` the invocation's own id names the run, so that Lambda's retries of it start no second job.
    """
    try:
        request = PublishRequest.model_validate({"runId": context.aws_request_id, **event})
    except ValidationError as refusal:
        problems = [
            f"{'.'.join(str(part) for part in error['loc']) or 'request'}: {error['msg']}" for error in refusal.errors()
        ]
        raise InvalidParameter("; ".join(problems)) from None
    return start(_client(), JobSettings.model_validate(dict(os.environ)), request)


@cache
def _client() -> "EMRServerlessClient":
    import boto3

    return boto3.client("emr-serverless")
