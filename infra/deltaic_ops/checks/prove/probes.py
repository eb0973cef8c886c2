"""Check by requests of a recipient what neither `doctor` nor `verify` checks: each function yields findings."""

import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import httpx
from delta_sharing_conformance.client import BOTH, SharingClient, segments
from delta_sharing_conformance.files import files_of
from deltaic.catalog.items import Recipient
from deltaic.storage.locations import Location

from deltaic_ops.checks.doctor.examination import CheckContext
from deltaic_ops.checks.doctor.table_reads import check_streaming
from deltaic_ops.checks.endpoint_checks import AGENT
from deltaic_ops.checks.prove.trial_catalog import LONG, PLAIN, SCHEMA, SHARE, WIDE, TrialCatalog
from deltaic_ops.deploy.deployed_stack import DeployedStack
from deltaic_ops.inspection.findings import Finding, Verdict, judge, not_asked

CACHE_SECONDS = 75.0
"""Longest time after which a revoked token must be refused: the authorizer's cache, and a margin."""
LARGE_BYTES = 3_000_000
_BURSTS, _PARALLEL = 3, 64
_POLL_SECONDS = 2.0
_WARM_REQUESTS = 5
_ATTACK = {"X-Proof": "${jndi:ldap://127.0.0.1/proof}"}
"""Header that AWS's rules of known bad inputs block (Log4JRCE_HEADER)."""
_RANGE = "bytes=0-0"


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
    cache_seconds: float = CACHE_SECONDS


def path_of(table: str) -> str:
    """Return the path of a table of the trial."""
    return segments(SHARE, SCHEMA, table)


def check_revocation(trial: Trial) -> Iterator[Finding]:
    """Revoke a token that was just used, and send requests until it is refused."""
    tokens = trial.target.admin.tokens
    issued = tokens.create(trial.recipient)
    client = SharingClient(trial.client.http, trial.client.endpoint, issued.secret, AGENT)
    accepted = client.get("/shares").status
    tokens.revoke(trial.recipient, issued.token.id)
    revoked_at, seconds = time.monotonic(), 0.0
    while (status := client.get("/shares").status) == httpx.codes.OK and seconds < trial.cache_seconds:
        time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - revoked_at
    observed, holds = f"{accepted}, then {status} after {seconds:.0f} s", (accepted, status) == (200, 401)
    remedy = "deploy again; ReauthorizeEvery in the template is the number of seconds"
    yield judge("refuses a revoked token within a minute", observed, remedy, holds=holds)


def check_missing_object(trial: Trial) -> Iterator[Finding]:
    """Open a table without a checkpoint as deltalake and polars do, with vended credentials."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    reply = trial.client.ask("POST", f"{path_of(PLAIN)}/temporary-table-credentials", body={})
    names = {"ACCESS_KEY_ID": "accessKeyId", "SECRET_ACCESS_KEY": "secretAccessKey", "SESSION_TOKEN": "sessionToken"}
    try:
        keys = reply.json["credentials"]["awsTempCredentials"]
        storage = {**trial.catalog.storage, **{f"AWS_{name}": keys[field] for name, field in names.items()}}
        version = DeltaTable(f"{trial.catalog.location}/{PLAIN}", storage_options=storage).version()
        observed, holds = f"version {version}", True
    except (KeyError, OSError, DeltaError) as error:  # its message can contain keys
        observed, holds = f"{reply.status}, {type(error).__name__}", False
    remedy = "write a checkpoint before you share a table by dir"
    yield judge("a table without a checkpoint opens with credentials", observed, remedy, holds=holds)


def check_large_response(trial: Trial) -> Iterator[Finding]:
    """Request a schema of more than 3 MB, with and without compression."""
    remedy = "remove BinaryMediaTypes from the template"
    for encoding in ("gzip", "identity"):
        check = f"returns a large response ({encoding})"
        try:
            reply = trial.client.ask("GET", f"{path_of(WIDE)}/metadata", headers={"Accept-Encoding": encoding})
        except httpx.DecodingError:
            reason = "the gateway returned base64"
            yield Finding(check, "failed", reason, remedy) if trial.on_aws else not_asked(check, reason)
            continue
        holds = reply.status == httpx.codes.OK and len(reply.body) > LARGE_BYTES and reply.lines is not None
        yield judge(check, f"{reply.status}, {len(reply.body):,} bytes", remedy, holds=holds)


def check_stream(trial: Trial) -> Iterator[Finding]:
    """Check that the list of many files is streamed (the check of `doctor`)."""
    yield check_streaming(trial.client, path_of(LONG), f"{SHARE}.{SCHEMA}.{LONG}", trial.stack.parameters)


def check_long_response(trial: Trial) -> Iterator[Finding]:
    """Read the complete list of many files; report the seconds to its first and last byte, and its size."""
    client, started_at, first, lines, size = trial.client, time.perf_counter(), 0.0, 0, 0
    headers = {**client.headers(BOTH), "Accept-Encoding": "identity"}
    request = client.http.stream("POST", f"{client.endpoint}{path_of(LONG)}/query", json={}, headers=headers)
    with request as response:
        for chunk in response.iter_raw():
            first = first or time.perf_counter() - started_at
            size, lines = size + len(chunk), lines + chunk.count(b"\n")
    seconds = time.perf_counter() - started_at
    observed = f"{lines:,} lines, {size:,} bytes; first byte after {first:.2f} s, last after {seconds:.2f} s"
    holds = response.status_code == httpx.codes.OK and lines >= trial.catalog.files
    remedy = "let recipients request pages (maxFiles), or share the table by dir"
    yield judge("returns a long list of files completely", observed, remedy, holds=holds)


def check_throttle(trial: Trial) -> Iterator[Finding]:
    """Read the limits of the stage; on AWS, also send three bursts of requests and count answers with 429."""
    api, name = trial.stack.resources["Api"], trial.stack.parameters.get("Prefix", "delta-sharing")
    stage = trial.target.client("apigateway").get_stage(restApiId=api, stageName=name)
    limits = stage.get("methodSettings", {}).get("*/*", {})
    rate, burst = limits.get("throttlingRateLimit", 0), limits.get("throttlingBurstLimit", 0)
    remedy, holds = "deploy again; RequestsPerSecond and RequestsBurst are the limits", rate > 0 and burst > 0
    otherwise: Verdict = "failed" if trial.on_aws else "not asked"  # some emulators keep no limits
    observed = f"{rate:g} per second, bursts of {burst}"
    yield judge("the stage limits requests", observed, remedy, holds=holds, otherwise=otherwise)
    if holds and trial.on_aws:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            statuses = list(pool.map(lambda _: trial.client.get("/shares").status, range(_BURSTS * int(burst))))
        refused = statuses.count(httpx.codes.TOO_MANY_REQUESTS)
        yield judge("answers 429 beyond the limit", f"{refused} of {len(statuses)}", remedy, holds=refused > 0)


def check_firewall(trial: Trial) -> Iterator[Finding]:
    """Send a request that the firewall must block, in the protocol's format."""
    reply = trial.client.ask("GET", "/shares", headers=_ATTACK)
    holds = reply.status == httpx.codes.FORBIDDEN and "errorCode" in (reply.json or {})
    remedy = "deploy again, or check the rules of your own web ACL"
    yield judge("the firewall blocks a known attack", f"{reply.status}", remedy, holds=holds)


