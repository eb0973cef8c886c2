"""Measure cold starts of the Lambda functions: `uv run python -m bench.cold` writes `cold.json` for the report.

The Lambda layer is built as for deployment, with bytecode, for the Python version that runs this. Each function starts
in new processes with only the layer on `sys.path`, and handles the same request twice against the embedded AWS. CPU
seconds are those of the whole process (user and system), as the median of several runs. Durations on Lambda are derived
from them: a function has memory in MB / 1,769 of a vCPU, and is billed for memory multiplied by duration. Some commands
of `deltaic` are measured too. `--before` names another checkout of this repository with a synced environment, for
comparison: its functions start alternately with those of this checkout, also with bytecode.
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

from deltaic_ops.checks.prove.probes import PRICES_USD
from deltaic_ops.deploy.sam_template import ROOT, load_template

from bench.object_store import ObjectStore
from bench.scenarios import write_logs
from bench.serving import Service, service

NAME = "cold.json"
FILES = 1_000
RUNS = 9
FULL_CORE_MB = 1769
"""Memory in MB at which a Lambda function has one full vCPU (AWS, "Configure Lambda function memory")."""
SMALL_MB = 512
FUNCTIONS = {
    "authorizer": "Authorizer",
    "list_shares": "ListShares",
    "get_table_metadata": "GetTableMetadata",
    "query_table": "QueryTable",
}
WAIT_SECONDS = {"authorizer": 0.005, "list_shares": 0.005, "get_table_metadata": 0.05, "query_table": 0.05}
"""Assumed seconds that a warm request waits for DynamoDB and S3, by function and request."""
SHOWN_PACKAGES = 8
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
_IMPORT_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *(\S+)")


def main() -> int:
    """Measure cold starts, print them and write `cold.json`."""
    parser = argparse.ArgumentParser(prog="bench.cold", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"number of fresh processes of each function ({RUNS})")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench"), help="folder for logs and objects")
    parser.add_argument("--before", type=Path, help="another checkout of this repository to compare with")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help=f"folder for {NAME}")
    options = parser.parse_args()
    results = measure(options.state.resolve(), options.runs, options.before and options.before.resolve())
    (options.report / NAME).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("\n".join(section(results)))
    return 0


def measure(state: Path, runs: int, before: Path | None = None) -> dict[str, Any]:
    """Build the Lambda layer, and measure starts of every function and of some `deltaic` commands."""
    state.mkdir(parents=True, exist_ok=True)
    folders = write_logs(state / "logs", [FILES], print)
    processor = "arm64" if os.uname().machine in {"aarch64", "arm64"} else "x86_64"
    with tempfile.TemporaryDirectory() as folder, ObjectStore(state) as objects:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        ours = (build_layer(ROOT, Path(folder) / "layer", processor, version), ROOT)
        theirs = None
        if before is not None:
            theirs = (build_layer(before, Path(folder) / "before", processor, version), before)
        locations = {name: objects.put_table(path) for name, path in folders.items()}
        with service(objects, locations, Path(folder)) as running_service:
            functions: dict[str, Any] = {}
            recipient: Any = None
            for name in FUNCTIONS:
                event = _event(name, running_service.token, next(reversed(locations)), recipient)
                functions[name], context = _function(ours, theirs, name, running_service, event, runs)
                recipient = recipient or context
            variables = dict(running_service.environment)
            commands = {line: _command(line, variables, runs) for line in ("--help", *_LIST)}
    return {"python": sys.version.split()[0], "runs": runs, "functions": functions, "commands": commands}


_Code = tuple[Path, Path]
"""The folder of a layer's packages, and the checkout that contains the functions."""


def build_layer(checkout: Path, target: Path, architecture: str, python: str, layer: str = "layer") -> Path:
    """Build a Lambda layer like `sam build`, compile it to bytecode, and return the folder of its packages.

    `layer` is the name of the layer's folder below `functions` in the checkout.
    """
    [name] = re.findall(r"^build-(\w+):", (checkout / "functions" / layer / "Makefile").read_text(), re.MULTILINE)
    subprocess.run(
        ["make", "--silent", f"build-{name}"],
        cwd=checkout / "functions" / layer,
        env={**os.environ, "ARTIFACTS_DIR": str(target), "LAYER_ARCHITECTURE": architecture, "LAYER_PYTHON": python},
        check=True,
    )
    return target / "python"


def _function(  # noqa: PLR0913, PLR0917 -- two versions of the code, and a request
    ours: _Code, theirs: _Code | None, name: str, running_service: Service, event: Any, runs: int
) -> tuple[dict[str, Any], Any]:
    """Measure starts of a function of two checkouts (`ours`, `theirs`); return costs, and an authorizer's context."""
    command, variables = _interpreter(ours, name, running_service)
    answers, other_answers = [], []
    for _ in range(runs):
        answers.append(_run_once(ours, name, running_service, event))
        if theirs is not None:
            other_answers.append(_run_once(theirs, name, running_service, event))
    process = subprocess.run(
        [*command, "-X", "importtime", "-c", "import app"], env=variables, capture_output=True, text=True, check=True
    )
    durations: Counter[str] = Counter()
    for line in process.stderr.splitlines():
        if match := _IMPORT_LINE.match(line):
            durations[_package(match[2])] += int(match[1])
    figures = {
        **{key: median(answer[key] for answer in answers) for key in ("import", "first", "warm")},
        **({"before": median(answer["import"] + answer["first"] for answer in other_answers)} if other_answers else {}),
        "memory": load_template(parameters={"DataBuckets": "arn:aws:s3:::lake"}).functions[FUNCTIONS[name]].memory,
        "modules": len(_IMPORT_LINE.findall(process.stderr)),
        "packages": {package: microseconds / 1000 for package, microseconds in durations.most_common(SHOWN_PACKAGES)},
    }
    return figures, answers[0]["context"]


