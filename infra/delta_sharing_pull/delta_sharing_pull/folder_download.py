"""Download the new and changed objects of a shared folder to a local folder."""

import errno
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from delta_sharing_pull.downloads import ObjectChanged, UrlRefused, save
from delta_sharing_pull.errors import Conflict, PullError
from delta_sharing_pull.folder_lock import lock_folder
from delta_sharing_pull.folder_readers import FolderReader, ReadableObject
from delta_sharing_pull.object_index import DownloadedObject, ObjectIndex
from delta_sharing_pull.object_names import folded, is_case_sensitive, local_path
from delta_sharing_pull.progress import Progress
from delta_sharing_pull.responses import SharedObject
from delta_sharing_pull.retries import retry

_INVALID_PATH: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG})
"""Operating system errors for a path that conflicts with a folder or file, or that is too long."""

_ATTEMPTS: Final = 5
_BATCH_OBJECTS, _BATCH_BYTES = 32, 32 << 20
_MAX_SKIPPED_NAMES: Final = 20


@dataclass
class FolderResult:
    """Result of one download of a folder. Its fields are the output of `--json`."""

    files: int = 0
    """Number of objects that match --include and have a valid file name."""
    fetched: int = 0
    """Number of objects that were downloaded because they are new or have changed."""
    unnamed: int = 0
    """Number of objects that were skipped because their names are not valid file names."""
    names: list[str] = field(default_factory=list)
    """Names of the first objects that were skipped, for messages."""

    def skip(self, name: str) -> None:
        """Count an object that was skipped, and record its name if it is among the first."""
        self.unnamed += 1
        if len(self.names) < _MAX_SKIPPED_NAMES:
            self.names.append(name)


class FolderDownload:
    """One download of a shared folder to a local folder."""

    def __init__(self, reader: FolderReader, folder: Path, include: Sequence[str], progress: Progress) -> None:
        self._reader = reader
        self._folder = folder
        self._include = include
        self._progress = progress

    def run(self) -> FolderResult:
        """Download new and changed objects. Other files in the local folder stay unchanged."""
        result = FolderResult()
        with lock_folder(self._folder) as state, closing(ObjectIndex(state / "objects.sqlite")) as index:

            def download(batch: Sequence[SharedObject]) -> list[DownloadedObject | str]:
                sources = self._reader.open(batch)
                return [item for source in sources if (item := self._download(source, state)) is not None]

            batches = self._missing(index, is_case_sensitive(state), result)
            with self._progress.parallel(batches, download) as downloads:
                for batch in downloads:
                    objects = [item for item in batch if isinstance(item, DownloadedObject)]
                    index.add(objects)
                    result.fetched += len(objects)
                    for name in batch:
                        if isinstance(name, str):
                            result.skip(name)
            for partial in state.glob("*.part"):
                partial.unlink()
        return result

    def _missing(self, index: ObjectIndex, case_sensitive: bool, result: FolderResult) -> Iterator[list[SharedObject]]:
        """Yield the objects that must be downloaded, in batches; count the objects of the folder in `result`."""
        batch: list[SharedObject] = []
        for item in (item for page in self._reader.pages() for item in page):
            if self._include and not any(fnmatchcase(item.name, pattern) for pattern in self._include):
                continue
            path = local_path(item.name)
            if path is None or not (case_sensitive or index.claim(folded(item.name))):
                result.skip(item.name)
                continue
            result.files += 1
            if index.is_current(item.name, item.etag, self._folder / path):
                continue
            self._progress.expect(1, item.size)
            batch.append(item)
            if len(batch) >= _BATCH_OBJECTS or sum(each.size for each in batch) >= _BATCH_BYTES:
                yield batch
                batch = []
        if batch:
            yield batch

    def _download(self, source: ReadableObject, state: Path) -> DownloadedObject | str | None:
        """Download an object. Return its name if that is an invalid path, None if it was deleted."""
        for _ in range(_ATTEMPTS):
            try:
                return self._save(source, state)
            except OSError as error:
                if error.errno not in _INVALID_PATH:
                    raise
                return source.object.name
            except (ObjectChanged, UrlRefused) as error:
                last: PullError = error
                reopened = self._reader.open([source.object], refresh=True)
                if not reopened:
                    return None
                (source,) = reopened
        if isinstance(last, ObjectChanged):
            raise Conflict(f"'{source.object.name}' changed {_ATTEMPTS} times during the download: try again later")
        raise last

    def _save(self, source: ReadableObject, state: Path) -> DownloadedObject:
        name, size, etag = source.object.name, source.object.size, source.object.etag
        target = self._folder / str(local_path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = state / f"{hashlib.sha256(f'{etag} {name}'.encode()).hexdigest()}.part"
        retry(lambda: save(partial, target, size, source.read, self._progress.add_bytes))
        self._progress.add_file()
        return DownloadedObject(name, etag, size, target.stat().st_mtime_ns)
