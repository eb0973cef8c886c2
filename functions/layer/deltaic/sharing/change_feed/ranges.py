"""Return the changes in a range of versions: check all commits, then render their lines page by page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from deltaic.delta import deletion_vectors, features
from deltaic.delta.actions import AddCdcFile, Metadata, Protocol, Remove
from deltaic.delta.commit_changes import Change, CommitChanges, CommitRange, FileChange
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import fingerprint
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.changes_request import ChangesRequest
from deltaic.protocol.continuations import (
    PageBinding,
    PageClaims,
    ResumePoint,
    check_log,
    open_page_token,
    seal_page_token,
)
from deltaic.protocol.query_request import QueryRequest
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.change_feed.visible_changes import ChangeFeed, DataChanges, Numbered, VisibleCommit, VisibleCommits
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.head_lines import HEAD_LINES, head_lines, wire_metadata
from deltaic.sharing.lines.change_lines import ChangeLines, RemovedFile, check_locations
from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of
from deltaic.sharing.snapshots import negotiate
from deltaic.storage.table_urls import TableUrls

_EXAMINED_BYTES: Final = 8 << 20
"""Maximum JSON size of the commits that are kept in memory after the check of the range, to read them only once.

The decoded commits need about twice as much memory.
"""


class RangeRequest(msgspec.Struct, frozen=True):
    """Request for the changes in a range of versions, by a query or a change feed."""

    sharing: Sharing
    table: SharedTable
    options: ResponseOptions
    parameters: QueryRequest | ChangesRequest
    call: str
    """Type of request, which page tokens are bound to: `query`, `changes`, or the id of a submitted query."""
    pinned: PageClaims | None = None
    """Versions and format that were stored for a submitted query; None for a request that is processed at once."""

    @property
    def binding(self) -> PageBinding:
        """Values that a later request must repeat to use a page token of this request."""
        return self.options.binding(self.table, self.call, self.parameters.fingerprint)

    def page(self) -> PageClaims | None:
        """Return the contents of the page token, such as the position of this page; None on the first page."""
        token, sharing = self.parameters.page_token, self.sharing
        return open_page_token(sharing.signer, token, self.binding, now=sharing.clock()) if token else self.pinned


class Versions(NamedTuple):
    """Range of versions, including the first and the last."""

    first: int
    last: int
    latest: int
    """Latest version of the table at the time of the first page."""


class _RangePlan(msgspec.Struct, frozen=True):
    commits: Iterable[VisibleCommit]
    response_format: ResponseFormat
    partition_columns: Sequence[str]
    urls: TableUrls
    signer: TokenSigner | None
    """Signs the token of the next page; None if the response has no tokens."""
    log_id: str
    """Identity of the log, stored in page tokens to detect that the table was replaced."""


class VersionRange(msgspec.Struct, frozen=True, kw_only=True):
    """Planner and renderer of one page of the changes in a range of versions."""

    request: RangeRequest
    page: PageClaims | None
    """Result of `request.page()`: the contents of the page token."""
    log: DeltaLog
    head: Snapshot
    """Snapshot whose protocol and metadata are at the start of the response."""
    versions: Versions
    kind: type[DataChanges] | type[ChangeFeed]
    """Selects the actions of a commit: data changes, or the change data feed."""
    historical_metadata: bool

    def pin(self) -> PageClaims:
        """Check a submitted query, and return its versions and format for the later request for the result."""
        commits = self.log.commits(self.versions.first, self.versions.last)
        live, _ = self._examine(commits)
        return self._claims(negotiate(live, self.request.options), self._log_id(commits), ())

    def answer(self) -> Answer:
        """Return the response; raise all errors about the request before its first line."""
        options, audit = self.request.options, self.request.table.caller.audit
        plan, first_lines = self._plan()
        return Answer(
            version=self.versions.first,
            response_format=plan.response_format,
            options=options,
            chunks=chain((first_lines,), self._lines(plan, audit.metrics)),
            negotiated_end=options.capabilities.include_end_stream_action,
        )

    def _plan(self) -> tuple[_RangePlan, bytes]:
        """Return the plan of the response and its first lines, after all checks of the request."""
        request, page, table = self.request, self.page, self.request.table
        if page is not None:
            check_log(page.log_id, self.head.log_id)
        commits = self.log.commits(self._resumes_at[0], self.versions.last)
        log_id = self._log_id(commits)
        if page is not None:
            check_log(page.log_id, log_id)
        live, examined = self._examine(commits)
        response_format = page.response_format if page else negotiate(live, request.options, self.head.parquet_refusal)
        version = self.head.version
        stamp = version if request.parameters.include_historical_protocol and response_format == "delta" else None
        first_lines = head_lines(table, self.head, response_format, version=version, protocol_version=stamp)
        later = self._visible.read(commits.read(len(examined)), examined[-1].visibility if examined else None)
        table.caller.audit.add(endVersion=self.versions.last)
        plan = _RangePlan(
            commits=chain(examined, later),
            response_format=response_format,
            partition_columns=visibility_of(table.rights, self.head.metadata).metadata.partition_columns,
            # Before the response begins, because reading the keys can fail.
            urls=request.sharing.urls(table),
            signer=None if request.parameters.max_files is None else request.sharing.signer,
            log_id=log_id,
        )
        return plan, first_lines

    def _examine(self, commits: CommitRange) -> tuple[frozenset[str], list[VisibleCommit]]:
        """Check the commits of the range, so that errors are raised before the response begins.

        Returns the table features that readers of the range need, and the commits that fit in memory. The first page
        checks the whole range. A later page, whose response format is known, checks only its own commits.
        """
        table, page, max_files = self.request.table, self.page, self.request.parameters.max_files
        protocol, metadata = self.head.protocol, self.head.metadata
        live = features.live_features(protocol, metadata)
        first, last, _ = self.versions
        if page is None:
            start = self.head if self.head.version == first else self.log.snapshot(first)
            protocol, metadata = start.protocol, start.metadata
            live |= features.live_features(protocol, metadata)
            check_hidden(table.rights, protocol, metadata)
            self.kind.check(metadata, first, first, last)
        examined: list[VisibleCommit] = []
        free_bytes, files = _EXAMINED_BYTES, 0
        # A later page may be full after as many commits as it has files.
        max_commits = None if page is None or max_files is None else max_files + 1
        for visible in self._visible.read(commits.read(0, max_commits), None):
            commit = visible.commit
            if commit.protocol is not None:
                protocol = commit.protocol
                features.check_readable(protocol)
            if commit.metadata is not None:
                metadata = commit.metadata
                features.check_metadata(metadata)
                if page is None:
                    self.kind.check(metadata, commit.version, first, last)
            if commit.protocol or commit.metadata:
                check_hidden(table.rights, protocol, metadata)
            live |= _live_features(visible, protocol, metadata, table)
            free_bytes -= commit.size
            if free_bytes >= 0:
                examined.append(visible)
            if page is not None and max_files is not None:
                files += sum(isinstance(change, FileChange) for _, change in self._remaining(visible))
                if files > max_files:
                    break
        return live, examined

    @property
    def _visible(self) -> VisibleCommits:
        return VisibleCommits(self.request.sharing, self.request.table, self.log, self.head, self.kind)

    @property
    def _resumes_at(self) -> tuple[int, int]:
        """Start of this page: a version, and the index of a change within its commit."""
        if self.page is None or not self.page.position:
            return self.versions.first, 0
        version, number = self.page.position
        return int(version), int(number)

    def _remaining(self, visible: VisibleCommit) -> Sequence[Numbered]:
        """Return the changes of a commit that no earlier page contains."""
        version, first = self._resumes_at
        if not first or visible.commit.version != version:
            return visible.changes
        return [(number, change) for number, change in visible.changes if number >= first]

    def _lines(self, plan: _RangePlan, metrics: ResponseMetrics) -> Iterator[bytes]:
        options, parameters = self.request.options, self.request.parameters
        scheme = options.scheme(plan.response_format)
        changes = ChangeLines(plan.urls, plan.response_format, scheme, plan.partition_columns)
        next_page: ResumePoint | None = None
        metrics.other_lines += HEAD_LINES
        files = metrics.files = 0
        for visible in plan.commits:
            commit_lines: list[bytes] = []
            for number, change in self._remaining(visible):
                if not isinstance(change, FileChange):
                    historical = self._later_line(visible.commit, change, plan.response_format)
                    metrics.other_lines += bool(historical)
                    commit_lines.append(historical)
                    continue
                # The page ends only before another file, so that metadata stays on the page of the files before it.
                if files == parameters.max_files:
                    next_page = (visible.commit.version, number)
                    break
                visibility = visible.before if isinstance(change, Remove) else visible.visibility
                commit_lines.append(changes.line(visible.commit, change, visible.removed, visibility))
                _count(metrics, change, visible.removed)
                files += 1
            if joined := b"".join(commit_lines):
                yield joined
            if next_page is not None:
                break
        if parameters.opts_into_end_stream or options.capabilities.include_end_stream_action:
            metrics.other_lines += 1
            yield self._end(plan, next_page, plan.urls.expires_at_ms if files else None)

    def _later_line(self, commit: CommitChanges, change: Metadata | Protocol, response_format: ResponseFormat) -> bytes:
        """Return a metadata or protocol line for a later version; empty if the client requests no such lines."""
        if commit.version == self.versions.first:
            return b""
        table = self.request.table
        if isinstance(change, Metadata):
            if not self.historical_metadata:
                return b""
            visible_metadata = visibility_of(table.rights, change).metadata
            return lines.metadata(response_format, wire_metadata(table, visible_metadata, version=commit.version))
        if not self.request.parameters.include_historical_protocol or response_format != "delta":
            return b""
        return lines.protocol(response_format, msgspec.json.decode(change.raw), version=commit.version)

    def _end(self, plan: _RangePlan, next_page: ResumePoint | None, expires_at_ms: int | None) -> bytes:
        token = None
        if plan.signer is not None and next_page is not None:
            claims = self._claims(plan.response_format, plan.log_id, next_page)
            token = seal_page_token(plan.signer, self.request.binding, claims, now=self.request.sharing.clock())
        return lines.end_stream_action(
            lines.EndStreamAction(next_page_token=token, min_url_expiration_timestamp=expires_at_ms)
        )

    def _log_id(self, commits: CommitRange) -> str:
        return f"{self.head.log_id} {fingerprint(commits.commits[-1].file)}"

    def _claims(self, response_format: ResponseFormat, log_id: str, position: ResumePoint) -> PageClaims:
        return PageClaims(*self.versions, response_format, log_id, position)


def _live_features(
    visible: VisibleCommit, protocol: Protocol, metadata: Metadata, table: SharedTable
) -> frozenset[str]:
    """Return the table features that readers of a commit need; raise an error for files that cannot be signed."""
    for _, change in visible.changes:
        if isinstance(change, FileChange):
            check_locations(change, table.locations)
    has_vectors = any(_has_vector(change) for _, change in visible.changes)
    if has_vectors or visible.commit.protocol or visible.commit.metadata:
        return features.live_features(protocol, metadata, has_deletion_vectors=has_vectors)
    return frozenset()


def _count(metrics: ResponseMetrics, action: FileChange, removed: Mapping[str, RemovedFile]) -> None:
    size = removed[action.path][1] if action.path in removed else action.size
    metrics.add(1, size or 0)
    if isinstance(action, AddCdcFile):
        metrics.change_files += 1
        return
    metrics.removed_files += isinstance(action, Remove)
    vector = action.deletion_vector
    if vector is not None and deletion_vectors.file_path(vector.storage_type, vector.path_or_inline_dv) is not None:
        metrics.deletion_vectors += 1


def _has_vector(change: Change) -> bool:
    """Return whether a client must support deletion vectors to read a change correctly.

    A `remove` with a deletion vector deletes only the rows that were not deleted before; without one, all rows.
    """
    return isinstance(change, FileChange) and change.deletion_vector is not None
