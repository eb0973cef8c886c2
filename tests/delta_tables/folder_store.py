"""Table store on a folder, which records the requests of a test."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deltaic.delta.store import LogFile
from deltaic.storage.byte_ranges import coalesce, cut


@dataclass
class FolderStore:
    """TableStore on a folder. `calls` has a line for every request to an object store."""

    root: Path
    calls: list[str] = field(default_factory=list)

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        self.calls.append(f"list {start_after}")
        log = self.root / "_delta_log"
        names = sorted(path.name for path in log.iterdir() if path.is_file()) if log.is_dir() else []
        for name in names:
            if name > start_after:
                status = (log / name).stat()
                yield LogFile(name, status.st_size, status.st_mtime_ns // 1_000_000)

    def get(self, path: str) -> bytes:
        self.calls.append(f"get {path}")
        return self._read(path)

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.get(path) for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        merged = coalesce(ranges)
        self.calls += [f"range {path} {start}-{end}" for start, end in merged]
        content = self._read(path)
        return cut(ranges, merged, [content[start:end] for start, end in merged], path)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        self.calls.append(f"tail {path}")
        content = self._read(path)
        return content[-length:], len(content)

    def _read(self, path: str) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except OSError as missing:
            raise FileNotFoundError(path) from missing
