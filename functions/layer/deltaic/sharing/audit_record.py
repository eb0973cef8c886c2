"""Audit record: what the access log records about one request, whether it succeeds or fails.

It contains names, numbers and redacted predicates; never tokens, URLs, credentials or literals of predicate hints.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec


class ResponseMetrics(msgspec.Struct):
    """Counts of the lines and files of a response, updated as lines are created.

    If the response fails midway, the counts include lines that the client may not have received.
    """

    files: int | None = None
    """Number of file lines, including removed files and change data; None until file lines are rendered."""
    bytes: int = 0
    """Total size of the counted `files` in bytes, according to the Delta log."""
    deletion_vectors: int = 0
    """Number of signed URLs of deletion vectors, in addition to `files`."""
    change_files: int = 0
    """How many of `files` are change data files (cdc actions)."""
    removed_files: int = 0
    """How many of `files` are removed files (remove actions)."""
    other_lines: int = 0
    """Number of lines without a file: protocol, metadata and end of stream."""

    def add(self, files: int, size: int) -> None:
        """Add a number of files and their total size in bytes to the counts."""
        self.files = (self.files or 0) + files
        self.bytes += size

    def facts(self) -> dict[str, object]:
        """Return the counts for the access log, as a dict from field name to count."""
        if self.files is None:
            return {"lines": self.other_lines} if self.other_lines else {}
        return {
            "files": self.files,
            "bytes": self.bytes,
            "deletionVectors": self.deletion_vectors,
            "changeFiles": self.change_files,
            "removedFiles": self.removed_files,
            "lines": self.files + self.other_lines,
        }


def _stamp(seconds: float) -> str:
    """Format a time (seconds since the epoch) as `X-Amz-Date` does, to compare it with S3's access log."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"


class AuditRecord(msgspec.Struct):
    """Collector of what the access log records about one request."""

    metrics: ResponseMetrics = msgspec.field(default_factory=ResponseMetrics)
    _facts: dict[str, object] = msgspec.field(default_factory=dict)
    _at_end: list[Callable[[ResponseMetrics], None]] = msgspec.field(default_factory=list)

    def add(self, **facts: object) -> None:
        """Add fields to the access log line of this request; skip values that are None."""
        self._facts.update((name, value) for name, value in facts.items() if value is not None)

    def add_signing(self, session: str | None, at: float, until: float | None = None) -> None:
        """Add the session name, time and expiry of signed URLs; times are seconds since the epoch.

        S3's access log has the same values, so that its lines can be joined with this request (decision 60).
        """
        self.add(session=session, signedAt=_stamp(at), signedUntil=None if until is None else _stamp(until))

    def at_end(self, callback: Callable[[ResponseMetrics], None]) -> None:
        """Call `callback`, which must not raise, with the final counts when the response ends or fails."""
        self._at_end.append(callback)

    def end(self) -> None:
        """Call the callbacks that were registered with `at_end`, each once."""
        while self._at_end:
            self._at_end.pop()(self.metrics)

    def facts(self) -> Mapping[str, object]:
        """Return all fields and counts by field name of the access log."""
        return self._facts | self.metrics.facts()
