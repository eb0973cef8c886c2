"""Check all rows of a stack; write and read the report: HTML for people, and JSON."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import httpx
from delta_sharing_conformance.client import SharingClient
from deltaic.pages.html import document
from deltaic.storage.endpoints import is_aws

from deltaic_ops.checks.doctor.examination import CheckContext, examine
from deltaic_ops.checks.endpoint_checks import AGENT, TIMEOUT_SECONDS, verify
from deltaic_ops.checks.prove.probes import Trial, latencies
from deltaic_ops.checks.prove.prove_rows import ROWS, RowResult, results
from deltaic_ops.checks.prove.trial_catalog import PLAIN, SCHEMA, SHARE, TrialCatalog
from deltaic_ops.deploy.deployed_stack import read_stack


def check_rows(context: CheckContext, catalog: TrialCatalog, report: Path) -> Iterator[RowResult]:
    """Yield the results of all rows while the trial's catalog exists; write those so far to FILE.json and FILE.html."""
    stack = read_stack(context.client("cloudformation"), context.stack)
    on_aws = is_aws(context.client("sts").meta.endpoint_url)
    content: dict[str, Any] = {"stack": stack.name, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    known, made = read_results(report, stack.name), list[RowResult]()
    with (
        catalog.created() as recipient,
        context.admin.tokens.for_checks(recipient) as bearer,
        httpx.Client(timeout=TIMEOUT_SECONDS) as http,
    ):
        client = SharingClient(http, context.endpoint, bearer, AGENT)
        trial = Trial(context, stack, catalog, recipient, client, on_aws)
        with suppress(httpx.HTTPError):  # the rows report an endpoint that does not respond
            content |= latencies(trial)
        checks = verify(client, [SHARE], [], 3 if catalog.encrypted else 2)
        for result in results(trial, [*examine(context, (SHARE, SCHEMA, PLAIN)), *checks], known):
            made.append(result)
            write_report(report, {**content, "complete": len(made) == len(ROWS), "rows": made})
            yield result


def write_report(report: Path, content: Mapping[str, Any]) -> None:
    """Write FILE.json and FILE.html; `content` names the stack and has its rows, and facts about the run."""
    report.with_suffix(".json").write_text(json.dumps(content, indent=2, default=asdict) + "\n", encoding="utf-8")
    facts = "".join(f"<li>{escape(f'{name}: {value}')}</li>" for name, value in content.items() if name != "rows")
    body = "".join(_details(result) for result in content["rows"])
    title = f"First deployment of {content['stack']}"
    report.with_suffix(".html").write_bytes(document(title, f"<h1>{escape(title)}</h1><ul>{facts}</ul>{body}"))


def _details(result: RowResult) -> str:
    texts = (f"Expected: {result.expected}", result.seen, result.remedy)
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    is_open = " open" * (result.verdict == "failed")
    return f"<details{is_open}><summary>{result.verdict}: {escape(result.row)}</summary>{paragraphs}</details>"


def read_results(report: Path, stack: str) -> dict[str, RowResult]:
    """Return the passed rows in the report of an interrupted run for the same stack; empty without one."""
    try:
        content = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
        rows = [RowResult(**row) for row in content["rows"]]
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return {}
    if content.get("stack") != stack or content.get("complete"):
        return {}
    return {result.row: result for result in rows if result.verdict == "ok"}