def check_if_range(trial: Trial) -> Iterator[Finding]:
    """Send an unsigned If-Range with a signed Range: the answer must be the range, not the whole object."""
    reply = trial.client.ask("POST", f"{path_of(PLAIN)}/query", body={})
    address = urlsplit(next(files_of(reply.lines or [])).url or "")
    table = Location.parse(f"{trial.catalog.location}/{PLAIN}")
    key = table.key_prefix + unquote(address.path.partition(table.key_prefix)[2])
    parameters = {"Bucket": table.bucket, "Key": key, "Range": _RANGE}
    url = trial.target.client("s3").generate_presigned_url("get_object", Params=parameters, ExpiresIn=60)
    response = trial.client.http.get(url, headers={"Range": _RANGE, "If-Range": '"another"'})
    observed, remedy = f"{response.status_code}, {len(response.content)} bytes", "do not rely on signed ranges"
    holds = response.status_code in {httpx.codes.PARTIAL_CONTENT, httpx.codes.FORBIDDEN}
    yield judge("an unsigned If-Range does not widen a signed Range", observed, remedy, holds=holds)


def check_ipv6(trial: Trial) -> Iterator[Finding]:
    """Send a request by IPv6; without IPv6 on this machine, the check is not made."""
    check, status, endpoint = "responds by IPv6", "no address", trial.client.endpoint
    with suppress(socket.gaierror):
        socket.getaddrinfo(urlsplit(endpoint).hostname, None, socket.AF_INET6)
        try:
            with httpx.Client(transport=httpx.HTTPTransport(local_address="::"), timeout=30) as http:
                status = f"{http.get(f'{endpoint}/shares').status_code}"
        except httpx.ConnectError:
            yield not_asked(check, "this machine has no connection by IPv6")
            return
    yield judge(check, status, "deploy with IpAddressType=ipv4", holds=status == "401")


def check_domain(trial: Trial) -> Iterator[Finding]:
    """Send a request without a token to the stack's own domain."""
    status = trial.client.http.get(f"{trial.stack.outputs['Endpoint']}/shares").status_code
    remedy = "check the domain's record and certificate, or deploy without DomainName"
    yield judge("responds at its own domain", f"{status}", remedy, holds=status == httpx.codes.UNAUTHORIZED)


def latencies(trial: Trial) -> dict[str, dict[str, float]]:
    """Return the seconds of the first request to some endpoints (cold after a deployment), and the median of others."""
    table = path_of(PLAIN)
    requests = {"list shares": "/shares", "version": f"{table}/version", "metadata": f"{table}/metadata"}
    times: dict[str, dict[str, float]] = {}
    for name, path in (requests | {"query": f"{table}/query"}).items():
        seconds = []
        for _ in range(_WARM_REQUESTS + 1):
            started_at = time.perf_counter()
            is_query = name == "query"
            trial.client.ask("POST" if is_query else "GET", path, body={} if is_query else None, capabilities=BOTH)
            seconds.append(time.perf_counter() - started_at)
        times[name] = {"first": round(seconds[0], 3), "warm": round(statistics.median(seconds[1:]), 3)}
    return times
