"""Write and read the report of `deltaic prove`: one HTML file for people, and one JSON file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from html import escape
from pathlib import Path
from typing import Any

from deltaic_ops.checks.prove.prove_rows import RowResult

_STYLE = (
    "body{font:16px/1.5 system-ui;margin:2rem}table{border-collapse:collapse;table-layout:fixed;width:100%}"
    "td,th{border-bottom:1px solid #ccc;padding:.4rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}"
    "th:nth-child(3){width:5rem}th:nth-child(4){width:45%}.fails{color:#b00020}.holds{color:#006b2d}"
)


def write_report(report: Path, about: Mapping[str, Any], results: Sequence[RowResult]) -> None:
    """Write the results so far to FILE.json and FILE.html. `about` names the stack and has measurements."""
    document = {**about, "rows": [asdict(result) for result in results]}
    report.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    heads = "".join(f'<th scope="col">{field.name}</th>' for field in fields(RowResult))
    rows = [[f"<td>{escape(cell)}</td>" for cell in asdict(result).values()] for result in results]
    lines = [f'<tr class="{r.outcome}">{"".join(row)}</tr>' for r, row in zip(results, rows, strict=True)]
    seconds = about.get("seconds", {}).items()
    times = {f"{name}, seconds": f"first {each['first']}, then {each['warm']}" for name, each in seconds}
    facts = [f"{name}: {value}" for name, value in (dict(about) | times).items() if name != "seconds"]
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>deltaic prove</title><style>{_STYLE}</style>'
        f"<h1>First deployment of {escape(str(about['stack']))}</h1><ul>{items}</ul>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></html>\n"
    )
    report.with_suffix(".html").write_text(page, encoding="utf-8")


def read_results(report: Path, stack: str) -> dict[str, RowResult]:
    """Return the rows that hold in the report of an interrupted run for the same stack; empty without one."""
    try:
        document = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
        rows = [RowResult(**row) for row in document["rows"]]
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return {}
    if document.get("stack") != stack or document.get("complete"):
        return {}
    return {row.row: row for row in rows if row.outcome == "holds"}
