"""What the access log is told of a request: noted on its way, whatever becomes of it, and never a value of a reader's.

Names, numbers and the shape of predicates enter; tokens, URLs, credentials and the text of hints do not.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec


class Tally(msgspec.Struct):
    """What is counted while the lines of an answer are made: what was signed for whoever asked.

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


def stamp(seconds: float) -> str:
    """Return a time (seconds since the epoch) as signatures have it (`X-Amz-Date`), by which S3's log is joined."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"


class Access(msgspec.Struct):
    """One request's notes."""

    tally: Tally = msgspec.field(default_factory=Tally)
    _noted: dict[str, object] = msgspec.field(default_factory=dict)

    def note(self, **facts: object) -> None:
        """Remember facts by the names that the log gives them; what is None says nothing."""
        self._noted.update((name, value) for name, value in facts.items() if value is not None)

    def facts(self) -> Mapping[str, object]:
        """Return all of it."""
        return self._noted | self.tally.facts()
