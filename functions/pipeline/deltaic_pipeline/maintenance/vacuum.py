"""Decides which files of a table nobody can need any more, by the log and the folder, and deletes those alone.

A file stays if a version that somebody may read has it, or a commit that somebody may follow names it: data, change
data and deletion vectors. Of the others only those go that a Delta writer makes and that are older than the window, so
that a writer that is at work, with a lease or without, loses nothing. What lies in another table's folder is not ours.
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
from deltaic.delta.deletion_vectors import DeletionVector, file_path
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
"""Data, change data and deletion vectors. A text that somebody has put beside them is somebody's."""

IN_MEMORY_BYTES = 16 << 20
COMMITS_AT_ONCE = 32


Names = set[int]
"""Object names by their digests: two that collide keep a file too many, and never one too few."""

Named = tuple[str, tuple[str, str] | None]
"""A file's path as the log has it, and of its deletion vector the storage type and the path or content."""


@dataclass(slots=True)
class Count:
    """Some files."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one file more."""
        self.files += 1
        self.bytes += size


@dataclass(slots=True)
class Sorted:
    """What a listing of the folder has found; what is part of the latest version is not counted."""

    kept: Count = field(default_factory=Count)
    """Needed by older versions, or by commits that can be followed."""

    young: Count = field(default_factory=Count)
    """Needed by nobody, and younger than the window: a writer may be about to commit it."""

    unneeded: Count = field(default_factory=Count)


@dataclass(frozen=True, slots=True)
class Needed:
    """The files that must stay."""

    latest: Names
    others: Names


def needed(store: TableStore, locations: TableLocations, readers: Sequence[Reader]) -> Needed:
    """Read the log for the files that the readers need; raises `DeltaicError` where it cannot be read in full.

    The oldest version of all readers, or the oldest that can still be made, is replayed; of later commits everything
    that they name is kept. Names are held by digests, a million in some 100 MB.
    """
    newest, others = Snapshot(store, find_segment(store)), Names()
    latest = Names(_digests(_live(newest), locations))
    listing = read_listing(store.list_log())
    oldest = 0 if 0 in listing.commits else min(checkpoint.version for checkpoint in listing.checkpoints)
    first = min(reader.version for reader in readers)
    first_commit = min(reader.first_commit for reader in readers)
    if first < newest.version:
        others.update(_digests(_live(Snapshot(store, find_segment(store, max(first, oldest)))), locations))
    commits = [one for one in chain(listing.commits.values(), listing.compactions) if one.end >= first_commit]
    for window in to_windows(commits, COMMITS_AT_ONCE):
        contents = read_all_listed(store, [commit.file for commit in window])
        for commit, content in zip(window, contents, strict=True):
            others.update(_digests(_named(content, commit), locations))
    return Needed(latest, others)


@contextmanager
def unneeded(folder: S3Folder, stays: Needed, older_than: int) -> Iterator[tuple[Sorted, Iterator[Sequence[str]]]]:
    """List the folder once; give the counts, and the names of what nobody needs, a request's worth at a time.

    `older_than` is in milliseconds since the epoch. Names wait in a file, not in memory.
    """
    counts = Sorted()
    tables: set[str] = set()
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, mode="w+", encoding="utf-8", newline="\n") as spool:
        for stored in folder.objects():
            above, _, beneath = stored.name.partition(f"/{LOG_FOLDER}/")
            if beneath:
                tables.add(f"{above}/")
            elif not _is_ours(stored.name) or _digest(stored.name) in stays.latest:
                continue
            elif _digest(stored.name) in stays.others:
                counts.kept.add(stored.size)
            elif stored.modified >= older_than:
                counts.young.add(stored.size)
            elif "\n" not in stored.name:
                spool.write(f"{stored.size} {stored.name}\n")
        for size, _ in _others(spool, tables):
            counts.unneeded.add(size)
        yield counts, _batches(name for _, name in _others(spool, tables))


def _live(snapshot: Snapshot) -> Iterator[Named]:
    for batch in snapshot.files():
        for path, vector in zip(batch["path"].to_pylist(), batch["deletionVector"].to_pylist(), strict=True):
            yield path, None if vector is None else (vector["storageType"], vector["pathOrInlineDv"])


def _named(content: bytes, commit: CommitFile) -> Iterator[Named]:
    for change in chain.from_iterable(commit_changes(piece, commit.path, 0, 0).actions for piece in to_slices(content)):
        if isinstance(change, FileChange):
            vector: DeletionVector | None = getattr(change.action, "deletion_vector", None)
            yield change.action.path, None if vector is None else (vector.storage_type, vector.path_or_inline_dv)


def _digests(named: Iterable[Named], locations: TableLocations) -> Iterator[int]:
    above = len(locations.root.key_prefix)
    for path, vector in named:
        with suppress(UnsupportedOperation):  # it lies elsewhere, where nothing is deleted
            yield _digest(locations.resolve(path).key[above:])
        if vector is not None and (file := file_path(*vector)) is not None:
            with suppress(UnsupportedOperation):
                yield _digest(locations.object_name(file).key[above:])


def _is_ours(name: str) -> bool:
    *folders, file = name.split("/")
    hidden = any(folder.startswith(("_", ".")) and "=" not in folder and folder != CHANGE_DATA for folder in folders)
    return not hidden and file.endswith(WRITTEN_BY_DELTA) and not file.startswith(("_", "."))


def _others(spool: IO[str], tables: set[str]) -> Iterator[tuple[int, str]]:
    """Yield what was written down, but for what lies in a folder that is a table of its own."""
    spool.seek(0)
    for line in spool:
        size, _, name = line.rstrip("\n").partition(" ")
        above = (name[: at + 1] for at, character in enumerate(name) if character == "/")
        if not any(folder in tables for folder in above):
            yield int(size), name


def _batches(names: Iterator[str]) -> Iterator[Sequence[str]]:
    while batch := list(islice(names, DELETED_AT_ONCE)):
        yield batch


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
