"""Query the files of a snapshot, with pruning, row limit and pages."""

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain, islice

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
    check_log,
    open_page_token,
    open_refresh_token,
    seal_page_token,
    seal_refresh_token,
)
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.pruning import file_filter, parse_hints
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.head_lines import HEAD_LINES, head_lines
from deltaic.sharing.inline_deletion_vectors import with_inline_vectors
from deltaic.sharing.lines.line_cache import VersionLines
from deltaic.sharing.lines.page_end import fitting_lines
from deltaic.sharing.lines.rendering import FileStyle, render, render_prepared
from deltaic.sharing.page import Page, start_of
from deltaic.sharing.page_budget import PageBudget
from deltaic.sharing.rights.table_visibility import TableVisibility, visibility_of
from deltaic.sharing.snapshots import find_snapshot, negotiate
from deltaic.storage.table_urls import TableUrls


class _SnapshotPlan(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    style: FileStyle
    page: Page
    has_all_files: bool
    """Whether the response has all files of the version on one page."""
    cached_lines: VersionLines | None
    urls: TableUrls
    signer: TokenSigner | None
    """Signs page and refresh tokens; None if the response has none."""
    page_budget: PageBudget | None
    """Limits the bytes of the page; None if the server must not end the page earlier than requested."""


class SnapshotQuery(msgspec.Struct, frozen=True):
    """Planner and renderer of one page of the files of a version."""

    sharing: Sharing
    table: SharedTable
    request: QueryRequest
    options: ResponseOptions
    log: DeltaLog
    call: str = "query"
    """Type of request, which page tokens are bound to: `query`, or the id of a submitted query."""
    pinned: PageClaims | None = None
    """Version and format that were stored for a submitted query; None for a query that runs at once."""

    def pin(self) -> PageClaims:
        """Check a submitted query, and return its version and format for the later request for the result."""
        snapshot, response_format = self._resolve(None, None)
        return PageClaims(snapshot.version, None, snapshot.version, response_format, snapshot.log_id, ())

    def answer(self) -> Answer:
        """Return the response; raise all errors about the request before its first line."""
        plan = self._plan()
        body = self._lines(plan, self.table.caller.audit.metrics)
        # Create the first lines before the response begins, so that errors of the Delta log set its HTTP status.
        first = list(islice(body, 2))
        return Answer(
            version=plan.snapshot.version,
            response_format=plan.style.response_format,
            options=self.options,
            chunks=chain(first, body),
            negotiated_end=self.options.capabilities.include_end_stream_action,
        )

    def _plan(self) -> _SnapshotPlan:
        claims = self._page_claims()
        start, rows_before = start_of(claims.position if claims else None)
        snapshot, response_format = self._resolve(claims, start)
        visibility = visibility_of(self.table.rights, snapshot.metadata)
        style = self._style(snapshot, response_format, visibility)
        predicate = parse_hints(self.request.predicate_hints, self.request.json_predicate_hints)
        if predicate is not None:
            from deltaic.pruning.redacted_predicate import redacted_predicate

            self.table.caller.audit.add(predicates=redacted_predicate(predicate, visibility.metadata))
        row_filter = visibility.row_filter(file_filter(predicate, visibility.metadata))
        limit, max_files = self.request.limit_hint, self.request.max_files
        by_partition = response_format == "delta" and bool(snapshot.metadata.partition_columns)
        page_budget = self._page_budget(limited_by_partition=by_partition and limit is not None)
        return _SnapshotPlan(
            snapshot=snapshot,
            style=style,
            page=Page(
                snapshot.scan(row_filter, start=start),
                limit=limit,
                max_files=max_files,
                rows_before=rows_before,
                by_partition=by_partition,
            ),
            has_all_files=start is None and row_filter is None and limit is None and max_files is None,
            cached_lines=self.sharing.memory.lines.for_snapshot(self._scope(style), snapshot),
            urls=self.sharing.urls(self.table),
            signer=self._signer(page_budget),
            page_budget=page_budget,
        )

    def _style(self, snapshot: Snapshot, response_format: ResponseFormat, visibility: TableVisibility) -> FileStyle:
        return FileStyle(
            response_format,
            self.options.scheme(response_format),
            version=snapshot.version if self.request.time_travels else None,
            timestamp=snapshot.timestamp if self.request.time_travels else None,
            partition_columns=tuple(visibility.metadata.partition_columns) if response_format == "parquet" else (),
            statistics=self.options.statistics or response_format == "delta",
            shown_columns=visibility.shown_columns,
            filtered=visibility.is_filtered,
        )

    def _scope(self, style: FileStyle) -> Hashable:
        """Return the cache key of lines in this format for this table."""
        return (
            self.table.identity,
            style.response_format,
            style.scheme,
            style.partition_columns,
            style.statistics,
            style.shown_columns,
            style.filtered,
        )

    def _resolve(self, claims: PageClaims | None, start: Position | None) -> tuple[Snapshot, ResponseFormat]:
        """Return the snapshot and the response format of this page."""
        if claims is not None:
            snapshot = self.log.snapshot(claims.version, at=start).load_commits()
            check_log(claims.log_id, snapshot.log_id)
        elif self.request.refresh_token is not None:
            pinned = self._refreshed(self.request.refresh_token)
            snapshot = self.log.snapshot(pinned.version).load_commits()
            check_log(pinned.log_id, snapshot.log_id)
        else:
            snapshot = find_snapshot(self.log, self.request.version, self.request.instant()).load_commits()
        self.table.gate.check_version(snapshot.version)
        if claims:
            return snapshot, claims.response_format
        return snapshot, negotiate(snapshot.live_features, self.options, snapshot.parquet_refusal)

    def _lines(self, plan: _SnapshotPlan, metrics: ResponseMetrics) -> Iterator[bytes]:
        metrics.other_lines += HEAD_LINES
        head = head_lines(self.table, plan.snapshot, plan.style.response_format, files_follow=True)
        if plan.page_budget is not None:
            plan.page_budget.created += len(head)
        yield head
        batches: Iterable[FileBatch] = plan.page
        inlines_vectors = plan.style.filtered or plan.snapshot.inlines_vectors
        if inlines_vectors and plan.style.response_format == "delta":
            batches = with_inline_vectors(self.sharing, self.table, batches)
        files = _file_lines(plan, batches, metrics)
        yield from files if plan.page_budget is None else fitting_lines(files, plan.page, plan.page_budget, metrics)
        has_end = self.request.opts_into_end_stream or self.options.capabilities.include_end_stream_action
        if has_end or plan.page_budget is not None:
            metrics.other_lines += 1
            yield self._end(plan, expires=bool(metrics.files))

    def _end(self, plan: _SnapshotPlan, *, expires: bool) -> bytes:
        now = self.sharing.clock()
        version, log_id = plan.snapshot.version, plan.snapshot.log_id
        next_token = refresh_token = None
        if plan.signer is not None and plan.page.next is not None:
            claims = PageClaims(version, None, version, plan.style.response_format, log_id, plan.page.next)
            next_token = seal_page_token(plan.signer, self._binding(), claims, now=now)
        if plan.signer is not None and self.request.include_refresh_token:
            pinned = RefreshClaims(
                self.table.caller.recipient_id, self.table.entry.id, version, log_id, self.table.rights.identity
            )
            refresh_token = seal_refresh_token(plan.signer, pinned, now=now)
        return lines.end_stream_action(
            lines.EndStreamAction(
                refresh_token=refresh_token,
                next_page_token=next_token,
                min_url_expiration_timestamp=plan.urls.expires_at_ms if expires else None,
            )
        )

    def _signer(self, page_budget: PageBudget | None) -> TokenSigner | None:
        """Return the signer of the tokens in the last line; it reads its key now, so that errors come first."""
        paged = self.request.max_files is not None or page_budget is not None
        return self.sharing.signer if paged or self.request.include_refresh_token else None

    def _page_budget(self, *, limited_by_partition: bool) -> PageBudget | None:
        """Return the maximum size of the page; None for clients that may not request further pages (decision 92).

        Only clients that request further pages send `includeRefreshToken` or a page token. A row limit for each
        partition excludes further pages: each page counts rows again, so they could add many unnecessary files.
        """
        follows_pages = self.request.names_refresh_token or self.request.page_token is not None
        return self.options.page_budget if follows_pages and not limited_by_partition else None

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


def _file_lines(plan: _SnapshotPlan, batches: Iterable[FileBatch], metrics: ResponseMetrics) -> Iterator[bytes]:
    """Yield a page's signed lines, and count them in `metrics`; if all lines are cached, without reading `batches`."""
    cached_version = plan.cached_lines if plan.has_all_files else None
    all_lines = None if cached_version is None else cached_version.all_lines()
    metrics.files = 0
    if all_lines is not None:
        yield from render_prepared(all_lines, plan.urls, plan.style, metrics)
        return
    for batch in batches:
        yield from render(batch, plan.urls, plan.style, metrics, plan.cached_lines)
    if cached_version is not None:
        cached_version.mark_complete()
