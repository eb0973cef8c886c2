"""Measures cold starts: `uv run python -m bench.cold` writes `cold.json`, which the report takes up.

The layer is built as it is deployed, with its bytecode, for the Python that runs this. Each function is started in
fresh processes that have nothing else on their path; it answers one request over the embedded AWS, and the same one
again. CPU is that of the whole process, user and system, the median of some runs. What it takes on Lambda is computed:
a function has memory / 1,769 of a processor, and its price is that of its memory for its time. What the operator's
commands cost stands beside it. `--before` names another checkout of this repository in which `uv sync` was run: its
functions start by turns with ours, with the bytecode that their layer may lack.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from deltaic_ops.deploy.sam_template import ROOT, load_template

from bench.object_store import ObjectStore
from bench.scenarios import written
from bench.serving import Service, service

NAME = "cold.json"
GB_SECOND_USD = 0.0000133334
"""The list price of a GB-second of functions on arm64 (docs/costs.md)."""
FILES = 1_000
RUNS = 9
WHOLE = 1769
"""MB of memory with which a function has one whole processor (AWS, "Configure Lambda function memory")."""
LEAST = 512
FUNCTIONS = {
    "authorizer": "Authorizer",
    "list_shares": "ListShares",
    "get_table_metadata": "GetTableMetadata",
    "query_table": "QueryTable",
}
AWAY_SECONDS = {"authorizer": 0.005, "list_shares": 0.005, "get_table_metadata": 0.05, "query_table": 0.05}
"""How long a warm request waits for DynamoDB and S3; assumed."""
SHOWN = 8
_LIST = ("share list", "table list bench", "recipient list")

_PROGRAM = """
import json, sys, time
import app
imported = time.process_time()

class Context:
    aws_request_id = "00000000-0000-0000-0000-000000000000"
    get_remaining_time_in_millis = staticmethod(lambda: 29_000)

event = json.loads(sys.argv[1])
def ask():
    began = time.process_time()
    answer = app.handler(event, Context())
    assert answer.get("statusCode", 200) == 200, answer
    return time.process_time() - began, answer
