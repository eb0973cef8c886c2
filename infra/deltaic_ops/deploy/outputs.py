"""The outputs of template.yaml, by which the operator's side finds a deployed stack."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic.errors import NotFound
from deltaic.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

DEFAULT_STACK = "deltaic"
_EXECUTE_API = re.compile(r"https://(?P<api>[a-z0-9]+)\.execute-api\.[^/]+/(?P<prefix>[^/]+)")


@dataclass(frozen=True, slots=True)
class StackOutputs:
    """What a deployed stack says of itself."""

    endpoint: str
    """What profiles name as endpoint: `https://.../{prefix}`, without a slash at its end."""
    catalog_table: str
    tokens_table: str
    signing_role_arn: str
    token_key_secret: str
    url_ttl_seconds: int = Settings().url_ttl_seconds
    """The parameter UrlTtlSeconds."""
    answers_ipv6: bool = False
    """The parameter IpAddressType; a stack without it answers IPv4 alone."""
    iceberg_bucket: str = ""
    """Where metadata for Iceberg's clients lies; empty where the stack does not serve them (the parameter Iceberg)."""
    jobs: "JobsOutputs | None" = None
    """None where the stack runs no jobs (the parameter SparkJobs)."""


@dataclass(frozen=True, slots=True)
class JobsOutputs:
    """What a deployed stack says of its Spark jobs."""

    application_id: str
    bucket: str
    log_group: str
    submit_arn: str
    """The function that starts jobs."""
    schedule_group: str
    schedule_role_arn: str


_OUTPUTS = {
    "endpoint": "Endpoint",
    "catalog_table": "CatalogTable",
    "tokens_table": "TokensTable",
    "signing_role_arn": "SigningRoleArn",
    "token_key_secret": "TokenKeySecret",
}
_JOBS_OUTPUTS = {
    "application_id": "JobsApplicationId",
    "bucket": "JobsBucketName",
    "log_group": "JobsLogGroup",
    "submit_arn": "SubmitJobArn",
    "schedule_group": "ScheduleGroup",
    "schedule_role_arn": "ScheduleRoleArn",
}


def stack_outputs(client: "CloudFormationClient", stack: str = DEFAULT_STACK) -> StackOutputs:
    """Return the outputs of a stack; raises NotFound when there is none of that name, or when it is not Deltaic's."""
    from botocore.exceptions import ClientError

    try:
        [described] = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        # CloudFormation has no code of its own for this: it is a ValidationError that says "does not exist".
        if error.response["Error"].get("Code") != "ValidationError":
            raise
        raise NotFound(f"there is no stack '{stack}' in this account and region: run `sam deploy` first") from error
    values = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
    missing = sorted(key for key in _OUTPUTS.values() if key not in values)
    if missing:
        raise NotFound(f"the stack '{stack}' has no output {', '.join(missing)}: it is not deployed, or not Deltaic's")
    jobs = None
    if all(key in values for key in _JOBS_OUTPUTS.values()):
        jobs = JobsOutputs(**{field: values[key] for field, key in _JOBS_OUTPUTS.items()})
    told = {each["ParameterKey"]: each.get("ParameterValue", "") for each in described.get("Parameters", [])}
    ttl = int(told.get("UrlTtlSeconds") or Settings().url_ttl_seconds)
    return StackOutputs(
        **{field: values[key] for field, key in _OUTPUTS.items()},
        url_ttl_seconds=ttl,
        answers_ipv6=told.get("IpAddressType") == "dualstack",
        iceberg_bucket=values.get("IcebergBucketName", ""),
        jobs=jobs,
    )


def reachable(endpoint: str, aws_endpoint: str) -> str:
    """Return where an API is asked whose output names `endpoint`, when AWS is at `aws_endpoint` (empty: AWS itself).

    API Gateway's own host names resolve on AWS alone; emulators have a path of one form for each API and stage.
    """
    found = _EXECUTE_API.fullmatch(endpoint)
    if not aws_endpoint or found is None or aws_endpoint.rstrip("/").endswith(".amazonaws.com"):
        return endpoint
    return f"{aws_endpoint.rstrip('/')}/_aws/execute-api/{found['api']}/{found['prefix']}"
