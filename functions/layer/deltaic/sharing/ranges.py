"""Decides what a range of versions answers: which lines each commit has, where a page ends, what is refused first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from deltaic.delta import features
from deltaic.delta.actions import AddCdcFile, Metadata, Protocol
from deltaic.delta.changes import Change, CommitChanges, FileChange
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.continuations import Page, PageBinding, Position, seal_page_token
from deltaic.protocol.tokens import TokenSigner
from deltaic.sharing.answer import Answer, Wishes
from deltaic.sharing.change_lines import ChangeLines, RemovedFile, check_place, find_removed
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.snapshots import head_lines, negotiate_for, wire_metadata
from deltaic.storage.urls import TableUrls

_KEPT_COMMITS = 64
"""A range is examined before its first line leaves; so many of its commits are kept for the second walk."""


@dataclass(frozen=True, slots=True)
class _Examined:
    """What a first walk over a range has found."""

    response_format: ResponseFormat
    commits: list[CommitChanges]
    """The first ones."""
    removed: Mapping[tuple[int, str], RemovedFile]


@dataclass(frozen=True, slots=True)
class _Keys:
    """What an answer is signed with and bound to, at hand before its first line."""

    urls: TableUrls
    signer: TokenSigner | None
    """None where no token can be asked for."""
    log_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One page of the changes of a range of versions."""

    sharing: Sharing
    table: SharedTable
    wishes: Wishes
    log: DeltaLog
    binding: PageBinding
    first: int
    last: int
    """The range, both included."""
    latest: int
    """The table's latest version when the first page was answered."""
    page: Page | None
    """What the first page pinned, and where this one starts: (version, number of the change in its commit)."""
    max_files: int | None
    changes_of: Callable[[CommitChanges], Sequence[Change]]
    historical_metadata: bool
    historical_protocol: bool
    ends: bool

    def answer(self, head: Snapshot) -> Answer:
        """Answer under the protocol and metadata of `head`; what can be refused is refused before a line."""
        if self.page is not None:
            self.page.check_log(head.metadata.id)
        first = self._resumes_at[0]
        found = self._examine(head, first)
        response_format, kept = found.response_format, found.commits
        version = head.version
        stamped = version if self.historical_protocol and response_format == "delta" else None
        opening = head_lines(self.table, head, response_format, version=version, protocol_version=stamped)
        later = self.log.commits(first + len(kept), self.last) if first + len(kept) <= self.last else iter(())
        facts: dict[str, object] = {"version": self.first, "format": response_format}
        # Whatever can be refused for good, or fail for want of a key, is asked for before the 200 begins.
        urls = self.sharing.urls(self.table)
        signer = None if self.max_files is None else self.sharing.signer
        return Answer(
            version=self.first,
            response_format=response_format,
            wishes=self.wishes,
            chunks=chain(
                (opening,), self._lines(chain(kept, later), found, _Keys(urls, signer, head.metadata.id), facts)
            ),
            negotiated_end=self.wishes.capabilities.include_end_stream_action,
            facts=facts,
        )

    def _examine(self, head: Snapshot, first: int) -> _Examined:
        """Walk the range once, so that nothing in it that must be refused is met after the 200 has begun."""
        start = self.log.snapshot(first)
        live = features.live_features(head.protocol, head.metadata)
        protocol, metadata = start.protocol, start.metadata
        live |= features.live_features(protocol, metadata)
        kept: list[CommitChanges] = []
        removed: dict[tuple[int, str], RemovedFile] = {}
        for commit in self.log.commits(first, self.last):
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
            features.check_readable(protocol)
            changes = self.changes_of(commit)
            for change in changes:
                if isinstance(change, FileChange):
                    check_place(change, self.table.locations)
            removed |= find_removed(self.log, commit.version, changes)
            has_vectors = any(_has_vector(change) for change in changes)
            if has_vectors or commit.protocol or commit.metadata:
                live |= features.live_features(protocol, metadata, has_deletion_vectors=has_vectors)
            if len(kept) < _KEPT_COMMITS:
                kept.append(commit)
        pinned = self.page.response_format if self.page else None
        return _Examined(negotiate_for(live, self.wishes, pinned=pinned), kept, removed)

    @property
    def _resumes_at(self) -> tuple[int, int]:
        """The version and the number of the change in its commit that this page starts with."""
        if self.page is None:
            return self.first, 0
        version, number = self.page.position
        return int(version), int(number)

    def _lines(
        self,
        commits: Iterator[CommitChanges],
        found: _Examined,
        keys: _Keys,
        facts: dict[str, object],
    ) -> Iterator[bytes]:
        response_format = found.response_format
        changes = ChangeLines(keys.urls, response_format, self.wishes.scheme(response_format), found.removed)
        files = 0
        following: Position | None = None
        for commit in commits:
            version, number = self._resumes_at
            skipped = number if commit.version == version else 0
            out: list[bytes] = []
            for number, change in enumerate(self.changes_of(commit)[skipped:], skipped):
                if not isinstance(change, FileChange):
                    out.append(self._historical(commit, change, response_format))
                    continue
                # A page ends where the next file would be one too many, so metadata stays with the files before it.
                if files == self.max_files:
                    following = (commit.version, number)
                    break
                out.append(changes.line(commit, change))
                files += 1
            if joined := b"".join(out):
                yield joined
            if following is not None:
                break
        facts["files"] = files
        if self.ends:
            yield self._end(keys, response_format, following, keys.urls.expires_at_ms if files else None)

    def _historical(self, commit: CommitChanges, change: Metadata | Protocol, response_format: ResponseFormat) -> bytes:
        """Return the line of metadata or a protocol that a commit after the first sets, where they are asked for."""
        if commit.version == self.first:
            return b""
        if isinstance(change, Metadata):
            if not self.historical_metadata:
                return b""
            return lines.metadata(response_format, wire_metadata(self.table, change, version=commit.version))
        if not self.historical_protocol or response_format != "delta":
            return b""
        return lines.protocol(response_format, msgspec.json.decode(change.raw), version=commit.version)

    def _end(
        self, keys: _Keys, response_format: ResponseFormat, following: Position | None, expires_at_ms: int | None
    ) -> bytes:
        token = None
        if keys.signer is not None and following is not None:
            page = Page(self.first, self.last, self.latest, response_format, keys.log_id, following)
            token = seal_page_token(keys.signer, self.binding, page, now=self.sharing.clock())
        return lines.end_stream_action(lines.EndStreamAction(next_page_token=token, min_url_expiration=expires_at_ms))


def _has_vector(change: Change) -> bool:
    """Tell whether only a reader of deletion vectors reads a change right.

    A remove with one takes away the rows that were left, where a bare remove takes away the whole file.
    """
    if not isinstance(change, FileChange) or isinstance(change.action, AddCdcFile):
        return False
    return change.action.deletion_vector is not None
