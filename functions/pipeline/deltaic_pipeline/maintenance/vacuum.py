"""Find the files of a table that no reader needs, from its log and its folder.

A file (data, change data or deletion vector) is needed if a version that readers can use contains it, or a commit that
they can read names it. Of the other files, only those are deleted that have a name like Delta's files and are older
than the retention window, so that concurrent writers lose nothing. Folders of nested tables are skipped.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, islice
from typing import IO

from deltaic.delta.commit_changes import FileChange, commit_changes
from deltaic.delta.commits import to_slices, to_windows
from deltaic.delta.deletion_vectors import file_path
from deltaic.delta.log_files import read_all_listed
from deltaic.delta.paths import CommitFile, read_listing
from deltaic.delta.segment import find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.errors import UnsupportedOperation
from deltaic.storage.locations import TableLocations

from deltaic_pipeline.maintenance.retention import Reader
from deltaic_pipeline.table.s3_folder import DELETED_AT_ONCE, S3Folder

LOG_FOLDER = "_delta_log"
CHANGE_DATA = "_change_data"
WRITTEN_BY_DELTA = (".parquet", ".bin")
"""Suffixes of data, change data and deletion vector files. Other files are never deleted."""

IN_MEMORY_BYTES = 16 << 20
COMMITS_AT_ONCE = 32

Names = set[int]
"""Digests of object names; in a collision, an unneeded file is kept, but no needed file is deleted."""

FileReference = tuple[str, tuple[str, str] | None]
"""Path of a file in the log, and the storage type and the path or content of its deletion vector."""


@dataclass(slots=True)
class Count:
    """Number and size of files."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more file of this size in bytes."""
        self.files += 1
        self.bytes += size


@dataclass(slots=True)
class FileCounts:
    """Counts of the files in a table's folder that are not part of the latest version."""

    kept: Count = field(default_factory=Count)
    """Files in older versions that readers can use, or in commits that they can read."""

    young: Count = field(default_factory=Count)
    """Files that no reader needs, but younger than the retention window: a writer can be about to commit them."""

    unneeded: Count = field(default_factory=Count)


@dataclass(frozen=True, slots=True)
class NeededFiles:
    """Digests of the names of needed files: in the latest version, and in older versions and commits."""

    latest: Names
    older: Names


def find_needed(store: TableStore, locations: TableLocations, readers: Sequence[Reader]) -> NeededFiles:
    """Return the files that the readers need; raises `DeltaicError` if the log is not completely readable.

    Needed files: those of the oldest version that readers need (or the oldest readable one), and all that later
    commits name. A million digests take some 100 MB of memory.
    """
    newest, older = Snapshot(store, find_segment(store)), Names()
    latest = Names(_digests(_snapshot_files(newest), locations))
    listing = read_listing(store.list_log())
    oldest = 0 if 0 in listing.commits else min(checkpoint.version for checkpoint in listing.checkpoints)
    first = min(reader.version for reader in readers)
    first_commit = min(reader.first_commit for reader in readers)
    if first < newest.version:
        older.update(_digests(_snapshot_files(Snapshot(store, find_segment(store, max(first, oldest)))), locations))
    candidates = chain(listing.commits.values(), listing.compactions)
    commits = [commit for commit in candidates if commit.end >= first_commit]
    for window in to_windows(commits, COMMITS_AT_ONCE):
        contents = read_all_listed(store, [commit.file for commit in window])
        for commit, content in zip(window, contents, strict=True):
            older.update(_digests(_commit_files(content, commit), locations))
    return NeededFiles(latest, older)


@contextmanager
def list_unneeded(
    folder: S3Folder, needed: NeededFiles, older_than: int
) -> Iterator[tuple[FileCounts, Iterator[Sequence[str]]]]:
    """List the folder once; yield the counts, and the names of unneeded files in batches for one request each.

    Unneeded files were modified before `older_than` (milliseconds since the epoch). Their names are stored in a
    temporary file, not in memory.
    """
    counts = FileCounts()
    tables: set[str] = set()
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, mode="w+", encoding="utf-8", newline="\n") as spool:
        for stored in folder.objects():
            parent, _, below = stored.name.partition(f"/{LOG_FOLDER}/")
            if below:
                tables.add(f"{parent}/")
            elif not _has_delta_name(stored.name) or _digest(stored.name) in needed.latest:
                continue
            elif _digest(stored.name) in needed.older:
                counts.kept.add(stored.size)
            elif stored.modified >= older_than:
                counts.young.add(stored.size)
            elif "\n" not in stored.name:
                spool.write(f"{stored.size} {stored.name}\n")
        for size, _ in _spooled(spool, tables):
            counts.unneeded.add(size)
        yield counts, _batches(name for _, name in _spooled(spool, tables))


def _snapshot_files(snapshot: Snapshot) -> Iterator[FileReference]:
    for batch in snapshot.files():
        for path, vector in zip(batch["path"].to_pylist(), batch["deletionVector"].to_pylist(), strict=True):
            yield path, None if vector is None else (vector["storageType"], vector["pathOrInlineDv"])


def _commit_files(content: bytes, commit: CommitFile) -> Iterator[FileReference]:
    for change in chain.from_iterable(commit_changes(piece, commit.path, 0, 0).actions for piece in to_slices(content)):
        if isinstance(change, FileChange):
            vector = change.deletion_vector
            yield change.path, None if vector is None else (vector.storage_type, vector.path_or_inline_dv)


def _digests(files: Iterable[FileReference], locations: TableLocations) -> Iterator[int]:
    prefix_length = len(locations.root.key_prefix)
    for path, vector in files:
        with suppress(UnsupportedOperation):  # it is in another location, where nothing is deleted
            yield _digest(locations.resolve(path).key[prefix_length:])
        if vector is not None and (file := file_path(*vector)) is not None:
            with suppress(UnsupportedOperation):
                yield _digest(locations.object_name(file).key[prefix_length:])


def _has_delta_name(name: str) -> bool:
    *folders, file = name.split("/")
    hidden = any(folder.startswith(("_", ".")) and "=" not in folder and folder != CHANGE_DATA for folder in folders)
    return not hidden and file.endswith(WRITTEN_BY_DELTA) and not file.startswith(("_", "."))


def _spooled(spool: IO[str], tables: set[str]) -> Iterator[tuple[int, str]]:
    """Yield size and name of the files in the temporary list, without files in the folders of nested tables."""
    spool.seek(0)
    for line in spool:
        size, _, name = line.rstrip("\n").partition(" ")
        parents = (name[: position + 1] for position, character in enumerate(name) if character == "/")
        if not any(folder in tables for folder in parents):
            yield int(size), name


def _batches(names: Iterator[str]) -> Iterator[Sequence[str]]:
    while batch := list(islice(names, DELETED_AT_ONCE)):
        yield batch


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
