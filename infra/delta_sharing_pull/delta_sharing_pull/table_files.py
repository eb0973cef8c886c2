"""The files of a snapshot onto this disk, by URLs that are renewed when they end."""

from collections.abc import Iterator
from pathlib import Path

from delta_sharing_conformance.untrusted_http import MOST_BYTES

from delta_sharing_pull.fetching import UrlRefused, Urls, save
from delta_sharing_pull.patience import patiently
from delta_sharing_pull.snapshot import Link, SharedFile, Snapshot
from delta_sharing_pull.tally import Tally


class TableFiles:
    """What fetches one snapshot's files into a folder. May be used from several threads."""

    def __init__(self, snapshot: Snapshot, urls: Urls, tally: Tally) -> None:
        self._snapshot = snapshot
        self._urls = urls
        self._tally = tally

    def fetch(self, file: SharedFile, folder: Path, parts: Path) -> SharedFile:
        """Put a data file and its deletion vector's into a folder; what is there already stays.

        `parts` is a folder of the same disk for what is not yet whole. Raises SourceMoved, and what the store refuses.
        """
        if file.vector_name and not (folder / file.vector_name).exists():
            # Several data files may share one, and be fetched at once: each brings its own, and any of them will do.
            part = parts / f"{file.data_name}.{file.vector_name}"
            patiently(
                lambda: save(
                    part,
                    folder / file.vector_name,
                    max(MOST_BYTES, file.vector_end),
                    lambda start: self._read(file, start, vector=True),
                    self._tally.brought,
                    exact=False,
                )
            )
        target = folder / file.data_name
        if not (target.is_file() and target.stat().st_size == file.size):
            patiently(
                lambda: save(
                    parts / file.data_name,
                    target,
                    file.size,
                    lambda start: self._read(file, start, vector=False),
                    self._tally.brought,
                )
            )
        self._tally.finished()
        return file

    def _read(self, file: SharedFile, start: int, *, vector: bool) -> Iterator[bytes]:
        def read(link: Link) -> Iterator[bytes]:
            return self._urls.read(link.vector_url if vector else link.url, start)

        link = self._snapshot.link(file)
        try:
            yield from read(link)
        except UrlRefused:  # before the first byte
            yield from read(self._snapshot.link(file, link))
