"""Check what neither `doctor` nor `verify` checks: a probe returns whether a row holds, what it saw, and a remedy."""

import socket
import statistics
import time
import timeit
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

import httpx
from delta_sharing_conformance.client import BOTH, SharingClient, segments
from deltaic.catalog.items import Recipient
from deltaic.storage.locations import Location

from deltaic_ops.checks.doctor.examination import CheckContext
from deltaic_ops.checks.doctor.table_reads import check_streaming
from deltaic_ops.checks.prove.trial_catalog import LONG, PLAIN, SCHEMA, SHARE, WIDE, TrialCatalog
from deltaic_ops.deploy.deployed_stack import DeployedStack

LARGE_BYTES = 3_000_000
PRICES_USD = {"requests": 3.5e-6, "invocations": 0.2e-6, "GB-seconds": 0.0000133334, "read units": 0.125e-6}
"""List prices (docs/costs.md)."""
MOST_USD = 0.10
"""Price of the requests of a trial, which the command announces."""
_BURSTS, _PARALLEL = 3, 64
_POLL_SECONDS = 2.0
_WARM_REQUESTS = 5
_TEN_MINUTES = timedelta(minutes=10)
Seen = tuple[bool | None, str, str]
"""Whether a row holds (None if that cannot be seen here), the observation, and the remedy."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A stack with a trial catalog, and a client with the token of its recipient."""

    target: CheckContext
    stack: DeployedStack
    catalog: TrialCatalog
    recipient: Recipient
    client: SharingClient
    on_aws: bool
    """Whether the stack is on AWS; emulators lack some of its limits."""
    cache_seconds: float = 75.0
    """Longest time after which a revoked token must be refused: the authorizer's cache, and a margin."""


def path_of(table: str) -> str:
    """Return the path of a table of the trial."""
    return segments(SHARE, SCHEMA, table)


def check_revocation(trial: Trial) -> Seen:
    """Revoke a token that was just used, and send requests until it is refused."""
    tokens = trial.target.admin.tokens
    issued = tokens.create(trial.recipient)
    client = replace(trial.client, bearer=issued.secret)
    accepted = client.get("/shares").status
    tokens.revoke(trial.recipient, issued.token.id)
    revoked_at, seconds = time.monotonic(), 0.0
    while (status := client.get("/shares").status) == httpx.codes.OK and seconds < trial.cache_seconds:
        time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - revoked_at
    remedy = "deploy again; ReauthorizeEvery in the template is the number of seconds"
    return (accepted, status) == (200, 401), f"{accepted}, then {status} after {seconds:.0f} s", remedy


