"""The soak test: recipients of every kind at once for minutes, and whether the server grows meanwhile.

`uv run python -m bench.soak [--minutes 10] [--recipients 50]` writes `soak.json`, which the report takes up. Each
recipient has a thread, a token and the same calls in an order of its own; some leave in the middle of an answer, some
ask for what is not there. What is compared is memory, open files and threads after a quarter of the time and at its
end: caches fill in the first quarter, what grows after that grows for ever.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from deltaic_ops.local.resources import DATA_BUCKET, connect
from deltaic_ops.local.stack import Stack, local_stack

from bench import tables
from bench.process import resident
from bench.serving import catalog_of

NAME = "soak.json"
SIZES = (100, 1000, 10_000)
PAUSE_SECONDS = 0.2
"""Between two calls of a recipient: fifty of them keep two cores busy even so."""
SAMPLE_SECONDS = 5.0


@dataclass(slots=True)
class Sample:
    """What one process held at one moment."""

    seconds: float
    memory: float
    files: int
    threads: int


@dataclass(slots=True)
class Soak:
    """What recipients did, and what the server's processes held meanwhile."""

    answers: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def take(self, stack: Stack, seconds: float) -> None:
        """Sample every process."""
        for name, pid in stack.processes.items():
            files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
            self.samples.setdefault(name, []).append(Sample(seconds, resident(pid), files, threads))

    def rows(self) -> list[dict[str, Any]]:
        """Return, for each process and what it holds, the medians of the second quarter and of the last."""
        return [
            {"process": name, "held": what, "after a quarter": before, "at the end": after}
            for name, samples in self.samples.items()
            for what in ("memory", "files", "threads")
            for before, after in [_quarters([getattr(sample, what) for sample in samples])]
        ]


def _quarters(values: Sequence[float]) -> tuple[float, float]:
    quarter = max(len(values) // 4, 1)
    second, last = sorted(values[quarter : 2 * quarter] or values), sorted(values[-quarter:])
    return second[len(second) // 2], last[len(last) // 2]


def main() -> int:
    """Soak, print, write; exits 1 if a call was answered with what it should not be."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--recipients", type=int, default=50)
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help="where soak.json is written")
    options = parser.parse_args()
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with local_stack(folder / "state", parameters={"LogLevel": "ERROR"}) as stack:
            tokens = _filled(stack, folder / "logs", options.recipients)
            soak = _soaked(stack, tokens, options.minutes * 60)
    rows = soak.rows()
    outcome = {
        "minutes": options.minutes,
        "recipients": options.recipients,
        "answers": dict(soak.answers),
        "rows": rows,
    }
    (options.report / NAME).write_text(json.dumps(outcome, indent=1) + "\n")
    print("\n".join(section(outcome)))
    wrong = {name: count for name, count in soak.answers.items() if name.endswith("?")}
    return int(bool(wrong))


def section(outcome: Mapping[str, Any]) -> list[str]:
    """Return the report's section."""
    answers = ", ".join(f"{count:,} {name}" for name, count in sorted(outcome["answers"].items()))
    return [
        f"{outcome['minutes']:g} minutes, {outcome['recipients']} recipients at once. Answers: {answers}.",
        "",
        "| process | held | after a quarter | at the end |",
        "|---|---|---|---|",
        *(
            f"| {row['process']} | {row['held']}{' (MB)' if row['held'] == 'memory' else ''} "
            f"| {row['after a quarter']:,.0f} | {row['at the end']:,.0f} |"
            for row in outcome["rows"]
        ),
    ]


def _filled(stack: Stack, folder: Path, recipients: int) -> list[str]:
    known = stack.environment
    s3, admin = connect(known)["s3"], catalog_of(known)
    admin.shares.create("bench")
    admin.schemas.create("bench", "logs")
    for files in SIZES:
        written = tables.write(folder, files)
        for path in written.rglob("*"):
            if path.is_file():
                s3.upload_file(str(path), DATA_BUCKET, f"{written.name}/{path.relative_to(written)}")
        admin.tables.create("bench", "logs", f"t{files}", f"s3://{DATA_BUCKET}/{written.name}", history=True)
    tokens = []
    for number in range(recipients):
        recipient = admin.recipients.create(f"reader{number}")
        admin.grants.create(recipient.name, "bench")
        tokens.append(admin.tokens.create(recipient).secret)
    return tokens


def _soaked(stack: Stack, tokens: Sequence[str], seconds: float) -> Soak:
    soak, end, began = Soak(), threading.Event(), time.monotonic()
    with ThreadPoolExecutor(len(tokens)) as pool:
        readers = [
            pool.submit(_read, stack.endpoint, token, random.Random(number), end)  # noqa: S311 -- an order of calls
            for number, token in enumerate(tokens)
        ]
        try:
            while (passed := time.monotonic() - began) < seconds:
                soak.take(stack, passed)
                print(f"\r{passed:5.0f} of {seconds:.0f} s", end="", file=sys.stderr, flush=True)
                time.sleep(SAMPLE_SECONDS)
            stack.check()
        finally:
            end.set()
        print(file=sys.stderr)
        for reader in readers:
            soak.answers += reader.result()
    return soak


def _read(endpoint: str, token: str, chance: random.Random, end: threading.Event) -> Counter[str]:
    """Call after call as one recipient; counts what came, with a question mark where it should not have."""
    answers: Counter[str] = Counter()
    table = "/shares/bench/schemas/logs/tables/t"
    with httpx.Client(base_url=endpoint, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        while not end.wait(PAUSE_SECONDS):
            size = chance.choice(SIZES)
            method, path, body, wanted = chance.choice([
                ("GET", "/shares", None, 200),
                ("GET", "/shares/bench/all-tables", None, 200),
                ("GET", f"{table}{size}/version", None, 200),
                ("GET", f"{table}{size}/metadata", None, 200),
                ("GET", f"{table}{size}/changes?startingVersion=0", None, 400),
                ("GET", "/shares/nobody", None, 404),
                ("POST", f"{table}{size}/query", {"jsonPredicateHints": "no JSON"}, 200),
                ("POST", f"{table}{size}/query", {"maxFiles": 50}, 200),
                ("POST", f"{table}{size}/query", {"version": -1}, 400),
                ("POST", f"{table}{size}/query", {}, 200),
                ("POST", f"{table}{size}/query", {}, 0),
            ])  # fmt: skip
            with client.stream(method, path, json=body) as answer:
                if wanted == 0:
                    answers["readers that left"] += 1
                    continue
                answer.read()
                right = answer.status_code == wanted
                answers[f"{answer.status_code}{'' if right else f' for {wanted}?'}"] += 1
    return answers


if __name__ == "__main__":
    sys.exit(main())
