"""The file names below `_delta_log/` and what they mean; every name that is not listed here means nothing to a reader.

Delta protocol, "File Types": commits, checkpoints (classic, multi-part, v2), log compaction files, version checksums
and the last-checkpoint hint. Staged commits, vacuum records and half-written files are other people's business.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from deltaic.delta.store import LogFile
from deltaic.errors import UnsupportedOperation

LOG: Final = "_delta_log/"
"""The folder of the log, below the table's root."""

SIDECARS: Final = LOG + "_sidecars/"
"""The folder of v2 checkpoints' sidecar files (Delta protocol, "Sidecar Files")."""

LAST_CHECKPOINT: Final = LOG + "_last_checkpoint"
"""The hint that saves listing a long log; it may be stale, wrong or absent."""

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


class Commit(msgspec.Struct, frozen=True):
    """One table version's own file, `N.json`, or a log compaction file `x.y.compacted.json` that stands for several."""

    start: int
    end: int
    file: LogFile

    @property
    def path(self) -> str:
        """Path below the table's root."""
        return LOG + self.file.name


class Checkpoint(msgspec.Struct, frozen=True):
    """The complete top-level files of one checkpoint, in part order.

    `rank` orders checkpoints of one version: classic below multi-part below v2; the highest is read. Any would do,
    because all describe the same version.
    """

    version: int
    rank: int
    files: tuple[LogFile, ...]

    @property
    def identity(self) -> str:
        """Name this very checkpoint: it changes when the checkpoint is rewritten, split or replaced."""
        return f"{self.version}-{fingerprint(*self.files)}"


def fingerprint(*files: LogFile) -> str:
    """Return a short digest of files of the log as they were listed; it changes when one of them is replaced."""
    text = "".join(f"{file.name}\n{file.size}\n{file.modified}\n{file.etag}\n" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class LogListing(msgspec.Struct, frozen=True):
    """What one listing of a log says, by kind; checkpoints are complete and ordered by (version, rank)."""

    commits: dict[int, Commit]
    compactions: tuple[Commit, ...]
    checkpoints: tuple[Checkpoint, ...]
    checksums: dict[int, LogFile]

    @property
    def latest(self) -> int | None:
        """The newest version that a commit or a complete checkpoint makes; None for an empty log."""
        newest = [*self.commits] + [checkpoint.version for checkpoint in self.checkpoints[-1:]]
        return max(newest, default=None)


def version_prefix(version: int) -> str:
    """Return what every name of this version starts with; as `start_after` it lists this version and all later."""
    return f"{version:020d}"


def read_listing(files: Iterable[LogFile], *, until: int | None = None) -> LogListing:
    """Sort a listing (in name order) into kinds, reading no further than version `until`."""
    commits: dict[int, Commit] = {}
    compactions: list[Commit] = []
    checksums: dict[int, LogFile] = {}
    whole: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in _in_order(files):
        match = _VERSIONED.fullmatch(file.name)
        if match is None:
            continue
        version = int(match["version"])
        if until is not None and version > until:
            break
        if not file.size and not (match["commit"] or match["checksum"]):
            continue  # a checkpoint or compaction file that was never written: Spark and the kernels ignore it too
        if match["commit"]:
            commits[version] = Commit(version, version, file)
        elif match["checksum"]:
            checksums[version] = file
        elif match["end"]:
            compactions.append(Commit(version, int(match["end"]), file))
        elif match["classic"]:
            whole.append(Checkpoint(version, 0, (file,)))
        elif match["unique"]:
            whole.append(Checkpoint(version, 2, (file,)))
        else:
            parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
    for (version, count), found in parts.items():
        # Delta protocol, "Multi-part checkpoint": parts are written one by one, so some may be missing.
        if found.keys() == set(range(1, count + 1)):
            whole.append(Checkpoint(version, 1, tuple(found[part] for part in range(1, count + 1))))
    whole.sort(key=lambda checkpoint: (checkpoint.version, checkpoint.rank, len(checkpoint.files), checkpoint.files))
    return LogListing(commits, tuple(compactions), tuple(whole), checksums)


def _in_order(files: Iterable[LogFile]) -> Iterator[LogFile]:
    """Yield the files of a listing; raises UnsupportedOperation for a store that does not list them by name."""
    previous = ""
    for file in files:
        if file.name < previous:
            raise UnsupportedOperation(
                "the storage of this table does not list files by name, as S3 directory buckets do not: its provider "
                "must move the table to a general purpose bucket"
            )
        previous = file.name
        yield file
