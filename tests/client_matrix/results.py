"""Run clients, compare their rows with the expected ones, and store the results."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from client_matrix.abilities import ABILITIES, NO, NOT_TRIED, OUTCOMES, WRONG, YES
from client_matrix.clients import REASONS, Client
from client_matrix.replays import Replay
from client_matrix.tables import READS, Lender, Read, expected_rows

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results"
SCRIPTS: Final = HERE / "scripts"
SECONDS: Final = 500
LONGEST_REASON: Final = 160
CHANGING: Final = (
    (r"https?://[^\s'\"),]+", "URL"),
    (r"s3a?://[^\s'\"),]+", "URI"),
    (r"(/[\w.-]+){3,}", "PATH"),
    (r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{16,}\b|0x[0-9a-f]+", "ID"),
    (r"\b127\.0\.0\.1(:\d+)?|\bport=\d+", "HOST"),
    (r"part-\S+", "FILE"),
    (r"\b\d{5,}\b", "N"),
)
"""Parts of errors that differ between runs."""

Result = dict[str, Any]


def run_client(client: Client, lender: Lender) -> Result:
    """Run a client against the server; return its version, and the outcome of each ability."""
    reads = [read for read in READS if read.ability not in client.lacks]
    answer = _run_script(client, lender.job(reads))
    outcomes = {read.name: judge(client, read, answer["results"][read.name]) for read in reads}
    abilities = {}
    for ability in ABILITIES:
        if ability in client.lacks:
            abilities[ability] = {"outcome": NO, "reasons": [client.lacks[ability]]}
            continue
        abilities[ability] = _summarize({read: outcomes[read.name] for read in reads if read.ability == ability})
    return {"version": answer["version"], "abilities": abilities}


def _summarize(outcomes: Mapping[Read, tuple[str, str]]) -> Result:
    counted = [outcome for read, (outcome, _) in outcomes.items() if not read.extra or outcome == WRONG]
    reasons: dict[str, list[str]] = {}
    for read, (outcome, reason) in outcomes.items():
        if outcome != YES:
            reasons.setdefault(reason, []).append(read.name)
    return {
        "outcome": max(counted, key=OUTCOMES.index),
        "reasons": [
            reason if len(names) == len(outcomes) else f"{' and '.join(names)}: {reason}"
            for reason, names in reasons.items()
        ],
    }


def _run_script(client: Client, job: Mapping[str, Any]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [*_program(client, Path(folder)), *client.arguments],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": str(HERE.parent), **client.environment},
        )
    # Some clients crash when their process ends; their answer is complete by then.
    last = next(reversed(process.stdout.splitlines()), "")
    assert last.startswith('{"version"'), f"{client.name}: {process.stderr[-3000:]}"
    answer: Result = json.loads(last)
    return answer


def _program(client: Client, folder: Path) -> list[str]:
    """Return the command of a script; packages of Node are installed into a folder."""
    script = str(SCRIPTS / client.script)
    if client.node_packages:
        (folder / "package.json").write_text(json.dumps(client.node_packages), encoding="utf-8")
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(install, cwd=folder, check=True, timeout=SECONDS)
        return ["node", script, str(folder)]
    if client.packages:
        packages = [part for package in client.packages for part in ("--with", package)]
        return ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *packages, "python", script]
    return [sys.executable, script]


def judge(client: Client, read: Read, answer: Mapping[str, Any]) -> tuple[str, str]:
    """Return the outcome of a read and the reason."""
    if "untried" in answer:
        return NOT_TRIED, str(answer["untried"])
    if "unsupported" in answer:
        return NO, plain_words(client, str(answer["unsupported"])) or str(answer["unsupported"])
    if "error" in answer:
        return NO, explain(client, str(answer["error"]))
    expected = expected_rows(read)
    return (YES, "") if answer["rows"] == expected else (WRONG, difference(answer["rows"], expected))


def plain_words(client: Client, error: str) -> str | None:
    """Return plain words for a known error."""
    known = {**client.reasons, **REASONS}
    return next((words for pattern, words in known.items() if re.search(pattern, error, re.DOTALL)), None)


def explain(client: Client, error: str) -> str:
    """Return an error in plain words if it is known, else in its own without what differs between runs."""
    words = plain_words(client, error)
    if words is not None:
        return words
    text = " ".join(error.replace("`", "'").replace("|", "/").split())
    for pattern, name in CHANGING:
        text = re.sub(pattern, name, text)
    return f"`{text[:LONGEST_REASON].strip()}`"


def difference(actual: Sequence[str], expected: Sequence[str]) -> str:
    """Describe how rows differ, without their values."""
    if len(actual) != len(expected):
        return f"{len(actual)} rows instead of {len(expected)}"
    rows = [[json.loads(text) for text in texts] for texts in (actual, expected)]
    names, right = (list(dict.fromkeys(name for row in side for name in row)) for side in rows)
    if set(names) != set(right):
        missing, more = sorted(set(right) - set(names)), sorted(set(names) - set(right))
        return "; ".join(
            f"{words} {', '.join(f'`{name}`' for name in some)}"
            for words, some in (("without column", missing), ("with column", more))
            if some
        )
    kinds: dict[str, list[str]] = {}
    for name in right:
        values, correct = (_texts(side, name) for side in rows)
        if values != correct:
            kinds.setdefault(_wrong_kind(values, correct), []).append(f"`{name}`")
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())


def _wrong_kind(values: Sequence[str], correct: Sequence[str]) -> str:
    if set(values) == {"null"}:
        return "NULL"
    without_empty = sorted("null" if re.fullmatch(r'\{("\w+": null(, )?)+\}', text) else text for text in values)
    if without_empty == sorted(correct):
        return "null structs as structs of nulls"
    return "NULL in some rows" if values.count("null") > correct.count("null") else "other values"


def _texts(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return sorted(json.dumps(row.get(name), sort_keys=True) for row in rows)


def store(client: Client | Replay, result: Result) -> None:
    """Write a client's results."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (RESULTS / f"{client.name}.json").write_text(f"{text}\n", encoding="utf-8")


def stored(client: Client | Replay) -> Result:
    """Read a client's results."""
    result: Result = json.loads((RESULTS / f"{client.name}.json").read_text(encoding="utf-8"))
    return result
