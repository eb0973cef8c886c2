"""Measures the console's pages over a large catalog: `uv run python -m bench.console`.

Amazon's DynamoDB Local holds the catalog, and the command itself serves. Of each page it is told how long it took the
first time and at best, in seconds and as a ratio to a floor of the same run: one page of a list, over an open
connection. No table has a log, so that pages of logs say so.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.keys import recipients
from deltaic.storage.aws_client import CATALOG, AwsClient
from deltaic.storage.aws_credentials import Credentials

from bench.lists import BIG, NAMES, SHARE, TOP, large_catalog

TABLE = f"{SHARE}.schema_0.table_00000"
PAGES = (
    "/shares",
    "/shares?after=share_00500",
    "/shares?begins=share_009",
    f"/share?share={BIG}",
    f"/holders?share={BIG}",
    f"/schema?share={SHARE}&schema=schema_0",
    f"/table?table={TABLE}",
    f"/versions?table={TABLE}",
    f"/partitions?table={TABLE}",
    f"/preview?table={TABLE}",
    f"/preview?table={TABLE}&recipient={TOP}",
    "/recipients",
    "/recipients?after=recipient_02500",
    "/recipients?begins=recipient_04",
    f"/recipient?recipient={TOP}",
    f"/seen?recipient={TOP}",
    "/usage",
    "/views",
    "/views?after=share_00500",
    "/ends",
    "/findings",
    f"/action?action=invite&recipient={TOP}",
    f"/action?action=cut-off&recipient={TOP}",
    f"/action?action=grant&planned=yes&recipient=recipient_00077&share={BIG}",
    f"/action?action=filter&planned=yes&table={BIG}.schema_0.table_00000&filter=a+=+1",
)
WORK = ("/ends",)
"""What a form begins, and runs beside the pages."""


def main() -> int:
    """Build the catalog, serve it, ask for every page, print."""
    parser = argparse.ArgumentParser(prog="bench.console", description=__doc__)
    parser.add_argument("--only", default="", help="only pages that have this text in their address")
    parser.add_argument("--runs", type=int, default=5, help="of each page, by turns with the floor")
    said = parser.parse_args()
    with large_catalog() as (variables, folder), _let_in(variables, folder) as http:
        floor = _floor(variables["AWS_ENDPOINT_URL"])
        print(f"{'first':>10}{'best':>10}{'floor':>10}{'best to floor':>15}", flush=True)
        for page in PAGES:
            if said.only in page:
                _print(page, http, floor, said.runs)
        for page in WORK:
            _print_work(page, http)
    return 0


@contextmanager
def _let_in(variables: Mapping[str, str], folder: str) -> Iterator[httpx.Client]:
    """Serve the console, and give a client that it has let in."""
    line = [sys.executable, "-c", "from deltaic_ops.cli import main; main()", "console", "--no-open"]
    # Without it a stack would be asked for, and DynamoDB Local knows none.
    told = {**os.environ, **variables, "DELTAIC_ENDPOINT": "http://127.0.0.1:1"}
    with subprocess.Popen(line, env=told, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None  # noqa: S101 -- it is piped
        address, _, key = running.stdout.readline().strip().partition("/#")
        with httpx.Client(base_url=address, headers={"Origin": address}, timeout=60) as http:
            http.post("/enter", data={"key": key})
            yield http
        running.terminate()


def _floor(endpoint: str) -> Callable[[], float]:
    keys = Credentials("local", "local", "")

    def connect() -> Any:
        return AwsClient("dynamodb", "us-east-1", endpoint, timeouts=CATALOG, credentials=lambda: keys)

    dynamo = Dynamo(connect)

    def one_page() -> float:
        began = time.perf_counter()
        list(islice(dynamo.query(NAMES["CATALOG_TABLE"], recipients(), limit=51), 51))
        return time.perf_counter() - began

    one_page()
    return one_page


def _print(page: str, http: httpx.Client, floor: Callable[[], float], runs: int) -> None:
    times, floors, waits = [], [], 0
    for _ in range(runs):
        floors.append(floor())
        began = time.perf_counter()
        answer = http.get(page)
        times.append(time.perf_counter() - began)
        waits += "refresh" in answer.headers
    ratio = min(times) / min(floors)
    told = f", {waits} of {runs} with a bar" if waits else ""
    print(
        f"{times[0]:8.3f} s{min(times):8.3f} s{min(floors):8.3f} s{ratio:13.1f} x  {page} ({answer.status_code}{told})",
        flush=True,
    )


def _print_work(page: str, http: httpx.Client) -> None:
    """Print how long a work takes that a form begins."""
    token = http.get("/shares").text.partition('name="token" value="')[2].partition('"')[0]
    began = time.perf_counter()
    http.post(page, data={"token": token})
    while "refresh" in http.get(page).headers:
        time.sleep(0.2)
    print(f"{time.perf_counter() - began:8.2f} s beside the pages: {page}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