def check_missing_object(trial: Trial) -> Seen:
    """Open a table without a checkpoint as deltalake and polars do, with vended credentials."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    reply = trial.client.ask("POST", f"{path_of(PLAIN)}/temporary-table-credentials", body={})
    names = {"ACCESS_KEY_ID": "accessKeyId", "SECRET_ACCESS_KEY": "secretAccessKey", "SESSION_TOKEN": "sessionToken"}
    remedy = "write a checkpoint before you share a table by dir"
    try:
        keys = reply.json["credentials"]["awsTempCredentials"]
        storage = {**trial.catalog.storage, **{f"AWS_{name}": keys[field] for name, field in names.items()}}
        version = DeltaTable(f"{trial.catalog.location}/{PLAIN}", storage_options=storage).version()
    except (KeyError, OSError, DeltaError) as error:  # its message can contain keys
        return False, f"{reply.status}, {type(error).__name__}", remedy
    return True, f"version {version}", remedy


def check_large_response(trial: Trial) -> Seen:
    """Request a schema of more than 3 MB, with and without compression."""
    holds, seen = True, []
    for encoding in ("gzip", "identity"):
        try:
            reply = trial.client.ask("GET", f"{path_of(WIDE)}/metadata", headers={"Accept-Encoding": encoding})
        except httpx.DecodingError:
            holds &= not trial.on_aws
            seen.append(f"{encoding}: the gateway returned base64")
            continue
        holds &= reply.status == httpx.codes.OK and len(reply.body) > LARGE_BYTES and reply.lines is not None
        seen.append(f"{encoding}: {reply.status}, {len(reply.body):,} bytes")
    return holds, "; ".join(seen), "remove BinaryMediaTypes from the template"


def check_stream(trial: Trial) -> Seen:
    """Check that the list of many files is streamed (the check of `doctor`)."""
    finding = check_streaming(trial.client, path_of(LONG), f"{SHARE}.{SCHEMA}.{LONG}", trial.stack.parameters)
    return None if finding.verdict == "not tried" else finding.holds, finding.message, finding.remedy


def check_long_response(trial: Trial) -> Seen:
    """Read the complete list of many files; report the seconds to its first and last byte, and its size."""
    client, started_at, first, lines, size = trial.client, time.perf_counter(), 0.0, 0, 0
    headers = {**client.headers(BOTH), "Accept-Encoding": "identity"}
    request = client.http.stream("POST", f"{client.endpoint}{path_of(LONG)}/query", json={}, headers=headers)
    with request as response:
        for chunk in response.iter_raw():
            first = first or time.perf_counter() - started_at
            size, lines = size + len(chunk), lines + chunk.count(b"\n")
    times = f"first byte after {first:.2f} s, last after {time.perf_counter() - started_at:.2f} s"
    holds = response.status_code == httpx.codes.OK and lines >= trial.catalog.files
    remedy = "let recipients request pages (maxFiles), or share the table by dir"
    return holds, f"{lines:,} lines, {size:,} bytes; {times}", remedy


def check_throttle(trial: Trial) -> Seen:
    """Read the limits of the stage; on AWS, also send three bursts of requests and count answers with 429."""
    api, name = trial.stack.resources["Api"], trial.stack.parameters.get("Prefix", "delta-sharing")
    stage = trial.target.client("apigateway").get_stage(restApiId=api, stageName=name)
    limits = stage.get("methodSettings", {}).get("*/*", {})
    rate, burst = limits.get("throttlingRateLimit", 0), limits.get("throttlingBurstLimit", 0)
    remedy = "deploy again; RequestsPerSecond and RequestsBurst are the limits"
    seen = f"{rate:g} a second, {burst} at once"
    if not trial.on_aws:
        return True if rate > 0 and burst > 0 else None, seen, remedy  # some emulators keep no limits
    with ThreadPoolExecutor(_PARALLEL) as pool:
        statuses = list(pool.map(lambda _: trial.client.get("/shares").status, range(_BURSTS * int(burst))))
    refused = statuses.count(httpx.codes.TOO_MANY_REQUESTS)
    return rate > 0 and refused > 0, f"{seen}; {refused} of {len(statuses)} requests got 429", remedy


def check_firewall(trial: Trial) -> Seen:
    """Send a request that the firewall must block, in the protocol's format."""
    attack = {"X-Proof": "${jndi:ldap://127.0.0.1/proof}"}  # blocked by AWS's rule Log4JRCE_HEADER
    reply = trial.client.ask("GET", "/shares", headers=attack)
    holds = reply.status == httpx.codes.FORBIDDEN and "errorCode" in reply.fields
    return holds, f"{reply.status}", "deploy again, or check the rules of your own web ACL"


def check_if_range(trial: Trial) -> Seen:
    """Send an unsigned If-Range with a signed Range: the answer must be the range, not the whole object."""
    s3, table = trial.target.client("s3"), Location.parse(f"{trial.catalog.location}/{PLAIN}")
    files = s3.list_objects_v2(Bucket=table.bucket, Prefix=f"{table.key_prefix}site=")["Contents"]
    signed = {"Range": "bytes=0-0"}
    parameters = {"Bucket": table.bucket, "Key": files[0]["Key"], **signed}
    url = s3.generate_presigned_url("get_object", Params=parameters, ExpiresIn=60)
    response = trial.client.http.get(url, headers={**signed, "If-Range": '"another"'})
    holds = response.status_code in {httpx.codes.PARTIAL_CONTENT, httpx.codes.FORBIDDEN}
    return holds, f"{response.status_code}, {len(response.content)} bytes", "do not rely on signed ranges"


