"""Answers a range of versions: which lines each commit has, where a page ends, what is refused first."""

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
from deltaic.sharing.lines.change_lines import ChangeLines, RemovedFile, check_place
from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of
from deltaic.sharing.snapshots import negotiate
from deltaic.storage.table_urls import TableUrls

_KEPT_BYTES: Final = 8 << 20
"""A range is examined before its first line leaves; so much of its first commits, as JSON, is kept for the second walk.

Decoded they take about twice as much.
"""


class RangeRequest(msgspec.Struct, frozen=True):
    """A request for a range of versions of either kind."""

    sharing: Sharing
    table: SharedTable
    options: ResponseOptions
    parameters: QueryRequest | ChangesRequest
    call: str
    """What page tokens are bound to."""
    pinned: PageClaims | None = None
    """Where a submitted query begins; None for one that is asked now."""

    @property
    def binding(self) -> PageBinding:
        """What a page token is bound to."""
        return self.options.binding(self.table, self.call, self.parameters.fingerprint)

    def page(self) -> PageClaims | None:
        """Return what the first page pinned, and where this one starts: (version, number of the change in it)."""
        token, sharing = self.parameters.page_token, self.sharing
        return open_page_token(sharing.signer, token, self.binding, now=sharing.clock()) if token else self.pinned


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int
    latest: int
    """The table's latest version when the first page was answered."""


class _RangePlan(msgspec.Struct, frozen=True):
    commits: Iterable[VisibleCommit]
    response_format: ResponseFormat
    partition_columns: Sequence[str]
    urls: TableUrls
    signer: TokenSigner | None
    """None where no token can be asked for."""
    log_id: str
    """What page tokens pin."""


