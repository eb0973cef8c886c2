"""Whether a shared table can be read through the endpoint: its log, a file's byte, a whole answer as it comes."""

import time
from collections.abc import Iterator, Mapping

import httpx

from deltaic_ops.doctor.findings import Finding, Verdict, judged, not_asked, ok
from deltaic_ops.verify import Caller, table

ENOUGH_BYTES = 256_000
"""What an answer must have for its beginning to be told from its end."""

MOST_BYTES = 4_000_000
"""After which the doctor has seen enough of it."""

LATE = 0.9
"""Share of the time to the last byte at which the first one is as late as if somebody had waited for the last."""

SOON_SECONDS = 2.0
"""Until when an answer may come at once."""


def read(caller: Caller, path: str, name: str, parameters: Mapping[str, str]) -> Iterator[Finding]:
    """Read one table as its recipient does: the version from its log, a byte of a file, the whole list of files."""
    whole = True
    for seen in table(caller, path, name):
        whole &= seen.holds
        yield judged(seen.check, seen.said, seen.remedy, holds=seen.holds)
    if whole:
        yield streams(caller, path, name, parameters)


def streams(caller: Caller, path: str, name: str, parameters: Mapping[str, str]) -> Finding:
    """Measure when the first byte of a query's answer comes, against its last."""
    check = f"streams the answer for {name}"
    if parameters.get("ResponseStreaming") == "disabled":
        return ok(check, "buffered, as ResponseStreaming=disabled says: 6 MB at most")
    began, first, size = time.perf_counter(), 0.0, 0
    with caller.stream(path) as answer:
        for chunk in answer.iter_raw():
            first = first or time.perf_counter() - began
            size += len(chunk)
            if size >= MOST_BYTES:
                break
        last = time.perf_counter() - began
        announced = "content-length" in answer.headers
        status = answer.status_code
    said = f"first byte after {first:.2f} s, {size:,} bytes after {last:.2f} s"
    if status != httpx.codes.OK:
        return Finding(check, "failed", f"{status}", "the log of the function query-table")
    if size < ENOUGH_BYTES:
        return not_asked(check, f"the answer is too small to tell: {said}")
    verdict: Verdict = "failed" if announced or (first > LATE * last and last > SOON_SECONDS) else "ok"
    remedy = "what stands between: a proxy, a firewall or a CDN that buffers; the stack's ResponseStreaming"
    return Finding(check, verdict, said, remedy * (verdict == "failed"))