def _run_once(code: _Code, name: str, running_service: Service, event: Any) -> dict[str, Any]:
    command, variables = _interpreter(code, name, running_service)
    done = subprocess.run(
        [*command, "-c", _PROGRAM, json.dumps(event)], env=variables, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _interpreter(code: _Code, name: str, running_service: Service) -> tuple[list[str], dict[str, str]]:
    layer, checkout = code
    folder = checkout / "functions" / ("authorizer" if name == "authorizer" else f"api/{name}")
    variables = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AWS_"))},
        **running_service.environment,
        "RESPONSE_STREAMING": "disabled",
        "POWERTOOLS_METRICS_DISABLED": "false",
        "PYTHONPATH": os.pathsep.join([str(folder), str(layer)]),
    }
    # As on Lambda: only the layer's packages, and no bytecode is written.
    return [sys.executable, "-S", "-B"], variables


def _package(module: str) -> str:
    return ".".join(module.split(".")[: 2 if module.startswith("deltaic.") else 1])


def _event(name: str, token: str, table: str, recipient: Any) -> dict[str, Any]:
    """Return the sample event in `events/` for a function, changed to the recipient and table of the benchmark."""
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
    # The first run writes the bytecode for the later ones.
    return {"wall": median(walls[1:]), "CPU": median(cpus[1:])}


def section(figures: Mapping[str, Any]) -> list[str]:
    """Return the lines of the report's section about cold starts."""
    lines = [
        f"Medians of {figures['runs']} fresh processes with Python {figures['python']} and the deployed layer, without",
        f"SnapStart. Times and prices on Lambda are computed from CPU at memory / {FULL_CORE_MB:,} of a processor,",
        f"plus an assumed wait of {_WAIT_TEXT} for AWS. `uv run python -m bench.cold` repeats this.",
        "",
        _HEAD,
        "|" + "---|" * (_HEAD.count("|") - 1),
    ]
    for name, function in figures["functions"].items():
        cold, warm, wait = function["import"] + function["first"], function["warm"], WAIT_SECONDS[name]
        sizes = (function["memory"], SMALL_MB)
        times = [f"{each * 1000:.0f} ms" for each in (function["import"], cold, warm)]
        starts = [f"{seconds(cold, size, wait):.2f} s" for size in sizes]
        prices = [f"{usd(cpu, size, wait):.2f}" for cpu in (cold, warm) for size in sizes]
        cells = [name, str(function["modules"]), *times, f"{function['memory']:,} MB", *starts, *prices]
        lines.append(f"| {' | '.join(cells)} |")
    if before := {name: function for name, function in figures["functions"].items() if "before" in function}:
        lines += ["", "Import and first answer of the previous version, measured alternately, also with bytecode:", ""]
        for name, function in before.items():
            times = function["before"] / (function["import"] + function["first"])
            lines.append(f"* {name}: {function['before'] * 1000:.0f} ms, {times:.2f} times as much")
    lines += ["", "Import times by package in ms, from `python -X importtime`:", ""]
    for name, function in figures["functions"].items():
        parts = ", ".join(f"{package} {milliseconds:.0f}" for package, milliseconds in function["packages"].items())
        lines.append(f"* {name}: {parts}")
    lines += ["", "Commands, with bytecode, over the embedded AWS:", ""]
    lines += ["| command | wall | CPU |", "|---|---|---|"]
    for command, function in figures["commands"].items():
        lines.append(f"| `deltaic {command}` | {function['wall'] * 1000:.0f} ms | {function['CPU'] * 1000:.0f} ms |")
    return lines


def seconds(cpu: float, memory: int, wait: float) -> float:
    """Return the duration in seconds on Lambda of a request, from its CPU seconds, memory in MB and waiting seconds."""
    return cpu * FULL_CORE_MB / min(memory, FULL_CORE_MB) + wait


def usd(cpu: float, memory: int, wait: float) -> float:
    """Return the list price in USD of a million requests with this CPU time, memory and waiting time."""
    return seconds(cpu, memory, wait) * memory / 1024 * 1_000_000 * PRICES_USD["GB-seconds"]


_WAIT_TEXT = f"{min(WAIT_SECONDS.values()) * 1000:.0f} to {max(WAIT_SECONDS.values()) * 1000:.0f} ms"


_HEAD = (
    "| function | modules | CPU: import | import and first answer | warm answer | memory | cold start "
    f"| at {SMALL_MB} MB | million cold, USD | at {SMALL_MB} MB | million warm, USD | at {SMALL_MB} MB |"
)


if __name__ == "__main__":
    sys.exit(main())
