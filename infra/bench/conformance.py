"""Compares servers on what they keep of the protocol: `uv run python -m bench.conformance`.

The kit of `deltaic conformance` asks our gateway and, with `--beside FOLDER`, the reference server (reference.py says
what that folder holds), one after the other over the same objects; the last chapter of the kit's README has both.
"""

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import delta_sharing_conformance
import httpx
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.run import CheckResult, run
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import local_stack

from bench import conformance_tables, reference
from bench.conformance_tables import ENTRIES, TableEntry
from bench.serving import catalog_of

PAGE = Path(delta_sharing_conformance.__file__).parent.parent / "README.md"
HEADING = "## What holds of Deltaic"
"""Of the chapter that is written here, the page's last."""
TIMEOUT_SECONDS = 120.0
_CELLS = {"holds": "holds", "fails": "**fails**", "not tried": "not tried"}


def main() -> None:
    """Ask, and write the page."""
    parser = argparse.ArgumentParser(prog="bench.conformance", description=__doc__)
    parser.add_argument("--beside", type=Path, help="a built reference server to ask too (see reference.py)")
    parser.add_argument("--version", default="", help="what that server is, for the page: its commit or release")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page is written")
    options = parser.parse_args()
    if options.beside:
        reference.check(options.beside)
    with tempfile.TemporaryDirectory() as temporary:
        ours, theirs = _asked(Path(temporary), options.beside)
    before = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    options.page.write_text(before + chapter(ours, theirs, options.version, datetime.now(UTC)), encoding="utf-8")
    print(f"written: {options.page}")


def chapter(ours: Sequence[CheckResult], theirs: Sequence[CheckResult], version: str, at: datetime) -> str:
    """Return the chapter: a row for each check, then what the reference server does where a check fails."""
    others = {finding.check: finding for finding in theirs}
    of = f" of {version}" * bool(version)
    lines = [
        HEADING + " and of the reference server" * bool(theirs),
        "",
        f"Written by `uv run python -m bench.conformance{' --beside FOLDER' * bool(theirs)}` on {at:%Y-%m-%d}: the",
        "checks, by sections of",
        "[PROTOCOL.md](https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md) and chapters of",
        "[OpenSharing](https://github.com/OpenSharing-IO/OpenSharing), asked of Deltaic"
        + (f" and of the\nreference server (delta-io/delta-sharing{of}), over the same objects." if theirs else "."),
        "",
        "| section | check | Deltaic |" + " reference server |" * bool(theirs),
        "|---|---|---|" + "---|" * bool(theirs),
    ]
    for one in ours:
        row = f"| {one.section} | {one.check} | {_CELLS[one.result]} |"
        lines.append(row + (f" {_CELLS[others[one.check].result]} |" if theirs else ""))
    for name, found in (("Deltaic", ours), ("the reference server", theirs)):
        for result, heading in (("fails", "Where {} fails"), ("not tried", "What was not tried of {}")):
            told = [finding for finding in found if finding.result == result]
            if told:
                lines += ["", f"### {heading.format(name)}", ""]
                lines += [f"* {one.check} ({one.section}): {_plain(one.said)}" for one in told]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def _asked(state: Path, beside: Path | None) -> tuple[list[CheckResult], list[CheckResult]]:
    with local_stack(state / "stack", parameters={"LogLevel": "ERROR"}) as stack:
        environment = stack.environment
        conformance_tables.fill(environment, DATA_BUCKET)
        token = conformance_tables.register(catalog_of(environment))
        ours = _findings(stack.endpoint, token, f"{stack.endpoint}/iceberg")
        theirs: list[CheckResult] = []
        if beside:
            store = reference.Store(
                environment["AWS_ENDPOINT_URL"], environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
            )
            with reference.fresh(beside, store, _shares(), state / "reference") as server:
                theirs = _findings(server.client.endpoint, reference.TOKEN)
    return ours, theirs


def _findings(endpoint: str, token: str, iceberg: str = "") -> list[CheckResult]:
    found = []
    with httpx.Client(timeout=TIMEOUT_SECONDS) as client:
        for finding in run(SharingClient(client, endpoint, token, iceberg=iceberg)):
            print(f"{finding.result:<9} {finding.section}: {finding.check}; {finding.said}", flush=True)
            found.append(finding)
    return found


def _shares() -> list[dict[str, Any]]:
    """Return what is shared as the reference server's file has it; it knows no access modes."""
    share, schema = attrgetter("share"), attrgetter("schema")
    return [
        {
            "name": name,
            "schemas": [
                {"name": inner, "tables": [_table(entry) for entry in tables]} for inner, tables in groupby(of, schema)
            ],
        }
        for name, of in groupby(ENTRIES, share)
    ]


def _table(entry: TableEntry) -> dict[str, Any]:
    location = f"s3://{DATA_BUCKET}/{entry.folder}"
    return reference.shared_table(entry.table, location, history=bool(entry.options.get("history")))


if __name__ == "__main__":
    main()
