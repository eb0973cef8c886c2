"""File names in `_delta_log/` and their meaning; readers ignore all other names.

Delta protocol, "File Types": commits, checkpoints (classic, multi-part, v2), log compaction files, version checksums
and the last-checkpoint hint. Staged commits, vacuum records and incomplete files are ignored.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from deltaic.delta.store import LogFile
from deltaic.errors import UnsupportedOperation

LOG: Final = "_delta_log/"
"""Folder of the log, relative to the table's root."""

SIDECARS: Final = LOG + "_sidecars/"
"""Folder of the sidecar files of v2 checkpoints (Delta protocol, "Sidecar Files")."""

LAST_CHECKPOINT: Final = LOG + "_last_checkpoint"
"""File with a checkpoint version, from which a log listing can start; can be outdated, wrong or missing."""

_VERSIONED: Final = re.compile(
    r"""(?P<version>\d{20})\.(?:
        (?P<commit>json)
      | (?P<checksum>crc)
      | (?P<end>\d{20})\.compacted\.json
      | checkpoint\.(?:
            (?P<classic>parquet)
          | (?P<part>\d{10})\.(?P<parts>\d{10})\.parquet
          | (?P<unique>[^.]+)\.(?P<form>json|parquet)
        )
    )""",
    re.VERBOSE | re.ASCII,
)


class CommitFile(msgspec.Struct, frozen=True):
    """A commit file `N.json`, or a log compaction file `x.y.compacted.json` that replaces several."""

    start: int
    end: int
    file: LogFile

    @property
    def path(self) -> str:
        """Path relative to the table's root."""
        return LOG + self.file.name


class CheckpointFiles(msgspec.Struct, frozen=True):
    """Complete top-level files of one checkpoint, in part order.

    `rank` orders the checkpoints of a version: classic, multi-part, v2. The reader uses the highest rank; all of them
    describe the same version.
    """

    version: int
    rank: int
    files: tuple[LogFile, ...]

    @property
    def identity(self) -> str:
        """Key of this checkpoint, which changes if the checkpoint is rewritten, split or replaced."""
        return f"{self.version}-{fingerprint(*self.files)}"


def fingerprint(*files: LogFile) -> str:
    """Return a short digest of listed log files, which changes if one of the files is replaced."""
    text = "".join(f"{file.name}\n{file.size}\n{file.modified}\n{file.etag}\n" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class LogListing(msgspec.Struct, frozen=True):
    """Files of one log listing by kind; checkpoints are complete and ordered by (version, rank)."""

    commits: dict[int, CommitFile]
    compactions: tuple[CommitFile, ...]
    checkpoints: tuple[CheckpointFiles, ...]
    checksums: dict[int, LogFile]

    @property
    def latest(self) -> int | None:
        """Latest version with a commit or a complete checkpoint; None for an empty log."""
        newest = [*self.commits] + [checkpoint.version for checkpoint in self.checkpoints[-1:]]
        return max(newest, default=None)


def version_prefix(version: int) -> str:
    """Return the common prefix of a version's file names; a log listing from there on begins with this version."""
    return f"{version:020d}"


def read_listing(files: Iterable[LogFile], *, until: int | None = None) -> LogListing:
    """Group a listing (in lexicographic order) by kind of file, and stop after version `until`."""
    commits: dict[int, CommitFile] = {}
    compactions: list[CommitFile] = []
    checksums: dict[int, LogFile] = {}
    complete: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in _check_order(files):
        match = _VERSIONED.fullmatch(file.name)
        if match is None:
            continue
        version = int(match["version"])
        if until is not None and version > until:
            break
        if not file.size and not (match["commit"] or match["checksum"]):
            continue  # an empty checkpoint or compaction file is incomplete; Spark and the kernels ignore it too
        if match["commit"]:
            commits[version] = CommitFile(version, version, file)
        elif match["checksum"]:
            checksums[version] = file
        elif match["end"]:
            compactions.append(CommitFile(version, int(match["end"]), file))
        elif match["classic"]:
            complete.append(CheckpointFiles(version, 0, (file,)))
        elif match["unique"]:
            complete.append(CheckpointFiles(version, 2, (file,)))
        else:
            parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
    for (version, count), part_files in parts.items():
        # Delta protocol, "Multi-part checkpoint": parts are written one by one, so some can be missing.
        if len(part_files) == count and min(part_files) == 1 and max(part_files) == count:
            complete.append(CheckpointFiles(version, 1, tuple(part_files[part] for part in range(1, count + 1))))
    complete.sort(key=lambda checkpoint: (checkpoint.version, checkpoint.rank, len(checkpoint.files), checkpoint.files))
    return LogListing(commits, tuple(compactions), tuple(complete), checksums)


def _check_order(files: Iterable[LogFile]) -> Iterator[LogFile]:
    """Yield the files of a listing; raises UnsupportedOperation if they are not in lexicographic order."""
    previous = ""
    for file in files:
        if file.name < previous:
            raise UnsupportedOperation(
                "the storage of this table does not list files in lexicographic order, as in S3 directory buckets: its "
                "provider must move the table to a general purpose bucket"
            )
        previous = file.name
        yield file
