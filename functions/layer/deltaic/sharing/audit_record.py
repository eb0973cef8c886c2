"""The audit record of a request: what the access log says of it, whatever becomes of it, and never a reader's value.

Names, numbers and redacted predicates enter; tokens, URLs, credentials and the text of hints do not.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec


class ResponseMetrics(msgspec.Struct):
    """Counts of what an answer's lines sign, made with them.

    Of an answer that was broken off it counts what was made, of which some lines may not have been taken.
    """

    files: int | None = None
    """Lines of files, removed ones and change data among them; None where no files are counted, or not yet."""
    bytes: int = 0
    """Sizes of those files, as the log tells them."""
    deletion_vectors: int = 0
    """Files of deletion vectors that were signed beside them."""
    change_files: int = 0
    """Those of the files that hold change data."""
    removed_files: int = 0
    """Those of the files that a commit took away."""
    other_lines: int = 0
    """Lines that name no file: protocol, metadata, the end."""

    def add(self, files: int, size: int) -> None:
        """Count files and their size."""
        self.files = (self.files or 0) + files
        self.bytes += size

    def facts(self) -> dict[str, object]:
        """Return what the log says of it."""
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
    """Return a time (seconds since the epoch) as signatures have it (`X-Amz-Date`), by which S3's log is joined."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"


class AuditRecord(msgspec.Struct):
    """Facts of one request, for the access log."""

    metrics: ResponseMetrics = msgspec.field(default_factory=ResponseMetrics)
    _facts: dict[str, object] = msgspec.field(default_factory=dict)
    _at_end: list[Callable[[ResponseMetrics], None]] = msgspec.field(default_factory=list)

    def add(self, **facts: object) -> None:
        """Remember facts by the names that the log gives them; what is None says nothing."""
        self._facts.update((name, value) for name, value in facts.items() if value is not None)

    def signed(self, session: str | None, at: float, until: float | None = None) -> None:
        """Remember in which session something was signed, when, and until when it holds, in seconds since the epoch.

        By these the lines of S3's access log are led back to this request (decision 60).
        """
        self.add(session=session, signedAt=_stamp(at), signedUntil=None if until is None else _stamp(until))

    def at_end(self, told: Callable[[ResponseMetrics], None]) -> None:
        """Have the counts told when the answer has ended, however it did; `told` must not raise."""
        self._at_end.append(told)

    def end(self) -> None:
        """Tell the counts to whoever wants them."""
        while self._at_end:
            self._at_end.pop()(self.metrics)

    def facts(self) -> Mapping[str, object]:
        """Return all of it."""
        return self._facts | self.metrics.facts()
