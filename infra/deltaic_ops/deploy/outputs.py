"""Read the outputs of a deployed stack, from which commands get its endpoint, table names and ARNs."""

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
    """Outputs and some parameters of a deployed stack."""

    endpoint: str
    """Endpoint for recipients' profiles: `https://.../{prefix}`, without a final slash."""
    catalog_table: str
    tokens_table: str
    signing_role_arn: str
    token_key_secret: str
    url_ttl_seconds: int = Settings().url_ttl_seconds
    """Lifetime of signed URLs in seconds (parameter UrlTtlSeconds)."""
    answers_ipv6: bool = False
    """Whether the endpoint supports IPv6 (parameter IpAddressType); false for stacks without the parameter."""
    iceberg_bucket: str = ""
    """Bucket for Iceberg metadata; empty if the parameter Iceberg is disabled."""
    jobs: "JobsOutputs | None" = None
    """Outputs for Spark jobs; None if the stack runs no jobs (parameter SparkJobs)."""


@dataclass(frozen=True, slots=True)
class JobsOutputs:
    """Outputs of a stack for its Spark jobs."""

    application_id: str
    bucket: str
    log_group: str
    submit_arn: str
    """ARN of the function that starts jobs."""
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


def describe_stack(client: "CloudFormationClient", stack: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the status, the parameters and the outputs of a stack; raises NotFound if it does not exist."""
    from botocore.exceptions import ClientError

    try:
        [description] = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        # CloudFormation reports a missing stack as a ValidationError with the text "does not exist".
        if error.response["Error"].get("Code") != "ValidationError":
            raise
        raise NotFound(f"there is no stack '{stack}' in this account and region: check --stack and --region") from error
    parameters = {item["ParameterKey"]: item.get("ParameterValue", "") for item in description.get("Parameters", [])}
    outputs = {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", [])}
    return description["StackStatus"], parameters, outputs


def stack_outputs(client: "CloudFormationClient", stack: str = DEFAULT_STACK) -> StackOutputs:
    """Return the outputs of a stack; raises NotFound if it does not exist or is not a Deltaic stack."""
    _, parameters, values = describe_stack(client, stack)
    missing = sorted(key for key in _OUTPUTS.values() if key not in values)
    if missing:
        raise NotFound(f"stack '{stack}' has no output {', '.join(missing)}: check that it is a deployed Deltaic stack")
    jobs = None
    if all(key in values for key in _JOBS_OUTPUTS.values()):
        jobs = JobsOutputs(**{field: values[key] for field, key in _JOBS_OUTPUTS.items()})
    ttl = int(parameters.get("UrlTtlSeconds") or Settings().url_ttl_seconds)
    return StackOutputs(
        **{field: values[key] for field, key in _OUTPUTS.items()},
        url_ttl_seconds=ttl,
        answers_ipv6=parameters.get("IpAddressType") == "dualstack",
        iceberg_bucket=values.get("IcebergBucketName", ""),
        jobs=jobs,
    )


def reachable_endpoint(endpoint: str, aws_endpoint: str) -> str:
    """Return the URL at which an API is reachable: unchanged on AWS, or on the emulator at `aws_endpoint`.

    API Gateway's host names resolve only on AWS; emulators serve each API and stage under a path.
    """
    match = _EXECUTE_API.fullmatch(endpoint)
    if not aws_endpoint or match is None or aws_endpoint.rstrip("/").endswith(".amazonaws.com"):
        return endpoint
    return f"{aws_endpoint.rstrip('/')}/_aws/execute-api/{match['api']}/{match['prefix']}"
