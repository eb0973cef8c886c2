"""The command `deltaic status`: server, counts, expirations, last read and open findings on one screen."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import typer
from deltaic.catalog.credentials.tokens import CHECK
from deltaic.errors import DeltaicError, Unavailable
from deltaic.scheduled.expirations import Expiration, scan_expirations

from deltaic_ops.cli.operator import Operator, json_value
from deltaic_ops.cli.recipients.credential_use import Usage, json_ending
from deltaic_ops.inspection.findings import Finding
from deltaic_ops.local.access_logs import FOLDER, REQUESTS
from deltaic_ops.local.aws_variables import THIS_MACHINE

_PARALLEL = 16
_SECONDS = 3.0
_SHOWN = 2
_WITHIN = timedelta(days=30)


def status(cli: Operator, usage: Usage = "") -> None:
    r"""Show the server, what it shares, what expires, the last read and open findings.

    Findings are those of `deltaic doctor` that need only the catalog: followed sources, hidden tables and views. The
    last read is from the usage table; without --usage, from the log of a local server. The exit code is 1 if a part
    cannot be reached, or if a check failed. The command changes nothing.

    \b
    deltaic status
    deltaic --stack deltaic-prod status --usage s3://lake/usage --json
    """
    server, admin, now = _server(cli), cli.admin, datetime.now(UTC)
    unreachable: dict[str, str] = {}
    reads: dict[str, Callable[[], Any]] = {
        "endpoint": lambda: _reach(cli.sharing_endpoint(None)),
        "catalog": lambda: _catalog(cli),
        "expires": lambda: scan_expirations(admin, now, now + _WITHIN),
        "last read": lambda: _last_read(cli, usage),
    }

    def read(name: str) -> Any:
        try:
            return reads[name]()
        except DeltaicError as refusal:
            unreachable[name] = refusal.message

    with ThreadPoolExecutor(len(reads)) as pool:
        endpoint, catalog, expires, last = pool.map(read, reads)
    counts, findings = catalog or ({}, None)
    if cli.as_json:
        cli.json({
            "server": server,
            "endpoint": endpoint,
            **counts,
            "expires": expires and list(map(json_ending, expires)),
            "lastRead": last and dict(zip(("at", "recipient", "table"), map(json_value, last), strict=True)),
            "findings": findings and list(map(asdict, findings)),
            "unreachable": unreachable,
        })  # fmt: skip
    else:
        shown = {
            "endpoint": endpoint,
            "catalog": ", ".join(f"{count:,} {kind[:-1] if count == 1 else kind}" for kind, count in counts.items()),
            "expires": _soon(expires or ()),
            "last read": f"{last[2]} by {last[1]}, {last[0]:%Y-%m-%d %H:%M} UTC" if last else "none known",
            "findings": f"{len(findings or ()):,} open",
        }
        cli.facts({"server": server, **shown, **{name: f"unreachable: {text}" for name, text in unreachable.items()}})
        cli.findings(findings or ())
    if unreachable or any(finding.verdict == "failed" for finding in findings or ()):
        raise typer.Exit(1)


def _soon(endings: Sequence[Expiration]) -> str:
    first = [f"{each.kind} of {each.recipient} on {each.ends_at:%Y-%m-%d}" for each in endings[:_SHOWN]]
    more = [f"{len(endings) - _SHOWN:,} more: deltaic expiring"] * (len(endings) > _SHOWN)
    return "; ".join([*first, *more]) or "nothing within 30 days"


def _server(cli: Operator) -> str:
    connection = cli.connection
    if _is_local(cli):
        return f"local, {cli.options.state.absolute()}"
    if connection.has_table_names or connection.outputs is None:
        return f"tables {connection.catalog_table} and {connection.tokens_table} in {connection.region}"
    return f"stack {connection.stack} in {connection.region}"


def _is_local(cli: Operator) -> bool:
    folder, aws = cli.options.state / "aws", cli.connection.environment.get("AWS_ENDPOINT_URL", "")
    return folder.is_dir() and cli.connection.has_table_names and urlsplit(aws).hostname in THIS_MACHINE


def _reach(endpoint: str) -> str:
    """Return the endpoint if its server responds; a server rejects this request, because it has no token."""
    try:
        urlopen(f"{endpoint}/shares", timeout=_SECONDS).close()  # noqa: S310 -- checked: http or https
    except HTTPError as response:
        if response.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unavailable(f"{endpoint} responds with status {response.code}: run deltaic doctor") from None
    except OSError as failure:
        reason = getattr(failure, "reason", failure)
        raise Unavailable(f"no response from {endpoint} ({reason}): check that the server is running") from None
    return endpoint


def _catalog(cli: Operator) -> tuple[dict[str, int], list[Finding]]:
    """Return the counts of the catalog, and the findings about it that are no passed checks."""
    from deltaic_ops.checks.doctor.freshness import check_follows, check_views

    admin, shares = cli.admin, [share.name for share in cli.admin.shares.list()]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        recipients = pool.submit(lambda: sum(1 for _ in admin.recipients.list()))
        views = pool.submit(lambda: list(admin.views.list_all()))
        tables = list(chain(*pool.map(lambda share: list(admin.tables.list(share)), shares)))
        follows = list(chain(*pool.map(lambda share: list(admin.follows.list(share)), shares)))
        findings = [*check_follows(follows, tables, None), *check_views(views.result())]
        counts = {"shares": len(shares), "tables": len(tables), "recipients": recipients.result()}
    return counts, [finding for finding in findings if not finding.holds]


def _last_read(cli: Operator, usage: str) -> tuple[datetime, str, str] | None:
    if usage:
        from deltaic_ops.usage.usage_report import last_read

        return last_read(usage, cli.connection.environment)
    return _last_logged(cli.options.state / FOLDER / REQUESTS) if _is_local(cli) else None


def _last_logged(log: Path) -> tuple[datetime, str, str] | None:
    """Return time, recipient and table of the last successful request in a local server's log, except for checks."""
    with suppress(FileNotFoundError):
        for line in reversed(log.read_bytes().splitlines()):
            with suppress(ValueError, KeyError):  # the last line can be incomplete
                event = json.loads(line)
                if event["status"] < HTTPStatus.BAD_REQUEST and not event["tokenId"].startswith(CHECK):
                    table = ".".join(event[name] for name in ("share", "schema", "table"))
                    return datetime.fromisoformat(event["time"]), event["recipient"], table
    return None
