"""Measure competitors in separate processes: boto3's URL signer with json.dumps, and the deltalake library.

Run `python -m bench.rivals deltalake LOCATION ENDPOINT` or `... presign LINES TOKEN_LENGTH`; prints one line of JSON.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import measured_tables, process


def run_rival(*arguments: str) -> dict[str, float]:
    """Run this module with these arguments in a new process and return its results."""
    process_result = subprocess.run(
        [sys.executable, "-m", "bench.rivals", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    results: dict[str, float] = json.loads(process_result.stdout.splitlines()[-1])
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


def presign(lines: int, token_length: int) -> dict[str, float]:
    """Sign URLs with boto3 and dump file lines; return CPU microseconds per line, the minimum of three runs."""
    import boto3
    from botocore.config import Config

    client: Any = boto3.client(
        "s3",
        endpoint_url="http://127.0.0.1:9",
        region_name="us-east-1",
        aws_access_key_id="ASIAEXAMPLEEXAMPLE00",
        aws_secret_access_key="x" * 40,
        aws_session_token="t" * token_length,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    adds = [measured_tables.add(number, lines) for number in range(lines)]
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for add in adds:
            url = client.generate_presigned_url(
                "get_object", Params={"Bucket": "bench", "Key": f"logs/{add['path']}"}, ExpiresIn=3600
            )
            line = {
                "file": {
                    "url": url,
                    "id": str(add["path"]),
                    "partitionValues": add["partitionValues"],
                    "size": add["size"],
                    "stats": add["stats"],
                    "expirationTimestamp": 1,
                }
            }
            json.dumps(line).encode()
        best = min(best, time.process_time() - began)
    return {"us": best / lines * 1e6}


def main() -> None:
    """Run the competitor that the command line names, and print its results."""
    kind, *rest = sys.argv[1:]
    results = deltalake(rest[0], rest[1]) if kind == "deltalake" else presign(int(rest[0]), int(rest[1]))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
