"""Check all rows of a stack; write and read the report: HTML for people, and JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from deltaic_ops.checks.prove.prove_rows import ROWS, results
from deltaic_ops.checks.prove.trial_catalog import PLAIN, SCHEMA, SHARE, TrialCatalog
from deltaic_ops.deploy.deployed_stack import read_stack
from deltaic_ops.inspection.findings import Finding, ok


def check_rows(context: CheckContext, catalog: TrialCatalog, report: Path) -> Iterator[Finding]:
    """Yield the results of all rows while the trial's catalog exists; write those so far to FILE.json and FILE.html."""
    stack = read_stack(context.client("cloudformation"), context.stack)
    on_aws = is_aws(context.client("sts").meta.endpoint_url)
    content: dict[str, Any] = {"stack": stack.name, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    earlier, rows = read_results(report, stack.name), list[Finding]()
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
        for result in results(trial, [*examine(context, (SHARE, SCHEMA, PLAIN)), *checks], earlier):
            rows.append(result)
            write_report(report, {**content, "complete": len(rows) == len(ROWS)}, rows)
            yield result


def write_report(report: Path, facts: Mapping[str, Any], results: Sequence[Finding]) -> None:
    """Write FILE.json and FILE.html: facts about the run, such as the name of the stack, and results of rows."""
    expected = {row.name: row.expected for row in ROWS}
    rows = [
        {"row": result.check, "verdict": result.verdict, "seen": result.message, "remedy": result.remedy}
        | {"expected": expected[result.check]}
        for result in results
    ]
    report.with_suffix(".json").write_text(json.dumps({**facts, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    items = "".join(f"<li>{escape(f'{name}: {value}')}</li>" for name, value in facts.items())
    title, body = f"First deployment of {facts['stack']}", "".join(map(_details, rows))
    report.with_suffix(".html").write_bytes(document(title, f"<h1>{escape(title)}</h1><ul>{items}</ul>{body}"))


def _details(row: Mapping[str, str]) -> str:
    texts = (f"Expected: {row['expected']}", row["seen"], row["remedy"])
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    is_open = " open" * (row["verdict"] == "failed")
    return f"<details{is_open}><summary>{row['verdict']}: {escape(row['row'])}</summary>{paragraphs}</details>"


def read_results(report: Path, stack: str) -> dict[str, Finding]:
    """Return the passed rows in the report of an interrupted run for the same stack; empty without one."""
    try:
        content = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
        is_continued = content["stack"] == stack and not content.get("complete")
        passed = [row for row in content["rows"] if row["verdict"] == "ok" and is_continued]
        return {row["row"]: ok(row["row"], row["seen"]) for row in passed}
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return {}
