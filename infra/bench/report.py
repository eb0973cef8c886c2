"""Write the figures of a benchmark run as JSON and as a Markdown page for providers."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from bench import cold
from bench.figures import Figure, amount, value_of
from bench.reference import NAME

_ROWS = (
    ("fresh: first byte", "ms"),
    ("fresh: last byte, all URLs", "s"),
    ("warm: first byte", "ms"),
    ("warm: last byte", "s"),
    ("warm: CPU per line, mean", "us"),
    ("fresh: peak memory", "MB"),
    ("fresh: S3 requests per query", ""),
    ("warm: S3 requests per query", ""),
    ("warm: one new commit, then limitHint 1", "ms"),
)


def write(figures: Sequence[Figure], folder: Path, machine: Mapping[str, object]) -> None:
    """Write figures and a description of the machine to `figures.json` and `report.md` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "figures": [figure.as_json() for figure in figures]}
    (folder / "figures.json").write_text(json.dumps(content, indent=1) + "\n")
    page = [*report_lines(figures, machine), *_cold_starts(folder / cold.NAME)]
    (folder / "report.md").write_text("\n".join(page) + "\n")


def read(folder: Path) -> tuple[list[Figure], Mapping[str, object]]:
    """Return the figures of the last report and the machine it was measured on; both empty without a report."""
    if not (folder / "figures.json").exists():
        return [], {}
    content = json.loads((folder / "figures.json").read_text())
    names = [field.name for field in fields(Figure)]
    return [Figure(**{name: figure[name] for name in names}) for figure in content["figures"]], content["machine"]


def merge_figures(existing: Sequence[Figure], figures: Sequence[Figure]) -> list[Figure]:
    """Return existing figures, replaced by new ones of the same subject and name, and then other new figures."""
    latest = {(figure.subject, figure.name): figure for figure in figures}
    merged = [latest.pop((figure.subject, figure.name), figure) for figure in existing]
    return [*merged, *latest.values()]


def machine(load: float) -> dict[str, object]:
    """Return the date, machine and software versions of a run; `load` is the load per core when it started."""
    import os

    import boto3
    import deltalake
    import pyarrow as pa

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "boto3": boto3.__version__,
        "deltalake": deltalake.__version__,
        "load per core at the start": round(load, 1),
    }


def report_lines(figures: Sequence[Figure], machine: Mapping[str, object]) -> list[str]:
    """Return the lines of the Markdown page about these figures, without cold starts."""
    tables = [figure for figure in figures if figure.subject.endswith(" files") and " of " not in figure.subject]
    sizes = list(dict.fromkeys(figure.subject for figure in tables))
    parts = [
        "# Benchmarks",
        "",
        "This page shows how long queries take, and how much CPU and memory and how many S3 requests they",
        "need. `uv run python -m bench` writes the page; `--full` adds a table of a million files.",
        "",
        "* **Tables** are Delta logs (a checkpoint and ten commits) in SeaweedFS on the same machine.",
        "* **Server**: the Lambda handlers behind the local gateway, as `deltaic serve` runs them. The URLs",
        "  have a session token as long as on AWS.",
        "* **Competitors** run in the same run, with the same store.",
        "* **fresh** is a table's first query in a new process, **warm** a later one in the same process.",
        "* **CPU** is that of the gateway process, and more reliable than times, which are minimums.",
        "",
        "See also [single measurements](single_measurements.md) of jobs, ten million files and layers, and",
        "the [protocol checks](../delta_sharing_conformance/README.md) that the reference server passes.",
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
        "## Query times by table size",
        "",
        "| | " + " | ".join(sizes) + " |",
        "|---|" + "---|" * len(sizes),
    ]
    for name, unit in _ROWS:
        values = [value_of(figures, size, name) for size in sizes]
        if any(value is not None for value in values):
            parts.append(f"| {name} | " + " | ".join(amount(value, unit).strip() for value in values) + " |")
    parts += [*_goals(figures), *_against_rivals(figures)]
    parts += ["", "## Comparison with the reference server", "", *_compared_with_reference(figures)]
    parts += ["", "## All figures", "", "| measured | figure | value |", "|---|---|---|"]
    return parts + [f"| {row.subject} | {row.name} | {amount(row.value, row.unit).strip()} |" for row in figures]


def _cold_starts(path: Path) -> list[str]:
    if not path.exists():
        return []
    return ["", "## Cold starts", "", *cold.section(json.loads(path.read_text()))]


def _goals(figures: Sequence[Figure]) -> list[str]:
    rows = [
        f"| {row.subject} | {row.name} | {amount(row.value, row.unit).strip()} | {amount(row.bar, row.unit).strip()} "
        f"| {'met' if row.holds else '**missed**'} |"
        for row in figures
        if row.bar is not None
    ]
    return ["", "## Goals", "", "| measured | figure | value | goal | |", "|---|---|---|---|---|", *rows]


def _against_rivals(figures: Sequence[Figure]) -> list[str]:
    head = ["| measured | figure | Deltaic | compared with | its value | ratio |", "|---|---|---|---|---|---|"]
    rows = [
        f"| {row.subject} | {row.name} | {amount(row.value, row.unit).strip()} | {row.rival} "
        f"| {amount(row.theirs, row.unit).strip()} | {amount(row.ratio, '').strip()} |"
        for row in figures
        if row.theirs is not None and row.rival != NAME
    ]
    return ["", "## Comparison with deltalake and boto3", "", *head, *rows]


def _compared_with_reference(figures: Sequence[Figure]) -> list[str]:
    compared = [row for row in figures if row.rival == NAME]
    if not compared:
        return ["Not measured: `--beside FOLDER` measures a built reference server (see `reference.py`)."]
    suffix = f" compared with the {NAME}"
    return [
        "The Scala server of delta-io/delta-sharing, with default settings, checks the same token, reads the",
        "same objects and returns the same files. Values are medians of alternating processes.",
        "",
        "* A **fresh** process has answered a list request; Deltaic's starts as restored by SnapStart.",
        "* The peak memory of a **warm** process includes all its queries.",
        "* URLs of the reference server have no session token.",
        "* Java's compiler and garbage collector use the second core. CPU is the most reliable figure.",
        "",
        "| measured | figure | Deltaic | reference server | ratio | goal |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row.subject.removesuffix(suffix)} | {row.name} | {amount(row.value, row.unit).strip()} "
            f"| {amount(row.theirs, row.unit).strip()} | {amount(row.ratio, '').strip()} | {_goal_of(row)} |"
            for row in compared
        ),
    ]


def _goal_of(figure: Figure) -> str:
    if figure.bar is None or figure.theirs is None:
        return ""
    return f"{amount(figure.theirs / figure.bar, '').strip()}, {'met' if figure.holds else '**missed**'}"
