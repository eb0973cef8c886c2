"""Writes down what a run measured: figures as JSON, and a page that a provider would want to read."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from bench import cold
from bench.figures import Figure, amount, of
from bench.reference import NAME

_ROWS = (
    ("fresh: first byte", "ms"),
    ("fresh: last byte, all URLs", "s"),
    ("warm: first byte", "ms"),
    ("warm: last byte", "s"),
    ("warm: CPU a line, mean", "us"),
    ("fresh: peak memory", "MB"),
    ("fresh: S3 requests of a query", ""),
    ("warm: S3 requests of a query", ""),
    ("warm: one new commit, then limitHint 1", "ms"),
)


def write(figures: Sequence[Figure], folder: Path, machine: Mapping[str, object]) -> None:
    """Write `figures.json` and `report.md` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {"machine": machine, "figures": [one.as_json() for one in figures]}
    (folder / "figures.json").write_text(json.dumps(said, indent=1) + "\n")
    page = [*_page(figures, machine), *_started(folder / cold.NAME)]
    (folder / "report.md").write_text("\n".join(page) + "\n")


def read(folder: Path) -> tuple[list[Figure], Mapping[str, object]]:
    """Return the figures of the last report, and the machine that they are of; nothing where there is none."""
    if not (folder / "figures.json").exists():
        return [], {}
    said = json.loads((folder / "figures.json").read_text())
    names = [field.name for field in fields(Figure)]
    return [Figure(**{name: one[name] for name in names}) for one in said["figures"]], said["machine"]


def renewed(known: Sequence[Figure], figures: Sequence[Figure]) -> list[Figure]:
    """Return figures with those in the place of the same ones that are known, and new ones behind."""
    latest = {(one.subject, one.name): one for one in figures}
    kept = [latest.pop((one.subject, one.name), one) for one in known]
    return [*kept, *latest.values()]


def machine(busy: float) -> dict[str, object]:
    """Return what ran: where, when, and how busy others kept it (load per core)."""
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
        "load per core at the start": round(busy, 1),
    }


def _page(figures: Sequence[Figure], machine: Mapping[str, object]) -> list[str]:
    tables = [one for one in figures if one.subject.endswith(" files") and " of " not in one.subject]
    sizes = list(dict.fromkeys(one.subject for one in tables))
    parts = [
        "# What an answer costs",
        "",
        "Written by `uv run python -m bench` (`--full` adds a table of a million files). The tables are Delta logs",
        "without data: one checkpoint and ten commits, statistics as random as real ones, in SeaweedFS on loopback.",
        "The server is what `deltaic serve` runs: the real Lambda handlers behind the local gateway, catalog and",
        "signing role in the embedded AWS, so URLs carry a session token, of AWS's length. The client is a raw socket.",
        "Rivals run in the same run, on the same store, in processes of their own.",
        "What they and we keep of the protocol is in [the kit's page](../delta_sharing_conformance/README.md);",
        "figures that were measured once (jobs, ten million files, Iceberg metadata, layers, a soak test) are in",
        "[single_measurements.md](single_measurements.md).",
        "",
        "CPU is that of the whole gateway process: HTTP, authorizer, catalog lookup, log, signing, lines. Times are",
        "the least of a few runs on a machine that others use too; trust CPU, counts and ratios first.",
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
        "## At a glance",
        "",
        "| | " + " | ".join(sizes) + " |",
        "|---|" + "---|" * len(sizes),
    ]
    for name, unit in _ROWS:
        values = [of(figures, size, name) for size in sizes]
        if any(value is not None for value in values):
            parts.append(f"| {name} | " + " | ".join(amount(value, unit).strip() for value in values) + " |")
    parts += [*_promises(figures), *_against_rivals(figures)]
    parts += ["", "## Beside the reference server", "", *_beside(figures)]
    parts += ["", "## Everything", "", "| measured | figure | value |", "|---|---|---|"]
    parts += [f"| {one.subject} | {one.name} | {amount(one.value, one.unit).strip()} |" for one in figures]
    return parts


def _started(path: Path) -> list[str]:
    """Return what the last cold starts cost, if they were measured."""
    if not path.exists():
        return []
    return ["", "## Cold starts", "", *cold.section(json.loads(path.read_text()))]


def _promises(figures: Sequence[Figure]) -> list[str]:
    rows = [
        f"| {one.subject} | {one.name} | {amount(one.value, one.unit).strip()} | {amount(one.bar, one.unit).strip()} "
        f"| {'holds' if one.holds else '**missed**'} |"
        for one in figures
        if one.bar is not None
    ]
    return ["", "## Promises", "", "| measured | figure | value | bar | |", "|---|---|---|---|---|", *rows]


def _against_rivals(figures: Sequence[Figure]) -> list[str]:
    head = ["| measured | figure | ours | rival | theirs | times less |", "|---|---|---|---|---|---|"]
    rows = [
        f"| {one.subject} | {one.name} | {amount(one.value, one.unit).strip()} | {one.rival} "
        f"| {amount(one.theirs, one.unit).strip()} | {amount(one.ratio, '').strip()} |"
        for one in figures
        if one.theirs is not None and one.rival != NAME
    ]
    return ["", "## Against rivals", "", *head, *rows]


def _beside(figures: Sequence[Figure]) -> list[str]:
    shown = [one for one in figures if one.rival == NAME]
    if not shown:
        return ["Not measured: `--beside FOLDER` names a built one (`reference.py` says what it must hold)."]
    beside = f" beside the {NAME}"
    return [
        "The Scala server of delta-io/delta-sharing, Java's and its own defaults, with the same token check over the",
        "same objects; its answers hold the same files. Processes by turns, medians. A fresh process has answered one",
        "listing and no query (ours begins as after a SnapStart restore: with its modules and clients); a warm one's",
        "peak is that of all its queries. Its URLs carry no session token, ours do.",
        "Java compiles and collects on the other core meanwhile: on a busy machine trust the CPU first.",
        "",
        "| measured | figure | ours | theirs | times less | promised |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.subject.removesuffix(beside)} | {one.name} | {amount(one.value, one.unit).strip()} "
            f"| {amount(one.theirs, one.unit).strip()} | {amount(one.ratio, '').strip()} "
            f"| {_promised(one)} |"
            for one in shown
        ),
    ]


def _promised(one: Figure) -> str:
    if one.bar is None or one.theirs is None:
        return ""
    return f"{amount(one.theirs / one.bar, '').strip()}, {'holds' if one.holds else '**missed**'}"
