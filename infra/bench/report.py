"""Write the figures of a benchmark run as JSON and as a Markdown page for providers."""

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import cold
from bench.figures import Figure, amount, value_of

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


def machine(load: float) -> dict[str, object]:
    """Return the date, machine and software versions of a run; `load` is the load per core when it started."""
    import os

    import boto3
    import pyarrow as pa

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "boto3": boto3.__version__,
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
        "* **fresh** is a table's first query in a new process, **warm** a later one in the same process.",
        "* **CPU** is that of the gateway process, and more reliable than times, which are minimums.",
        "",
        "See also [single measurements](single_measurements.md), for example of the reference server over the",
        "same tables, of ten million files and of jobs.",
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
    parts += [*_goals(figures), "", "## All figures", "", "| measured | figure | value |", "|---|---|---|"]
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
