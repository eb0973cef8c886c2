"""Audit record of a request: its facts for the access log, whether it succeeds or fails.

It contains names, numbers and redacted predicates; never tokens, URLs, credentials or the text of hints.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec


class ResponseMetrics(msgspec.Struct):
    """Counts of the signed lines of an answer, updated as lines are created.

    If the answer fails midway, the counts include lines that the client may not have received.
    """

    files: int | None = None
    """File lines, including removed files and change data; None before files are counted."""
    bytes: int = 0
    """Total size of those files according to the log."""
    deletion_vectors: int = 0
    """Signed deletion vector files, in addition to `files`."""
    change_files: int = 0
    """How many of `files` contain change data."""
    removed_files: int = 0
    """How many of `files` a commit removed."""
    other_lines: int = 0
    """Lines without a file: protocol, metadata, end of stream."""

    def add(self, files: int, size: int) -> None:
        """Add files and their total size."""
        self.files = (self.files or 0) + files
        self.bytes += size

    def facts(self) -> dict[str, object]:
        """Return the counts by their names in the access log."""
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
    """Return a time (seconds since the epoch) as in `X-Amz-Date`, to join with S3's access log."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"


class AuditRecord(msgspec.Struct):
    """Facts of one request, for the access log."""

    metrics: ResponseMetrics = msgspec.field(default_factory=ResponseMetrics)
    _facts: dict[str, object] = msgspec.field(default_factory=dict)
    _at_end: list[Callable[[ResponseMetrics], None]] = msgspec.field(default_factory=list)

    def add(self, **facts: object) -> None:
        """Add facts by their names in the access log; skip values that are None."""
        self._facts.update((name, value) for name, value in facts.items() if value is not None)

    def add_signing(self, session: str | None, at: float, until: float | None = None) -> None:
        """Add the session, time and expiry of a signature; times are seconds since the epoch.

        These facts link the lines of S3's access log to this request (decision 60).
        """
        self.add(session=session, signedAt=_stamp(at), signedUntil=None if until is None else _stamp(until))

    def at_end(self, callback: Callable[[ResponseMetrics], None]) -> None:
        """Call `callback`, which must not raise, with the counts when the answer ends or fails."""
        self._at_end.append(callback)

    def end(self) -> None:
        """Call the callbacks of `at_end`, each once."""
        while self._at_end:
            self._at_end.pop()(self.metrics)

    def facts(self) -> Mapping[str, object]:
        """Return all facts and counts."""
        return self._facts | self.metrics.facts()
