"""The files of a snapshot onto this disk, by URLs that are renewed when they end."""

from collections.abc import Iterator
from pathlib import Path

from delta_sharing_conformance.untrusted_http import MOST_BYTES

from delta_sharing_pull.fetching import UrlRefused, save
from delta_sharing_pull.patience import patiently
from delta_sharing_pull.snapshot import SharedFile, Snapshot
from delta_sharing_pull.tally import Tally


def fetch_file(snapshot: Snapshot, file: SharedFile, folder: Path, parts: Path, tally: Tally) -> None:
    """Put a data file and its deletion vector's into a folder; what is there already stays.

    `parts` is a folder of the same disk for what is not yet whole. Raises SourceMoved, and what the store refuses.
    """

    def put(part: str, target: Path, size: int, *, vector: bool) -> None:
        def read(start: int) -> Iterator[bytes]:
            link = snapshot.link(file)
            try:
                yield from snapshot.urls.read(link.vector_url if vector else link.url, start)
            except UrlRefused:  # before the first byte
                link = snapshot.link(file, link)
                yield from snapshot.urls.read(link.vector_url if vector else link.url, start)

        patiently(lambda: save(parts / part, target, size, read, tally.brought, exact=not vector))

    vector, data = folder / file.vector_name, folder / file.data_name
    if not vector.exists():  # without a vector it is the folder
        # Several data files may share one, and be fetched at once: each brings its own, and any of them will do.
        put(f"{file.data_name}.{file.vector_name}", vector, max(MOST_BYTES, file.vector_end), vector=True)
    if not (data.is_file() and data.stat().st_size == file.size):
        put(file.data_name, data, file.size, vector=False)
    tally.finished()
