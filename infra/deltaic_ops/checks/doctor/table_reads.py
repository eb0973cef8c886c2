"""Checks that shared tables can be read: each log with the operator's credentials, and one table over the endpoint."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
from delta_sharing_conformance.client import BOTH, SharingClient
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError

from deltaic_ops.checks.endpoint_checks import table
from deltaic_ops.inspection.filter_checks import READERS
from deltaic_ops.inspection.findings import Finding, Verdict, not_asked, ok, unread
from deltaic_ops.inspection.shared_schema import SharedSchema

Read = Callable[[Table], SharedSchema]
"""Reads the columns of a table; raises DeltaicError if it cannot."""

Heads = Mapping[str, SharedSchema | DeltaicError]
"""Columns of each table from its log, or the error, by full name of the table."""

ENOUGH_BYTES = 256_000
"""Smallest response that shows whether it is streamed."""

MOST_BYTES = 4_000_000
"""Size after which the doctor stops reading a response."""

LATE = 0.9
"""Share of the time to the last byte after which the first byte indicates a buffered response."""

SOON_SECONDS = 2.0
"""Responses that are faster than this may be buffered."""


def heads(tables: Sequence[Table], read: Read) -> Heads:
    """Read the logs of tables concurrently."""

    def head(table: Table) -> SharedSchema | DeltaicError:
        try:
            return read(table)
        except DeltaicError as refusal:
            return refusal

    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip((each.title for each in tables), pool.map(head, tables), strict=True))


def logs(heads: Heads) -> Iterator[Finding]:
    """Yield a finding for each table whose log could not be read, then one line for all others."""
    for name, head in heads.items():
        if isinstance(head, DeltaicError):
            remedy = f"deltaic table update {name} --location ..., or deltaic table delete {name}"
            yield unread(f"reads the log of {name}", head, remedy)
    if readable := sum(isinstance(head, SharedSchema) for head in heads.values()):
        yield ok("reads the logs of shared tables", f"{readable} of {len(heads)}")


def read(client: SharingClient, path: str, name: str, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Read a table as its recipient does: its version, a byte of a file, and the whole list of files."""
    holds = True
    for finding in table(client, path, name):
        holds &= finding.holds
        yield finding
    if holds:
        yield streams(client, path, name, parameters)


def streams(client: SharingClient, path: str, name: str, parameters: Mapping[str, str]) -> Finding:
    """Measure the times to the first and the last byte of a query's response."""
    check = f"streams responses for {name}"
    if parameters.get("ResponseStreaming") == "disabled":
        return ok(check, "buffered (ResponseStreaming=disabled), up to 6 MB")
    began, first, size = time.perf_counter(), 0.0, 0
    headers = {**client.headers(BOTH), "Accept-Encoding": "identity"}
    with client.http.stream("POST", f"{client.endpoint}{path}/query", json={}, headers=headers) as answer:
        for chunk in answer.iter_raw():
            first = first or time.perf_counter() - began
            size += len(chunk)
            if size >= MOST_BYTES:
                break
        last = time.perf_counter() - began
        announced = "content-length" in answer.headers
        status = answer.status_code
    times = f"first byte after {first:.2f} s, {size:,} bytes after {last:.2f} s"
    if status != httpx.codes.OK:
        return Finding(check, "failed", f"{status}", "check the log of the function query-table")
    if size < ENOUGH_BYTES:
        return not_asked(check, f"the response is too small to decide: {times}")
    verdict: Verdict = "failed" if announced or (first > LATE * last and last > SOON_SECONDS) else "ok"
    remedy = "check proxies, firewalls and CDNs that buffer responses, and the stack's ResponseStreaming"
    return Finding(check, verdict, times, remedy * (verdict == "failed"))
