"""Check that shared tables can be read: logs with the operator's credentials, samples over the endpoint."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
from delta_sharing_conformance.client import BOTH, SharingClient
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError

from deltaic_ops.checks.endpoint_checks import check_table
from deltaic_ops.inspection.filter_checks import READERS
from deltaic_ops.inspection.findings import Finding, Verdict, not_tried, ok, unreadable_object
from deltaic_ops.inspection.shared_schema import SharedSchema

Read = Callable[[Table], SharedSchema]
"""Function that reads the columns of a table; raises DeltaicError."""

Schemas = Mapping[str, SharedSchema | DeltaicError]
"""Columns of each table from its Delta log, or the error, by full name of the table."""

ENOUGH_BYTES = 256_000
"""Minimum response size that shows whether responses are streamed; smaller ones arrive at once."""

MOST_BYTES = 4_000_000
"""Number of bytes after which the check stops reading a response."""

LATE = 0.9
"""If the first byte arrives after this fraction of the total time, the response was buffered."""

SOON_SECONDS = 2.0
"""Total time up to which a late first byte is no failure."""


def read_schemas(tables: Sequence[Table], read: Read) -> Schemas:
    """Read the Delta logs of tables concurrently; return columns or the error for each table."""

    def read_schema(table: Table) -> SharedSchema | DeltaicError:
        try:
            return read(table)
        except DeltaicError as refusal:
            return refusal

    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip((table.title for table in tables), pool.map(read_schema, tables), strict=True))


def check_logs(names: Sequence[str], schemas: Schemas) -> Iterator[Finding]:
    """Yield a finding for each named table whose log could not be read, then a passed one for all others."""
    errors = {name: schema for name in names if isinstance(schema := schemas[name], DeltaicError)}
    for name, error in errors.items():
        remedy = f"deltaic table update {name} --location ..., or deltaic table delete {name}"
        yield unreadable_object(f"reads the log of {name}", error, remedy)
    if len(errors) < len(names):
        yield ok("reads the logs of shared tables", f"{len(names) - len(errors)} of {len(names)}")


def check_table_read(client: SharingClient, path: str, name: str, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Check as a recipient a table's version, a byte of a file, and whether the list of files is streamed."""
    holds = True
    for finding in check_table(client, path, name):
        holds &= finding.holds
        yield finding
    if holds:
        yield check_streaming(client, path, name, parameters)


def check_streaming(client: SharingClient, path: str, name: str, parameters: Mapping[str, str]) -> Finding:
    """Check that the response to a query is streamed, by the times of its first and last byte."""
    check = f"streams responses for {name}"
    if parameters.get("ResponseStreaming") == "disabled":
        return ok(check, "buffered (ResponseStreaming=disabled), up to 6 MB")
    started_at, first_byte, size = time.perf_counter(), 0.0, 0
    headers = {**client.headers(BOTH), "Accept-Encoding": "identity"}
    with client.http.stream("POST", f"{client.endpoint}{path}/query", json={}, headers=headers) as response:
        for chunk in response.iter_raw():
            first_byte = first_byte or time.perf_counter() - started_at
            size += len(chunk)
            if size >= MOST_BYTES:
                break
        last_byte = time.perf_counter() - started_at
        has_length = "content-length" in response.headers
        status = response.status_code
    times = f"first byte after {first_byte:.2f} s, {size:,} bytes after {last_byte:.2f} s"
    if status != httpx.codes.OK:
        return Finding(check, "failed", f"{status}", "check the log of the function query-table")
    if size < ENOUGH_BYTES:
        return not_tried(check, f"the response is too small to decide: {times}")
    verdict: Verdict = "failed" if has_length or (first_byte > LATE * last_byte and last_byte > SOON_SECONDS) else "ok"
    remedy = "check proxies, firewalls and CDNs that buffer responses, and the stack's ResponseStreaming"
    return Finding(check, verdict, times, remedy * (verdict == "failed"))
