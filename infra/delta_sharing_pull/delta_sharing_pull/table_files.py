"""Download the data files and deletion vectors of a snapshot, and renew signed URLs that expire."""

from collections.abc import Iterator
from pathlib import Path

from delta_sharing_conformance.untrusted_http import MAX_BYTES

from delta_sharing_pull.downloads import UrlRefused, save
from delta_sharing_pull.progress import Progress
from delta_sharing_pull.retries import retry
from delta_sharing_pull.snapshot import SharedFile, Snapshot


def download_file(snapshot: Snapshot, file: SharedFile, folder: Path, partial_folder: Path, progress: Progress) -> None:
    """Download a data file and its deletion vector to a folder, unless they exist.

    Incomplete files are in `partial_folder`, which must be on the same file system. Raises SourceChanged if the server
    no longer lists the file, and the same errors as `save` and `UrlReader.read`.
    """

    def download(partial: str, target: Path, size: int, *, vector: bool) -> None:
        def read(start: int) -> Iterator[bytes]:
            urls = snapshot.signed_urls(file)
            try:
                yield from snapshot.url_reader.read(urls.vector_url if vector else urls.url, start)
            except UrlRefused:  # raised before the first byte
                urls = snapshot.signed_urls(file, urls)
                yield from snapshot.url_reader.read(urls.vector_url if vector else urls.url, start)

        retry(lambda: save(partial_folder / partial, target, size, read, progress.add_bytes, exact=not vector))

    vector, data = folder / file.vector_name, folder / file.data_name
    if not vector.exists():  # without a deletion vector, this path is the folder itself
        # Data files that share a vector can be downloaded in parallel: each downloads it, and any copy is valid.
        download(f"{file.data_name}.{file.vector_name}", vector, max(MAX_BYTES, file.vector_end), vector=True)
    if not (data.is_file() and data.stat().st_size == file.size):
        download(file.data_name, data, file.size, vector=False)
    progress.add_file()
