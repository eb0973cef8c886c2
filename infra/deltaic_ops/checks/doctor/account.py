"""What the account and this machine bring: the clock, how much may run at once, who writes the gateway's log."""

import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx

from deltaic_ops.inspection.findings import Finding, advise, ask, judge, not_asked, ok

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

MOST_SKEW_SECONDS = 60
"""AWS refuses a signature that is 15 minutes off, some of its services 5."""

LEAST_EXECUTIONS = 100
"""A new account has 10: too few for a handful of recipients."""

TIMEOUT_SECONDS = 10.0


def clock(address: str) -> Finding:
    """Compare this machine's clock with that of AWS, by the Date of an answer that needs no signature."""
    check = "this machine's clock is AWS's"
    before = time.time()
    try:
        told = httpx.head(address, timeout=TIMEOUT_SECONDS).headers.get("date", "")
        theirs = parsedate_to_datetime(told)
    except httpx.HTTPError as error:
        return Finding(check, "failed", f"{type(error).__name__} at {address}", "the network and AWS_ENDPOINT_URL")
    except ValueError:
        return not_asked(check, f"{address} tells no date")
    skew = (before + time.time()) / 2 - theirs.timestamp()
    return judge(
        check,
        f"{abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}",
        f"set the clock (timedatectl set-ntp true): AWS says {theirs:%Y-%m-%d %H:%M:%S} UTC, and refuses what is "
        "signed minutes off",
        holds=abs(skew) <= MOST_SKEW_SECONDS,
    )


def executions(client: "LambdaClient", parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check how many functions may run at the same time, against what the stack reserves."""
    check = "enough functions may run at once"
    raise_it = "Service Quotas, Lambda, 'Concurrent executions' (L-B99A9384): ask for 1,000"

    def look() -> Finding:
        most = client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
        streaming = 3 * int(parameters.get("StreamingConcurrency", 0))
        reserved = streaming + int(parameters.get("AuthorizerConcurrency", 0))
        said = f"{most} in the account, {reserved} reserved by this stack"
        return advise(check, said, raise_it, holds=most >= LEAST_EXECUTIONS)

    yield from ask(check, raise_it, look)


def gateway(client: Any, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check the account's settings of API Gateway: its throttle, and the role that writes access logs."""
    throttle, log = "the account's gateways take what the stage allows", "the gateway can write its access log"
    more = "Service Quotas, API Gateway, 'Throttle rate': ask for more, or deploy with a smaller RequestsPerSecond"

    def look() -> Iterator[Finding]:
        settings = client.get_account()
        rate = float(settings.get("throttleSettings", {}).get("rateLimit", 0))
        wished = float(parameters.get("RequestsPerSecond", 0))
        told = f"{rate:.0f} requests a second in the account, {wished:.0f} of the stage"
        yield advise(throttle, told, more, holds=rate >= wished)
        if parameters.get("AccessLog") == "disabled":
            yield ok(log, "off, as AccessLog=disabled says")
            return
        role = str(settings.get("cloudwatchRoleArn", ""))
        yield judge(
            log,
            role or "the account has no role for it",
            "make a role with AmazonAPIGatewayPushToCloudWatchLogs, then: aws apigateway update-account "
            "--patch-operations op=replace,path=/cloudwatchRoleArn,value=ROLE; or deploy with AccessLog=disabled",
            holds=bool(role),
        )

    yield from ask(throttle, more, look)