class VersionRange(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the changes of a range of versions."""

    request: RangeRequest
    page: PageClaims | None
    """What `request.page` returned."""
    log: DeltaLog
    head: Snapshot
    """Whose protocol and metadata head the answer."""
    versions: Versions
    kind: type[DataChanges] | type[ChangeFeed]
    """Which changes of a commit count."""
    historical_metadata: bool

    def pin(self) -> PageClaims:
        """Return where the answer begins, for whoever asks for it later; what can be refused is refused now."""
        commits = self.log.commits(self.versions.first, self.versions.last)
        live, _ = self._examine(commits)
        return self._claims(negotiate(live, self.request.options), self._log_id(commits), ())

    def answer(self) -> Answer:
        """Answer; what can be refused is refused before a line."""
        options, audit = self.request.options, self.request.table.caller.audit
        plan, opening = self._plan()
        return Answer(
            version=self.versions.first,
            response_format=plan.response_format,
            options=options,
            chunks=chain((opening,), self._lines(plan, audit.metrics)),
            negotiated_end=options.capabilities.include_end_stream_action,
        )

    def _plan(self) -> tuple[_RangePlan, bytes]:
        """Return what the answer is made of, and its first lines; refuses what can be refused."""
        request, page, table = self.request, self.page, self.request.table
        if page is not None:
            check_log(page.log_id, self.head.log_id)
        commits = self.log.commits(self._resumes_at[0], self.versions.last)
        log_id = self._log_id(commits)
        if page is not None:
            check_log(page.log_id, log_id)
        live, examined = self._examine(commits)
        response_format = page.response_format if page else negotiate(live, request.options)
        version = self.head.version
        stamped = version if request.parameters.include_historical_protocol and response_format == "delta" else None
        opening = head_lines(table, self.head, response_format, version=version, protocol_version=stamped)
        later = self._visible.read(commits.read(len(examined)), examined[-1].visibility if examined else None)
        table.caller.audit.add(endVersion=self.versions.last)
        plan = _RangePlan(
            commits=chain(examined, later),
            response_format=response_format,
            partition_columns=visibility_of(table.rights, self.head.metadata).metadata.partition_columns,
            # Whatever can fail for want of a key is asked for before the 200 begins.
            urls=request.sharing.urls(table),
            signer=None if request.parameters.max_files is None else request.sharing.signer,
            log_id=log_id,
        )
        return plan, opening

    def _examine(self, commits: CommitRange) -> tuple[frozenset[str], list[VisibleCommit]]:
        """Walk the range, so that nothing in it that must be refused is met after the 200 has begun.

        Returns the features that are live in it, and the first commits. The first page walks all of it; a later one,
        whose format is settled, no further than it reaches.
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
        room, files = _KEPT_BYTES, 0
        # A later page may be full with as many commits as it has files.
        at_once = None if page is None or max_files is None else max_files + 1
        for visible in self._visible.read(commits.read(0, at_once), None):
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
            room -= commit.size
            if room >= 0:
                examined.append(visible)
            if page is not None and max_files is not None:
                files += sum(isinstance(change, FileChange) for _, change in self._left(visible))
                if files > max_files:
                    break
        return live, examined

    @property
    def _visible(self) -> VisibleCommits:
        return VisibleCommits(self.request.sharing, self.request.table, self.log, self.head, self.kind)

    @property
    def _resumes_at(self) -> tuple[int, int]:
        """The version and the number of the change in its commit that this page starts with."""
        if self.page is None or not self.page.position:
            return self.versions.first, 0
        version, number = self.page.position
        return int(version), int(number)

    def _left(self, visible: VisibleCommit) -> Sequence[Numbered]:
        """Return the changes of a commit that were not on the pages before."""
        version, first = self._resumes_at
        if not first or visible.commit.version != version:
            return visible.changes
        return [(number, change) for number, change in visible.changes if number >= first]

    def _lines(self, plan: _RangePlan, metrics: ResponseMetrics) -> Iterator[bytes]:
        options, parameters = self.request.options, self.request.parameters
        scheme = options.scheme(plan.response_format)
        changes = ChangeLines(plan.urls, plan.response_format, scheme, plan.partition_columns)
        following: ResumePoint | None = None
        metrics.other_lines += HEAD_LINES
        files = metrics.files = 0
        for visible in plan.commits:
            out: list[bytes] = []
            for number, change in self._left(visible):
                if not isinstance(change, FileChange):
                    historical = self._historical(visible.commit, change, plan.response_format)
                    metrics.other_lines += bool(historical)
                    out.append(historical)
                    continue
                # A page ends where the next file would be one too many, so metadata stays with the files before it.
                if files == parameters.max_files:
                    following = (visible.commit.version, number)
                    break
                visibility = visible.before if isinstance(change.action, Remove) else visible.visibility
                out.append(changes.line(visible.commit, change, visible.removed, visibility))
                _count(metrics, change, visible.removed)
                files += 1
            if joined := b"".join(out):
                yield joined
            if following is not None:
                break
        if parameters.opts_into_end_stream or options.capabilities.include_end_stream_action:
            metrics.other_lines += 1
            yield self._end(plan, following, plan.urls.expires_at_ms if files else None)

    def _historical(self, commit: CommitChanges, change: Metadata | Protocol, response_format: ResponseFormat) -> bytes:
        """Return the line of metadata or a protocol that a commit after the first sets, where they are asked for."""
        if commit.version == self.versions.first:
            return b""
        table = self.request.table
        if isinstance(change, Metadata):
            if not self.historical_metadata:
                return b""
            shown = visibility_of(table.rights, change).metadata
            return lines.metadata(response_format, wire_metadata(table, shown, version=commit.version))
        if not self.request.parameters.include_historical_protocol or response_format != "delta":
            return b""
        return lines.protocol(response_format, msgspec.json.decode(change.raw), version=commit.version)

    def _end(self, plan: _RangePlan, following: ResumePoint | None, expires_at_ms: int | None) -> bytes:
        token = None
        if plan.signer is not None and following is not None:
            claims = self._claims(plan.response_format, plan.log_id, following)
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
    """Return what a commit makes live; raises what signing its files would raise."""
    for _, change in visible.changes:
        if isinstance(change, FileChange):
            check_place(change, table.locations)
    has_vectors = any(_has_vector(change) for _, change in visible.changes)
    if has_vectors or visible.commit.protocol or visible.commit.metadata:
        return features.live_features(protocol, metadata, has_deletion_vectors=has_vectors)
    return frozenset()


def _count(metrics: ResponseMetrics, change: FileChange, removed: Mapping[str, RemovedFile]) -> None:
    action = change.action
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
    """Tell whether only a reader of deletion vectors reads a change right.

    A remove with one takes away the rows that were left, where a bare remove takes away the whole file.
    """
    if not isinstance(change, FileChange) or isinstance(change.action, AddCdcFile):
        return False
    return change.action.deletion_vector is not None
