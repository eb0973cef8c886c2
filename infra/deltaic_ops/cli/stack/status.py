"""The command `deltaic status`: server, counts, expirations, last read and open findings on one screen."""

import json
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import typer
from deltaic.catalog.credentials.tokens import CHECK
from deltaic.errors import Unavailable

from deltaic_ops.checks.overview import DAYS, read_overview
from deltaic_ops.cli.operator import Operator, json_value
from deltaic_ops.cli.recipients.credential_use import Usage, json_ending
from deltaic_ops.local.access_logs import FOLDER, REQUESTS
from deltaic_ops.local.aws_variables import THIS_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltaic_ops.usage.usage_report import Use

_SECONDS = 3.0
_SHOWN = 2


def status(cli: Operator, usage: Usage = "") -> None:
    r"""Show the server, what it shares, what expires, the last read and open findings.

    Findings are those of `deltaic doctor` that need only the catalog: followed sources, hidden tables and views. The
    last read is from the usage table; without --usage, from the log of a local server. The exit code is 1 if a part
    cannot be reached, or if a check failed. The command changes nothing.

    \b
    deltaic status
    deltaic --stack deltaic-prod status --usage s3://lake/usage --json
    """
    server = _describe_server(cli)
    results, errors = read_overview(
        cli.admin, usage or None, cli.connection.environment, endpoint=lambda: _reach(cli.sharing_endpoint(None))
    )
    counts, findings, endings = results["counts"] or {}, results["findings"] or (), results["expires"] or ()
    reads = results["last read"] or (_logged_reads(cli.options.state) if _is_local(cli) and not usage else ())
    last = next(iter(reads), None)
    last_text = f"{last.table} by {last.recipient}, {last.last_at:%Y-%m-%d %H:%M} UTC" if last else "none known"
    if cli.as_json:
        cli.json({
            "server": server,
            "endpoint": results["endpoint"],
            **counts,
            "expires": results["expires"] and list(map(json_ending, endings)),
            "lastRead": last and {"at": json_value(last.last_at), "recipient": last.recipient, "table": last.table},
            "findings": results["findings"] and list(map(asdict, findings)),
            "unreachable": errors,
        })  # fmt: skip
    else:
        numbers = [f"{count:,} {kind[:-1] if count == 1 else kind}" for kind, count in counts.items()]
        ends = [f"{each.kind} of {each.recipient} on {each.ends_at:%Y-%m-%d}" for each in endings[:_SHOWN]]
        more = [f"{len(endings) - _SHOWN:,} more: deltaic expiring"] if len(endings) > _SHOWN else []
        lines = {
            "endpoint": results["endpoint"],
            "catalog": ", ".join(numbers),
            "expires": "; ".join([*ends, *more]) or f"nothing within {DAYS} days",
            "last read": last_text,
            "findings": f"{len(findings):,} open",
        }
        cli.facts({"server": server, **lines, **{part: f"unreachable: {text}" for part, text in errors.items()}})
        cli.findings(findings)
    if errors or any(finding.verdict == "failed" for finding in findings):
        raise typer.Exit(1)


def _describe_server(cli: Operator) -> str:
    connection = cli.connection
    if _is_local(cli):
        return f"local, {cli.options.state.absolute()}"
    if connection.has_table_names or connection.outputs is None:
        return f"tables {connection.catalog_table} and {connection.tokens_table} in {connection.region}"
    return f"stack {connection.stack} in {connection.region}"


def _is_local(cli: Operator) -> bool:
    aws = urlsplit(cli.connection.environment.get("AWS_ENDPOINT_URL", "")).hostname
    return cli.connection.has_table_names and aws in THIS_MACHINE and (cli.options.state / "aws").is_dir()


def _logged_reads(state: Path) -> "Iterator[Use]":
    """Yield successful requests in a local server's log, the latest first, except for checks."""
    from deltaic_ops.usage.usage_report import Use

    with suppress(FileNotFoundError):
        for line in reversed((state / FOLDER / REQUESTS).read_bytes().splitlines()):
            with suppress(ValueError, KeyError):  # the last line can be incomplete
                event = json.loads(line)
                table = ".".join(event[name] for name in ("share", "schema", "table"))
                if event["status"] < HTTPStatus.BAD_REQUEST and not event["tokenId"].startswith(CHECK):
                    yield Use(recipient=event["recipient"], table=table, last_at=datetime.fromisoformat(event["time"]))


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
