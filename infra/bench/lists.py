"""Measures the lists of the command line over a large catalog: `uv run python -m bench.lists`.

Amazon's DynamoDB Local holds the catalog. Of each command it is told when its first row is there and when it has ended,
in seconds and as a ratio to a floor of the same run: a process that asks for one page of a list and prints it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import boto3
from deltaic.catalog import schema
from deltaic_ops.deploy.template import ROOT

from bench.catalog import Size, catalog, recipient_name, share_name, tokens, write

NAMES = {"CATALOG_TABLE": "catalog", "TOKENS_TABLE": "tokens"}
TOP, BIG, SHARE = recipient_name(0), share_name(0), share_name(7)
LINES = (
    "share list",
    f"share show {BIG}",
    f"schema list {SHARE}",
    f"table list {SHARE}",
    f"table show {SHARE}.schema_0.table_00000",
    f"table show {BIG}.schema_0.table_00000",
    f"view list {SHARE}",
    "view list",
    f"volume list {BIG}",
    f"skill list {SHARE}",
    f"model list {SHARE}",
    "storage list",
    "recipient list",
    f"recipient show {recipient_name(77)}",
    f"recipient show {TOP}",
    "recipient clients",
    "recipient policies",
    "recipient invites",
    f"token list {TOP}",
    "token list",
    "token list --ends-within 30d",
    f"grant list --recipient {TOP}",
    f"grant list --share {BIG}",
    "grant list",
    "expiring",
    f"access {TOP} {BIG}.schema_0.table_00000",
    f"access {recipient_name(77)} {SHARE}.schema_0.nothing",
    "share show shar_00007",
)
"""Commands that list, or that a mistake makes list."""

_FLOOR = """
import os
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.keys import recipients
from deltaic.storage.aws_client import catalog_client
client = catalog_client("us-east-1", os.environ["AWS_ENDPOINT_URL"])
for item in Dynamo(lambda: client).query(os.environ["CATALOG_TABLE"], recipients(), limit=100):
    print(item["name"])
"""
_COMMAND = (sys.executable, "-c", "from deltaic_ops.cli import main; main()")


def main() -> int:
    """Build the catalog, run the commands, print."""
    parser = argparse.ArgumentParser(prog="bench.lists", description=__doc__)
    parser.add_argument("--only", default="", help="only commands that have this text in them")
    parser.add_argument(
        "--runs", type=int, default=3, help="of each command, by turns with the floor; the quickest is told"
    )
    parser.add_argument("--json", action="store_true", help="measure what scripts get (--json)")
    said = parser.parse_args()
    with large_catalog() as (variables, folder):
        print(f"{'first row':>11}{'whole':>10}{'floor':>10}{'first row to floor':>20}")
        for line in LINES:
            if said.only in line:
                _print(line, [*line.split(), *(["--json"] if said.json else [])], variables, said.runs, folder)
    return 0


@contextmanager
def large_catalog() -> Iterator[tuple[dict[str, str], str]]:
    """Give the variables of a large catalog in a DynamoDB Local of its own, and an empty folder."""
    sys.path.insert(0, str(ROOT / "tests"))
    from catalog.dynamodb_local import started

    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as port:
        variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "us-east-1",
            **NAMES,
        }
        _build(variables)
        yield variables, folder


def _build(variables: Mapping[str, str]) -> None:
    began, size = time.monotonic(), Size()
    client = boto3.client(
        "dynamodb",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )
    schema.create(client, *NAMES.values())
    items = write(client, "catalog", catalog(size)) + write(client, "tokens", tokens(size))
    print(f"{size}: {items:,} items in {time.monotonic() - began:.0f} s", flush=True)


def _print(line: str, words: list[str], variables: Mapping[str, str], runs: int, folder: str) -> None:
    """Run a command by turns with the floor, and print the quickest of each: others may use the machine too."""
    found = [
        (_run([sys.executable, "-c", _FLOOR], variables, folder), _run([*_COMMAND, *words], variables, folder))
        for _ in range(runs)
    ]
    floor, (first, whole) = min(one[1] for one, _ in found), min(one for _, one in found)
    print(f"{first:9.2f} s{whole:8.2f} s{floor:8.2f} s{first / floor:18.1f} x  {line}", flush=True)


def _run(command: list[str], variables: Mapping[str, str], folder: str) -> tuple[float, float]:
    began = time.monotonic()
    with subprocess.Popen(
        command, env={**os.environ, **variables}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        out = cast("IO[bytes]", process.stdout)
        out.read(1)
        first = time.monotonic() - began
        out.read()
    return first, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
