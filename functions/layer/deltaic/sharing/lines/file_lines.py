"""The file lines of an answer, made of the log or taken from the cache."""

from collections.abc import Iterable, Iterator

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.lines.line_cache import VersionLines
from deltaic.sharing.lines.rendering import FileStyle, render, render_kept
from deltaic.storage.table_urls import TableUrls


def file_lines(  # noqa: PLR0913 -- the parts of one answer
    batches: Iterable[FileBatch],
    urls: TableUrls,
    style: FileStyle,
    kept: VersionLines | None,
    metrics: ResponseMetrics,
    *,
    whole: bool,
) -> Iterator[bytes]:
    """Yield the signed lines of files, in chunks, and count them.

    `whole` says that the batches are all of the version: then they are not read where all of its lines are kept.
    """
    known = kept.whole() if kept is not None and whole else None
    metrics.files = 0
    if known is not None:
        yield from render_kept(known, urls, style, metrics)
        return
    for batch in batches:
        yield from render(batch, urls, style, metrics, kept)
    if kept is not None and whole:
        kept.keep_whole()