def check_ipv6(trial: Trial) -> Seen:
    """Send a request by IPv6; without IPv6 on this machine, the check is not made."""
    status, endpoint, remedy = "no address", trial.client.endpoint, "deploy with IpAddressType=ipv4"
    with suppress(socket.gaierror):
        socket.getaddrinfo(urlsplit(endpoint).hostname, None, socket.AF_INET6)
        try:
            with httpx.Client(transport=httpx.HTTPTransport(local_address="::"), timeout=30) as http:
                status = f"{http.get(f'{endpoint}/shares').status_code}"
        except httpx.ConnectError:
            return None, "this machine has no connection by IPv6", remedy
    return status == "401", status, remedy


def check_domain(trial: Trial) -> Seen:
    """Send a request without a token to the stack's own domain."""
    status = trial.client.http.get(f"{trial.stack.outputs['Endpoint']}/shares").status_code
    return status == 401, f"{status}", "check the domain's record and certificate, or deploy without DomainName"  # noqa: PLR2004


def check_state_key(trial: Trial) -> Seen:
    """Check that the stack's own KMS key encrypts both tables."""
    key, describe = trial.stack.parameters["StateKey"], trial.target.client("dynamodb").describe_table
    tables = [describe(TableName=name)["Table"] for name in (trial.target.catalog_table, trial.target.tokens_table)]
    used = {table.get("SSEDescription", {}).get("KMSMasterKeyArn", "none") for table in tables}
    return used == {key}, ", ".join(sorted(used)), f"deploy again with StateKey={key}"


def check_traces(trial: Trial) -> Seen:
    """Check that X-Ray has traces of the last ten minutes."""
    now, client = datetime.now(UTC), trial.target.client("xray")
    count = len(client.get_trace_summaries(StartTime=now - _TEN_MINUTES, EndTime=now)["TraceSummaries"])
    return count > 0, f"{count} in ten minutes", "look at the traces in CloudWatch, or deploy with Tracing=Disabled"


def check_rollback(trial: Trial) -> Seen:
    """Check that CodeDeploy watches the alarms for every function, and rolls a version back on an alarm."""
    codedeploy = trial.target.client("codedeploy")
    application = {"applicationName": trial.stack.resources["ServerlessDeploymentApplication"]}
    names = codedeploy.list_deployment_groups(**application)["deploymentGroups"]
    groups = codedeploy.batch_get_deployment_groups(**application, deploymentGroupNames=names)["deploymentGroupsInfo"]
    watched = [
        group.get("alarmConfiguration", {}).get("enabled", False)
        and "DEPLOYMENT_STOP_ON_ALARM" in group.get("autoRollbackConfiguration", {}).get("events", ())
        for group in groups
    ]
    return bool(watched) and all(watched), f"{sum(watched)} of {len(watched)} functions", "deploy again"


def check_spark(trial: Trial) -> Seen:
    """Check that the application for Spark jobs exists and can start; runs no job."""
    client, application = trial.target.client("emr-serverless"), trial.stack.outputs["JobsApplicationId"]
    state = client.get_application(applicationId=application)["application"]["state"]
    holds = state in {"CREATED", "STARTED", "STOPPED"}
    return holds, state, "deploy again; then run a small dataset with --on emr"


def check_access_log(trial: Trial) -> Seen:
    """Parse a line of the access log of the trial's bucket, which S3 delivers within hours."""
    from deltaic_pipeline.usage_log.log_lines import UNDERSTOOD, fetch_rows

    s3, remedy = trial.target.client("s3"), "downloads belong to no recipient; requests are still reported"
    settings = s3.get_bucket_logging(Bucket=Location.parse(trial.catalog.location).bucket).get("LoggingEnabled", {})
    bucket, prefix = settings.get("TargetBucket"), settings.get("TargetPrefix")
    logs = bucket and s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents")
    if not logs:
        return None, "the bucket has no access log, or S3 has not delivered it yet", remedy
    lines = s3.get_object(Bucket=bucket, Key=logs[-1]["Key"])["Body"].read().decode(errors="replace").splitlines()
    verdicts = [row[0] for line in lines for row in fetch_rows(line, "")]
    understood = verdicts.count(UNDERSTOOD)
    return 0 < understood == len(verdicts), f"{understood} of {len(verdicts)} lines", remedy


