"""Decides what a query of a snapshot answers: its files, pruned, limited and paged."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from deltaic.delta.log import DeltaLog
from deltaic.delta.scan.file_batches import FileBatch, Position
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.continuations import (
    PageBinding,
    PageClaims,
    RefreshClaims,
    open_page_token,
    open_refresh_token,
    seal_page_token,
    seal_refresh_token,
)
from deltaic.protocol.requests import QueryRequest
from deltaic.protocol.tokens import TokenSigner
from deltaic.pruning import file_filter, predicate_of
from deltaic.sharing.access import Tally
from deltaic.sharing.answer import Answer, ResponseOptions, Weight
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.lines.file_lines import file_lines
from deltaic.sharing.lines.fitting_lines import fitting_lines
from deltaic.sharing.lines.head_lines import HEAD_LINES, head_lines
from deltaic.sharing.lines.line_cache import VersionLines
from deltaic.sharing.lines.rendering import FileStyle
from deltaic.sharing.outflow import Outflow
from deltaic.sharing.own_vectors import with_own_vectors
from deltaic.sharing.page import Page, start_of
from deltaic.sharing.sight import sight_of
from deltaic.sharing.snapshots import find, negotiate
from deltaic.sharing.weight import weight_of_files
from deltaic.storage.urls import TableUrls

SAMPLE_BYTES: Final = 32 << 20
"""The most bytes of lines that are held before the first of them leaves."""


class _Files(msgspec.Struct, frozen=True):
    """The files of an answer and what they are signed with, at hand before its first line."""

    page: Page
    whole: bool
    """Whether the page is all of the version."""
    kept: VersionLines | None
    urls: TableUrls
    signer: TokenSigner | None
    """None where no token can be asked for."""
    outflow: Outflow | None
    """What the page must fit; None where it may not end unless it was asked to."""


class SnapshotQuery(msgspec.Struct, frozen=True):
    """One page of the files of one version."""

    sharing: Sharing
    table: SharedTable
    request: QueryRequest
    options: ResponseOptions
    log: DeltaLog
    call: str = "query"
    """What page tokens are bound to."""
    pinned: PageClaims | None = None
    """Where a submitted query begins; None for one that is asked now."""

    def pin(self) -> PageClaims:
        """Return where the answer begins, for whoever asks for it later; refuses by version and format."""
        snapshot, response_format = self._resolve(None, None)
        return PageClaims(snapshot.version, None, snapshot.version, response_format, snapshot.metadata.id, ())

    def answer(self) -> Answer:
        """Answer; what can be refused is refused before a line."""
        claims = self._page_claims()
        start, rows_before = start_of(claims.position if claims else None)
        snapshot, response_format = self._resolve(claims, start)
        sight = sight_of(self.table.rights, snapshot.metadata)
        style = FileStyle(
            response_format,
            self.options.scheme(response_format),
            version=snapshot.version if self.request.time_travels else None,
            timestamp=snapshot.timestamp if self.request.time_travels else None,
            partition_columns=tuple(sight.metadata.partition_columns) if response_format == "parquet" else (),
            statistics=self.options.statistics or response_format == "delta",
            concealed=sight.concealed,
        )
        predicate = predicate_of(self.request.predicate_hints, self.request.json_predicate_hints)
        wanted = sight.narrowing(file_filter(predicate, sight.metadata))
        limit, max_files = self.request.limit_hint, self.request.max_files
        whole = start is None and wanted is None and limit is None and max_files is None
        scope = (
            self.table.identity,
            style.response_format,
            style.scheme,
            style.partition_columns,
            style.statistics,
            style.concealed,
        )
        kept = self.sharing.memory.lines.of(scope, snapshot)
        batches = snapshot.scan(wanted, start=start)
        by_partition = response_format == "delta" and bool(snapshot.metadata.partition_columns)
        page = Page(batches, limit=limit, max_files=max_files, rows_before=rows_before, by_partition=by_partition)
        outflow = self._outflow(limited_by_partition=by_partition and limit is not None)
        files = _Files(page, whole, kept, self.sharing.urls(self.table), self._signer(outflow), outflow)
        access = self.table.caller.access
        if predicate is not None:
            from deltaic.pruning.shape import shape

            access.note(predicates=shape(predicate, sight.metadata))
        body = self._lines(snapshot, files, style, access.tally)
        # The head and the first files are made before the 200 begins: what is wrong with a log shows up there.
        first = deque(_take(body, 2))

        def sample(count: int) -> list[bytes]:
            """Return the first file lines, so many if SAMPLE_BYTES hold them; they are sent all the same."""
            files = list(first)[1:]
            lines, held = b"".join(files).count(b"\n"), sum(map(len, files))
            while lines < count and held < SAMPLE_BYTES and (more := next(body, b"")):
                first.append(more)
                files.append(more)
                lines, held = lines + more.count(b"\n"), held + len(more)
            return b"".join(files).splitlines(keepends=True)

        # How many files a filter or a row limit leaves is known when they have been looked at.
        countable = start is None and wanted is None and limit is None and outflow is None
        return Answer(
            version=snapshot.version,
            response_format=response_format,
            options=self.options,
            chunks=chain(_emptied(first), body),
            negotiated_end=self.options.capabilities.include_end_stream_action,
            weight=(lambda: weight_of_files(snapshot, files.urls, max_files, sample, statistics=style.statistics))
            if countable
            else Weight,
        )

    def _resolve(self, claims: PageClaims | None, start: Position | None) -> tuple[Snapshot, ResponseFormat]:
        """Return the snapshot, as the page that starts there needs it, and the format."""
        if claims is not None:
            snapshot = self.log.snapshot(claims.version, at=start)
            claims.check_log(snapshot.metadata.id)
        elif self.request.refresh_token is not None:
            pinned = self._refreshed(self.request.refresh_token)
            snapshot = self.log.snapshot(pinned.version)
            pinned.check_log(snapshot.metadata.id)
        else:
            snapshot = find(self.log, self.request.version, self.request.instant())
        self.table.gate.check_version(snapshot.version)
        return snapshot, claims.response_format if claims else negotiate(snapshot.live_features, self.options)

    def _lines(self, snapshot: Snapshot, files: _Files, style: FileStyle, tally: Tally) -> Iterator[bytes]:
        tally.other_lines += HEAD_LINES
        head = head_lines(self.table, snapshot, style.response_format, files_follow=True)
        if files.outflow is not None:
            files.outflow.made += len(head)
        yield head
        batches: Iterable[FileBatch] = files.page
        if style.concealed is not None and style.response_format == "delta":
            batches = with_own_vectors(self.sharing, self.table, batches)
        found = file_lines(batches, files.urls, style, files.kept, tally, whole=files.whole)
        yield from found if files.outflow is None else fitting_lines(found, files.page, files.outflow, tally)
        ends = self.request.opts_into_end_stream or self.options.capabilities.include_end_stream_action
        if ends or files.outflow is not None:
            tally.other_lines += 1
            yield self._end(snapshot, files, style.response_format, expires=bool(tally.files))

    def _end(self, snapshot: Snapshot, files: _Files, response_format: ResponseFormat, *, expires: bool) -> bytes:
        now = self.sharing.clock()
        log_id = snapshot.metadata.id
        next_token = refresh_token = None
        if files.signer is not None and files.page.next is not None:
            claims = PageClaims(snapshot.version, None, snapshot.version, response_format, log_id, files.page.next)
            next_token = seal_page_token(files.signer, self._binding(), claims, now=now)
        if files.signer is not None and self.request.include_refresh_token:
            pinned = RefreshClaims(
                self.table.caller.recipient_id,
                self.table.entry.id,
                snapshot.version,
                log_id,
                self.table.rights.identity,
            )
            refresh_token = seal_refresh_token(files.signer, pinned, now=now)
        return lines.end_stream_action(
            lines.EndStreamAction(
                refresh_token=refresh_token,
                next_page_token=next_token,
                min_url_expiration=files.urls.expires_at_ms if expires else None,
            )
        )

    def _signer(self, outflow: Outflow | None) -> TokenSigner | None:
        """Return what seals the tokens that this answer may end with: fetched before the 200 begins."""
        paged = self.request.max_files is not None or outflow is not None
        return self.sharing.signer if paged or self.request.include_refresh_token else None

    def _outflow(self, *, limited_by_partition: bool) -> Outflow | None:
        """Return what a page must fit that ends by itself: of a client that follows (decision 92).

        Such a client shows in the body, too: by a key that others do not send, or by a token. Rows that are limited in
        each partition are counted anew on each page, so pages that were not asked for could hold many times the files
        that were meant.
        """
        follows = self.request.names_refresh_token or self.request.page_token is not None
        return self.options.outflow if follows and not limited_by_partition else None

    def _page_claims(self) -> PageClaims | None:
        if self.request.page_token is None:
            return self.pinned
        return open_page_token(self.sharing.signer, self.request.page_token, self._binding(), now=self.sharing.clock())

    def _refreshed(self, token: str) -> RefreshClaims:
        return open_refresh_token(
            self.sharing.signer,
            token,
            self.table.caller.recipient_id,
            self.table.entry.id,
            rights=self.table.rights.identity,
            now=self.sharing.clock(),
        )

    def _binding(self) -> PageBinding:
        return self.options.binding(self.table, self.call, self.request.fingerprint)


def _emptied(held: deque[bytes]) -> Iterator[bytes]:
    while held:
        yield held.popleft()


def _take(source: Iterable[bytes], count: int) -> Iterator[bytes]:
    for _, item in zip(range(count), source, strict=False):
        yield item