first, answer = ask()
warm = min(ask()[0] for _ in range(5))
print()
print(json.dumps({"import": imported, "first": first, "warm": warm, "context": answer.get("context")}))
"""
_IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *(\S+)")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="bench.cold", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"fresh processes of each function ({RUNS})")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench"), help="where logs and objects are kept")
    parser.add_argument("--before", type=Path, help="another checkout of this repository to start beside this one")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help=f"where {NAME} is written")
    said = parser.parse_args()
    found = measured(said.state.resolve(), said.runs, said.before and said.before.resolve())
    (said.report / NAME).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(section(found)))
    return 0


def measured(state: Path, runs: int, before: Path | None = None) -> dict[str, Any]:
    """Build the layer, start every function so many times, and the command line."""
    state.mkdir(parents=True, exist_ok=True)
    folders = written(state / "logs", [FILES], print)
    processor = "arm64" if os.uname().machine in {"aarch64", "arm64"} else "x86_64"
    with tempfile.TemporaryDirectory() as folder, ObjectStore(state) as objects:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        ours = (build_layer(ROOT, Path(folder) / "layer", processor, version), ROOT)
        theirs = None
        if before is not None:
            theirs = (build_layer(before, Path(folder) / "before", processor, version), before)
        locations = {name: objects.put_table(path) for name, path in folders.items()}
        with service(objects, locations, Path(folder)) as running:
            functions: dict[str, Any] = {}
            recipient: Any = None
            for name in FUNCTIONS:
                event = _event(name, running.token, next(reversed(locations)), recipient)
                functions[name], told = _function(ours, theirs, name, running, event, runs)
                recipient = recipient or told
            variables = dict(running.environment)
            commands = {line: _command(line, variables, runs) for line in ("--help", *_LIST)}
    return {"python": sys.version.split()[0], "runs": runs, "functions": functions, "commands": commands}


_Code = tuple[Path, Path]
"""A layer, and the checkout that has its functions."""


def build_layer(checkout: Path, target: Path, architecture: str, python: str, layer: str = "layer") -> Path:
    """Build a layer of a checkout as `sam build` does, and return the folder of its packages, with bytecode.

    `layer` is the layer's folder below `functions`.
    """
    [name] = re.findall(r"^build-(\w+):", (checkout / "functions" / layer / "Makefile").read_text(), re.MULTILINE)
    subprocess.run(
        ["make", "--silent", f"build-{name}"],
        cwd=checkout / "functions" / layer,
        env={**os.environ, "ARTIFACTS_DIR": str(target), "LAYER_ARCHITECTURE": architecture, "LAYER_PYTHON": python},
        check=True,
    )
    return target / "python"


def _function(  # noqa: PLR0913, PLR0917 -- whose code, and what it is asked
    ours: _Code, theirs: _Code | None, name: str, running: Service, event: Any, runs: int
) -> tuple[dict[str, Any], Any]:
    """Return what a function cost, and whom the authorizer recognised."""
    command, variables = _start(ours, name, running)
    answers, others = [], []
    for _ in range(runs):
        answers.append(_asked(ours, name, running, event))
        if theirs is not None:
            others.append(_asked(theirs, name, running, event))
    process = subprocess.run(
        [*command, "-X", "importtime", "-c", "import app"], env=variables, capture_output=True, text=True, check=True
    )
    took: Counter[str] = Counter()
    for line in process.stderr.splitlines():
        if one := _IMPORTED.match(line):
            took[_package(one[2])] += int(one[1])
    figures = {
        **{what: median(answer[what] for answer in answers) for what in ("import", "first", "warm")},
        **({"before": median(answer["import"] + answer["first"] for answer in others)} if others else {}),
        "memory": load_template(parameters={"DataBuckets": "arn:aws:s3:::lake"}).functions[FUNCTIONS[name]].memory,
        "modules": len(_IMPORTED.findall(process.stderr)),
        "packages": {package: microseconds / 1000 for package, microseconds in took.most_common(SHOWN)},
    }
    return figures, answers[0]["context"]


def _asked(code: _Code, name: str, running: Service, event: Any) -> dict[str, Any]:
    command, variables = _start(code, name, running)
    done = subprocess.run(
        [*command, "-c", _PROGRAM, json.dumps(event)], env=variables, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _start(code: _Code, name: str, running: Service) -> tuple[list[str], dict[str, str]]:
    """Return the interpreter and the variables of a function."""
    layer, checkout = code
    folder = checkout / "functions" / ("authorizer" if name == "authorizer" else f"api/{name}")
    variables = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AWS_"))},
        **running.environment,
        "RESPONSE_STREAMING": "disabled",
        "POWERTOOLS_METRICS_DISABLED": "false",
        "PYTHONPATH": os.pathsep.join([str(folder), str(layer)]),
    }
    # As on Lambda: no site-packages but the layer's, and no bytecode written on the way.
    return [sys.executable, "-S", "-B"], variables


def _package(module: str) -> str:
    return ".".join(module.split(".")[: 2 if module.startswith("deltaic.") else 1])


def _event(name: str, token: str, table: str, recipient: Any) -> dict[str, Any]:
    """Return the request of `events/` for this function, from the benchmark's recipient for the benchmark's table."""
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text(encoding="utf-8"))
    if name == "authorizer":
        return {**event, "authorizationToken": f"Bearer {token}"}
    event["pathParameters"] = {"share": "bench", "schema": "logs", "table": table}
    event["body"] = "{}" if name == "query_table" else None
    event["requestContext"]["authorizer"] = recipient
    return event


def _command(line: str, variables: Mapping[str, str], runs: int) -> dict[str, float]:
    program = [sys.executable, "-c", "from deltaic_ops.cli import main; main()", *line.split()]
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    walls, cpus = [], []
    for _ in range(runs + 1):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(program, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - began)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first one writes the bytecode that every later one finds.
    return {"wall": median(walls[1:]), "CPU": median(cpus[1:])}


def section(figures: Mapping[str, Any]) -> list[str]:
    """Return the report's section."""
    lines = [
        f"`uv run python -m bench.cold`, Python {figures['python']}, median of {figures['runs']} fresh processes: the",
        "layer as deployed, without SnapStart; CPU of the whole process. Seconds and prices on Lambda come from",
        f"these CPU seconds at memory / {WHOLE:,} of a processor, and {_AWAY_SAID} of waiting for AWS, assumed.",
        "",
        _HEAD,
        "|" + "---|" * (_HEAD.count("|") - 1),
    ]
    for name, one in figures["functions"].items():
        cold, warm, away = one["import"] + one["first"], one["warm"], AWAY_SECONDS[name]
        sizes = (one["memory"], LEAST)
        times = [f"{each * 1000:.0f} ms" for each in (one["import"], cold, warm)]
        starts = [f"{seconds(cold, size, away):.2f} s" for size in sizes]
        prices = [f"{usd(cpu, size, away):.2f}" for cpu in (cold, warm) for size in sizes]
        cells = [name, str(one["modules"]), *times, f"{one['memory']:,} MB", *starts, *prices]
        lines.append(f"| {' | '.join(cells)} |")
    if beside := {name: one for name, one in figures["functions"].items() if "before" in one}:
        lines += ["", "Import and first answer of the version before, by turns, its layer compiled too:", ""]
        for name, one in beside.items():
            times = one["before"] / (one["import"] + one["first"])
            lines.append(f"* {name}: {one['before'] * 1000:.0f} ms, {times:.2f} times as much")
    lines += ["", "What is imported, by `python -X importtime`, ms:", ""]
    for name, one in figures["functions"].items():
        parts = ", ".join(f"{package} {took:.0f}" for package, took in one["packages"].items())
        lines.append(f"* {name}: {parts}")
    lines += ["", "The command line, with its bytecode, over the embedded AWS:", ""]
    lines += ["| command | wall | CPU |", "|---|---|---|"]
    for command, one in figures["commands"].items():
        lines.append(f"| `deltaic {command}` | {one['wall'] * 1000:.0f} ms | {one['CPU'] * 1000:.0f} ms |")
    return lines


def seconds(cpu: float, memory: int, away: float) -> float:
    """Return how long so much computing and waiting takes in a function of so many MB."""
    return cpu * WHOLE / min(memory, WHOLE) + away


def usd(cpu: float, memory: int, away: float) -> float:
    """Return the list price of a million of them."""
    return seconds(cpu, memory, away) * memory / 1024 * 1_000_000 * GB_SECOND_USD


_AWAY_SAID = f"{min(AWAY_SECONDS.values()) * 1000:.0f} to {max(AWAY_SECONDS.values()) * 1000:.0f} ms"


_HEAD = (
    "| function | modules | CPU: import | and first answer | a warm answer | memory | cold start "
    f"| at {LEAST} MB | a million cold, USD | at {LEAST} MB | a million warm, USD | at {LEAST} MB |"
)


if __name__ == "__main__":
    sys.exit(main())
