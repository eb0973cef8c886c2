"""A shared folder of objects into a folder of this disk: what has changed since the last pull, each object whole."""

import errno
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from delta_sharing_pull.answers import SharedObject
from delta_sharing_pull.errors import Conflict, PullError
from delta_sharing_pull.fetching import ObjectChanged, UrlRefused, save
from delta_sharing_pull.folder_lock import alone
from delta_sharing_pull.known_objects import Brought, KnownObjects
from delta_sharing_pull.object_names import folded, local_path, tells_case
from delta_sharing_pull.patience import patiently
from delta_sharing_pull.shared_folders import FolderReader, OpenedObject
from delta_sharing_pull.tally import Tally

_NO_PLACE: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG})
"""What a file meets that has the name of a folder, or one that is too long for the disk."""

_ATTEMPTS: Final = 5
_AT_ONCE, _BYTES_AT_ONCE = 32, 32 << 20
_TOLD: Final = 20


@dataclass
class PulledFolder:
    """What came of a pull."""

    files: int = 0
    """That were wanted."""
    fetched: int = 0
    unnamed: int = 0
    """Objects whose names no file here may have."""
    names: list[str] = field(default_factory=list)
    """The first of those."""

    def leave(self, name: str) -> None:
        """Count an object that stays where it is."""
        self.unnamed += 1
        if len(self.names) < _TOLD:
            self.names.append(name)


class FolderPull:
    """A folder on its way."""

    def __init__(self, reader: FolderReader, folder: Path, include: Sequence[str], tally: Tally) -> None:
        self._reader = reader
        self._folder = folder
        self._include = include
        self._tally = tally

    def run(self) -> PulledFolder:
        """Bring what is new or has changed, and leave alone what is there besides; raises what the server refuses."""
        done = PulledFolder()
        with alone(self._folder) as own, closing(KnownObjects(own / "objects.sqlite")) as known:

            def fetch(some: Sequence[SharedObject]) -> list[Brought | str]:
                return [each for opened in self._reader.open(some) if (each := self._bring(opened, own)) is not None]

            with self._tally.ahead(self._lacking(known, tells_case(own), done), fetch) as arriving:
                for some in arriving:
                    brought = [each for each in some if isinstance(each, Brought)]
                    known.remember(brought)
                    done.fetched += len(brought)
                    for name in some:
                        if isinstance(name, str):
                            done.leave(name)
            for part in own.glob("*.part"):
                part.unlink()
        return done

    def _lacking(self, known: KnownObjects, by_case: bool, done: PulledFolder) -> Iterator[list[SharedObject]]:
        """Yield the objects that are wanted and not there, some at a time."""
        some: list[SharedObject] = []
        for each in (each for page in self._reader.pages() for each in page):
            if self._include and not any(fnmatchcase(each.name, pattern) for pattern in self._include):
                continue
            place = local_path(each.name)
            if place is None or not (by_case or known.claim(folded(each.name))):
                done.leave(each.name)
                continue
            done.files += 1
            if known.has(each.name, each.etag, self._folder / place):
                continue
            self._tally.expect(1, each.size)
            some.append(each)
            if len(some) >= _AT_ONCE or sum(one.size for one in some) >= _BYTES_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def _bring(self, opened: OpenedObject, own: Path) -> Brought | str | None:
        """Put an object in its place; its name where no file can have it, None where it is gone."""
        for _ in range(_ATTEMPTS):
            try:
                return self._save(opened, own)
            except OSError as failure:
                if failure.errno not in _NO_PLACE:
                    raise
                return opened.object.name
            except (ObjectChanged, UrlRefused) as refused:
                last: PullError = refused
                found = self._reader.open([opened.object], anew=True)
                if not found:
                    return None
                (opened,) = found
        if isinstance(last, ObjectChanged):
            raise Conflict(f"'{opened.object.name}' changes again and again: pull later")
        raise last

    def _save(self, opened: OpenedObject, own: Path) -> Brought:
        name, size, etag = opened.object.name, opened.object.size, opened.object.etag
        target = self._folder / str(local_path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = own / f"{hashlib.sha256(f'{etag} {name}'.encode()).hexdigest()}.part"
        patiently(lambda: save(part, target, size, opened.read, self._tally.brought))
        self._tally.finished()
        return Brought(name, etag, size, target.stat().st_mtime_ns)
