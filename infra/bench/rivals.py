"""Measure the deltalake library in a separate process: `python -m bench.rivals LOCATION ENDPOINT` prints JSON."""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench import process


def run_deltalake(location: str, endpoint: str) -> dict[str, float]:
    """Run `deltalake` in a new process and return its results."""
    command = [sys.executable, "-m", "bench.rivals", location, endpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    results: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return results


def deltalake(location: str, endpoint: str) -> dict[str, float]:
    """Open a table with deltalake and list its files; return seconds and memory in MB, both without imports."""
    import os

    from deltalake import DeltaTable

    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    pid = os.getpid()
    process.forget_peak(pid)
    before, cpu, began = process.resident(pid), process.cpu_seconds(pid), time.perf_counter()
    table = DeltaTable(location, storage_options=options)
    open_seconds = time.perf_counter() - began
    files = table.get_add_actions(flatten=False).num_rows
    list_seconds = time.perf_counter() - began
    return {
        "open": open_seconds,
        "listed": list_seconds,
        "cpu": process.cpu_seconds(pid) - cpu,
        "growth": process.peak(pid) - before,
        "peak": process.peak(pid),
        "files": files,
    }


def main() -> None:
    """Measure the table that the command line names, and print the results."""
    location, endpoint = sys.argv[1:]
    print(json.dumps(deltalake(location, endpoint)))


if __name__ == "__main__":
    main()
