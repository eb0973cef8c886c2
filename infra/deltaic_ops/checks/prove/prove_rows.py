"""The rows of docs/first-deploy.md: what each expects, which findings decide it, and what is assumed about AWS."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import httpx

from deltaic_ops.checks.prove import probes
from deltaic_ops.checks.prove.probes import Seen, Trial
from deltaic_ops.checks.prove.trial_catalog import ENCRYPTED, FILTERED, PLAIN
from deltaic_ops.inspection.findings import Finding, Verdict, ask, not_tried

_OFF = frozenset({"", "disabled", "Disabled", "ipv4"})
"""Values of parameters with which a stack does not have a row's feature."""
_CRASH = ": InternalError"
"""End of a finding about a request that an emulator cannot answer."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: the name in bold, the expectation, and what decides it."""

    name: str
    expected: str
    check: str | Callable[[Trial], Seen]
    """Regular expression for the checks of `doctor` and `verify` that decide the row, or its probe."""
    parameter: str = ""
    """Parameter of the stack that enables the feature of the row."""
    only_aws: bool = False
    """Whether no emulator has the feature."""


ROWS = (
    Row("CloudFormation", "the deployment succeeds", "the stack is deployed"),
    Row("Access log of the gateway", "the account has a role for it", "the gateway can write its access log"),
    Row("Concurrent executions", "the account allows at least 100", "enough functions can run at once"),
    Row("The layer", "requests are answered", "lists granted shares|follows the protocol"),
    Row("The authorizer's cache", "a revoked token is refused within a minute", probes.check_revocation),
    Row("The signing role", "functions assume it, URLs are valid",
        rf"signing (role|functions)|responds to queries|URL .*\.({PLAIN}|{FILTERED})\b"),
    Row("Encrypted buckets", "a file in a bucket with SSE-KMS can be read", rf"URL that reads .*\.{ENCRYPTED}$"),
    Row("A missing object in a folder shared by credentials", "404, so the table opens", probes.check_missing_object),
    Row("S3 Tables", "the stack can read them", "can read table bucket", "TableBuckets"),
    Row("Streaming", "the first byte arrives early", probes.check_stream, "ResponseStreaming"),
    Row("Binary media types", "answers above 3 MB arrive", probes.check_large_response),
    Row("2 MB/s and 200 MB", "a long list of files arrives", probes.check_long_response, "ResponseStreaming"),
    Row("Throttling", "the stage has limits, a burst gets 429", probes.check_throttle),
    Row("IPv6", "requests by IPv6 are answered", probes.check_ipv6, "IpAddressType"),
    Row("The firewall", "a known attack gets 403", probes.check_firewall, "WebAcl", only_aws=True),
    Row("Your own KMS key", "it encrypts both tables", probes.check_state_key, "StateKey"),
    Row("X-Ray", "traces arrive", probes.check_traces, "Tracing", only_aws=True),
    Row("Your own domain", "it answers", probes.check_domain, "DomainName"),
    Row("Gradual deployment", "alarms roll a version back", probes.check_rollback, "GradualDeployment", only_aws=True),
    Row("EMR Serverless", "the application can start", probes.check_spark, "SparkJobs", only_aws=True),
    Row("Schedules", "the function succeeds", partial(probes.check_invocation, "CheckpointTables"), "Checkpoints"),
    Row("Follow", "the function succeeds", partial(probes.check_invocation, "FollowTables"), "Follow"),
    Row("Notices", "the function succeeds", partial(probes.check_invocation, "SendNotices"), "Notices"),
    Row("S3's access log", "usage can read its lines", probes.check_access_log),
    Row("Backups", "both tables can be restored", "can restore the table", only_aws=True),
    Row("Removal", "tables and key are kept", probes.check_retained),
    Row("An unsigned `If-Range`", "S3 returns only the signed range", probes.check_if_range),
    Row("Costs", "list prices of the requests are low", probes.check_costs),
    Row("All other checks", "`doctor` and `verify` have no failure", ""),
)  # fmt: skip
"""All rows, in the order and with the names of docs/first-deploy.md."""


def results(
    trial: Trial, findings: Iterable[Finding], earlier: Mapping[str, Finding] | None = None
) -> Iterator[Finding]:
    """Yield the result of each row, in order, named like the row; results of an `earlier` run are kept."""
    checked = list(findings)
    for row in ROWS:
        yield (earlier or {}).get(row.name) or _result(row, trial, checked)


def _result(row: Row, trial: Trial, findings: list[Finding]) -> Finding:
    value = trial.stack.parameters.get(row.parameter, "")
    if row.parameter and value in _OFF:
        return not_tried(row.name, f"{row.parameter}={value or '(empty)'}")
    if row.only_aws and not trial.on_aws:
        return not_tried(row.name, "emulators of AWS do not have it")
    if callable(row.check):
        relevant = list(_run(row.check, row.expected, trial))
    else:
        relevant = [finding for finding in findings if _decides(row, finding)]
    failed = [finding for finding in relevant if finding.verdict in {"failed", "warning"}]
    if not trial.on_aws:
        failed = [finding for finding in failed if not finding.message.endswith(_CRASH)]
    verdict: Verdict = "failed" if failed else "ok" if any(finding.holds for finding in relevant) else "not tried"
    seen = "; ".join(f"{finding.check}: {finding.message}" for finding in failed or relevant)
    remedy = "; ".join(dict.fromkeys(finding.remedy for finding in failed))
    return Finding(row.name, verdict, seen or "no table of this kind is shared", remedy)


def _decides(row: Row, finding: Finding) -> bool:
    """Return whether a finding decides a row; the last row takes passed and failed findings that decide no other."""
    if row is ROWS[-1]:
        return finding.verdict in {"ok", "failed"} and not any(_decides(other, finding) for other in ROWS[:-1])
    return isinstance(row.check, str) and re.search(row.check, finding.check) is not None


def _run(probe: Callable[[Trial], Seen], expected: str, trial: Trial) -> Iterator[Finding]:
    """Yield the finding of a probe; errors of AWS, of HTTP and of unexpected answers become findings."""
    verdicts: dict[bool | None, Verdict] = {True: "ok", False: "failed", None: "not tried"}
    remedy = "check the stack with deltaic doctor, and the functions' logs"

    def examine() -> Finding:
        holds, seen, advice = probe(trial)
        return Finding(expected, verdicts[holds], seen, advice)

    try:
        yield from ask(expected, remedy, examine)
    except (httpx.HTTPError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        yield Finding(expected, "failed", f"{type(error).__name__} at {trial.client.endpoint}", remedy)