def check_invocation(logical_id: str, trial: Trial) -> Seen:
    """Invoke a scheduled function, as its schedule would."""
    name = trial.stack.resources[logical_id]
    reply = trial.target.client("lambda").invoke(FunctionName=name, Payload=b'{"tell": "endings"}')
    error = reply.get("FunctionError", "")
    return not error, f"{name} {error or 'succeeded'}", f"check the log of {name}"


def check_costs(trial: Trial) -> Seen:
    """Multiply what CloudWatch counted in ten minutes by list prices; S3, logs and traffic are not included."""
    target, ours, now = trial.target, set(trial.stack.resources.values()), datetime.now(UTC)
    period = {"StartTime": now - _TEN_MINUTES, "EndTime": now, "Period": 600, "Statistics": ["Sum"]}

    def total(service: str, metric: str, dimension: str, name: str) -> float:
        """Return the sum of a metric of one resource."""
        metric_of = {"Namespace": f"AWS/{service}", "MetricName": metric}
        dimensions = [{"Name": dimension, "Value": name}]
        answer = target.client("cloudwatch").get_metric_statistics(**metric_of, **period, Dimensions=dimensions)
        return float(sum(point["Sum"] for point in answer["Datapoints"]))

    functions = target.client("lambda").get_paginator("list_functions").paginate().search("Functions[]")
    sizes = {item["FunctionName"]: item["MemorySize"] for item in functions if item["FunctionName"] in ours}
    ms_by_function = {name: total("Lambda", "Duration", "FunctionName", name) for name in sizes}
    tables = (target.catalog_table, target.tokens_table)
    amounts = {
        "requests": total("ApiGateway", "Count", "ApiName", f"deltaic-{trial.stack.parameters['Stage']}"),
        "invocations": sum(total("Lambda", "Invocations", "FunctionName", name) for name in sizes),
        "GB-seconds": sum(ms * sizes[name] for name, ms in ms_by_function.items()) / 1024 / 1000,
        "read units": sum(total("DynamoDB", "ConsumedReadCapacityUnits", "TableName", name) for name in tables),
    }
    usd = sum(PRICES_USD[unit] * amount for unit, amount in amounts.items())
    seen = ", ".join(f"{amount:,.1f} {unit}" for unit, amount in amounts.items() if amount)
    if not seen:
        return None, "CloudWatch has no metrics of this stack", ""
    return usd < MOST_USD, f"{usd:.4f} USD in ten minutes: {seen}", "compare the amounts with docs/costs.md"


def check_retained(trial: Trial) -> Seen:
    """Check that both tables and the key outlive the stack."""
    missing = {trial.stack.resources[name] for name in ("Catalog", "Tokens", "TokenKey")} - trial.stack.retained.keys()
    seen = f"not kept: {', '.join(sorted(missing))}" if missing else f"keeps {', '.join(trial.stack.retained)}"
    return not missing, seen, "deploy again before you remove the stack"


def latencies(trial: Trial) -> dict[str, float]:
    """Return the seconds of the first request to some endpoints (cold after a deployment), and the median of others."""
    times: dict[str, float] = {}
    for name, verb, body in (("version", "GET", None), ("metadata", "GET", None), ("query", "POST", {})):
        request = partial(trial.client.ask, verb, f"{path_of(PLAIN)}/{name}", body=body, capabilities=BOTH)
        first, *later = timeit.repeat(request, number=1, repeat=_WARM_REQUESTS + 1)
        times[f"seconds of the first {name}"] = round(first, 3)
        times[f"seconds of a later {name}"] = round(statistics.median(later), 3)
    return times
