"""Check this machine's clock, and the AWS account: Lambda concurrency, API Gateway's throttle and log role."""

import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx

from deltaic_ops.inspection.findings import Finding, advise, ask, judge, not_tried, ok

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

MOST_SKEW_SECONDS = 60
"""Maximum clock difference; AWS rejects signatures that are 15 minutes off, some services 5 minutes."""

LEAST_EXECUTIONS = 100
"""Minimum limit of concurrent Lambda executions; a new account has 10, too few for several recipients."""

TIMEOUT_SECONDS = 10.0


def check_clock(address: str) -> Finding:
    """Compare this machine's clock with the Date header of an unsigned request to AWS."""
    check = "the clock of this machine matches AWS"
    sent_at = time.time()
    try:
        header = httpx.head(address, timeout=TIMEOUT_SECONDS).headers.get("date", "")
        aws_time = parsedate_to_datetime(header)
    except httpx.HTTPError as error:
        return Finding(check, "failed", f"{type(error).__name__} at {address}", "check network and AWS_ENDPOINT_URL")
    except ValueError:
        return not_tried(check, f"{address} returned no Date header")
    skew = (sent_at + time.time()) / 2 - aws_time.timestamp()
    return judge(
        check,
        f"{abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}",
        f"set the clock (timedatectl set-ntp true): AWS has {aws_time:%Y-%m-%d %H:%M:%S} UTC, and rejects signatures "
        "that are minutes off",
        holds=abs(skew) <= MOST_SKEW_SECONDS,
    )


def check_concurrency(client: "LambdaClient", parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the account's limit of concurrent Lambda executions suffices; show the stack's reservations."""
    check = "enough functions can run at once"
    remedy = "request 1,000 in Service Quotas, Lambda, 'Concurrent executions' (L-B99A9384)"

    def read_account() -> Finding:
        limit = client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
        streaming = 3 * int(parameters.get("StreamingConcurrency", 0))
        reserved = streaming + int(parameters.get("AuthorizerConcurrency", 0))
        limits = f"{limit} in the account, {reserved} reserved by this stack"
        return advise(check, limits, remedy, holds=limit >= LEAST_EXECUTIONS)

    yield from ask(check, remedy, read_account)


def check_gateway(client: Any, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check the account's API Gateway settings: its throttle, and the role that writes access logs."""
    throttle, log = "the account's request rate is not below the stage's", "the gateway can write its access log"
    remedy = "request more in Service Quotas, API Gateway, 'Throttle rate', or deploy with a lower RequestsPerSecond"

    def read_account() -> Iterator[Finding]:
        settings = client.get_account()
        rate = float(settings.get("throttleSettings", {}).get("rateLimit", 0))
        stage = float(parameters.get("RequestsPerSecond", 0))
        rates = f"{rate:.0f} requests per second in the account, {stage:.0f} in the stage"
        yield advise(throttle, rates, remedy, holds=rate >= stage)
        if parameters.get("AccessLog") == "disabled":
            yield ok(log, "off (AccessLog=disabled)")
            return
        role = str(settings.get("cloudwatchRoleArn", ""))
        yield judge(
            log,
            role or "the account has no role for the log",
            "create a role with AmazonAPIGatewayPushToCloudWatchLogs, then: aws apigateway update-account "
            "--patch-operations op=replace,path=/cloudwatchRoleArn,value=ROLE; or deploy with AccessLog=disabled",
            holds=bool(role),
        )

    yield from ask(throttle, remedy, read_account)
