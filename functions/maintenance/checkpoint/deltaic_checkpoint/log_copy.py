"""A copy of the end of a log in a folder of this machine: what is done there reaches the table only when it is sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltaic.delta.log_files import read_all_listed
from deltaic.delta.paths import LOG
from deltaic.delta.segment import Segment
from deltaic.delta.store import LogFile, TableStore


@dataclass(frozen=True, slots=True)
class LogCopy:
    """A table of which only the log is there: a `TableStore` in a folder."""

    root: Path

    @classmethod
    def of(cls, store: TableStore, segment: Segment, root: Path) -> "LogCopy":
        """Copy the files that make a version into `root`; raises what the store raises."""
        files = [*(segment.checkpoint.files if segment.checkpoint else ()), *(one.file for one in segment.commits)]
        copy = cls(root)
        copy.log.mkdir()
        for file, content in zip(files, read_all_listed(store, files), strict=True):
            (copy.log / file.name).write_bytes(content)
        return copy

    @property
    def log(self) -> Path:
        """The folder of the log."""
        return self.root / LOG

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """See `TableStore`."""
        for path in sorted(self.log.iterdir()):
            if path.is_file() and path.name > start_after:
                found = path.stat()
                yield LogFile(path.name, found.st_size, found.st_mtime_ns // 1_000_000)

    def get(self, path: str) -> bytes:
        """See `TableStore`."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError as missing:
            raise FileNotFoundError(path) from missing

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """See `TableStore`."""
        return [self.get(path) for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `TableStore`."""
        content = self.get(path)
        return [content[start:end] for start, end in ranges]

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """See `TableStore`."""
        content = self.get(path)
        return content[-length:], len(content)
