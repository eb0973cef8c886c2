"""Decides what a range of versions answers: which lines each commit has, where a page ends, what is refused first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from deltaic.delta import deletion_vectors, features
from deltaic.delta.actions import AddCdcFile, Metadata, Protocol, Remove
from deltaic.delta.changes import Change, CommitChanges, CommitRange, FileChange
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import InvalidParameter
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.continuations import PageBinding, PageClaims, ResumePoint, seal_page_token
from deltaic.protocol.tokens import TokenSigner
from deltaic.sharing.access import Tally
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.first_version import Numbered, first_changes
from deltaic.sharing.lines.change_lines import ChangeLines, RemovedFile, check_place, find_removed
from deltaic.sharing.lines.head_lines import HEAD_LINES, head_lines, wire_metadata
from deltaic.sharing.seen_changes import divides_updates, seen_changes
from deltaic.sharing.sight import Sight, check_hidden, sight_of
from deltaic.sharing.snapshots import negotiate
from deltaic.sharing.weight import weight_of
from deltaic.storage.urls import TableUrls

_KEPT_BYTES: Final = 8 << 20
"""A range is examined before its first line leaves; so much of its first commits, as JSON, is kept for the second walk.

Decoded they take about twice as much.
"""


class _Commit(msgspec.Struct, frozen=True):
    """A commit, and what the version before says of files that it removes."""

    commit: CommitChanges
    changes: Sequence[Numbered]
    """Those that count and are shared."""
    removed: Mapping[str, RemovedFile]
    sight: Sight
    """What the recipient sees under the metadata that the commit leaves."""
    concealed: frozenset[str] | None
    """As in `Sight`, of that metadata and of the one before, which removed files have their partition values by."""


class _Keys(msgspec.Struct, frozen=True):
    """What an answer is signed with and bound to, at hand before its first line."""

    urls: TableUrls
    signer: TokenSigner | None
    """None where no token can be asked for."""
    log_id: str
    response_format: ResponseFormat
    partition_columns: Sequence[str]


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the changes of a range of versions."""

    sharing: Sharing
    table: SharedTable
    options: ResponseOptions
    log: DeltaLog
    head: Snapshot
    """Whose protocol and metadata head the answer."""
    binding: PageBinding
    first: int
    last: int
    """The range, both included."""
    latest: int
    """The table's latest version when the first page was answered."""
    page: PageClaims | None
    """What the first page pinned, and where this one starts: (version, number of the change in its commit)."""
    max_files: int | None
    feed: bool
    """Whether this is the change data feed, which every version of the range must have recorded, or a query."""
    historical_metadata: bool
    historical_protocol: bool
    ends: bool

    def pin(self) -> PageClaims:
        """Return where the answer begins, for whoever asks for it later; what can be refused is refused now."""
        live, _, _ = self._examine(self.log.commits(self.first, self.last))
        response_format = negotiate(live, self.options)
        return PageClaims(self.first, self.last, self.latest, response_format, self.head.metadata.id, ())

    def answer(self) -> Answer:
        """Answer; what can be refused is refused before a line."""
        if self.page is not None:
            self.page.check_log(self.head.metadata.id)
        commits = self.log.commits(self._resumes_at[0], self.last)
        live, kept, files = self._examine(commits)
        response_format = self.page.response_format if self.page else negotiate(live, self.options)
        version = self.head.version
        stamped = version if self.historical_protocol and response_format == "delta" else None
        opening = head_lines(self.table, self.head, response_format, version=version, protocol_version=stamped)
        later = self._seen(commits.read(len(kept)), kept[-1].sight if kept else None)
        access = self.table.caller.access
        access.note(endVersion=self.last)
        # Whatever can be refused for good, or fail for want of a key, is asked for before the 200 begins.
        urls = self.sharing.urls(self.table)
        signer = None if self.max_files is None else self.sharing.signer
        told = sight_of(self.table.rights, self.head.metadata).metadata
        keys = _Keys(urls, signer, self.head.metadata.id, response_format, told.partition_columns)
        return Answer(
            version=self.first,
            response_format=response_format,
            options=self.options,
            chunks=chain((opening,), self._lines(chain(kept, later), keys, access.tally)),
            negotiated_end=self.options.capabilities.include_end_stream_action,
            weight=lambda: weight_of(files if self.max_files is None else min(files, self.max_files), urls),
        )

    def _examine(self, commits: CommitRange) -> tuple[frozenset[str], list[_Commit], int]:
        """Walk the range, so that nothing in it that must be refused is met after the 200 has begun.

        Returns the features that are live in it, the first commits, and how many files it names. The first page walks
        all of it; a later one, whose format is settled, no further than it reaches.
        """
        protocol, metadata = self.head.protocol, self.head.metadata
        live = features.live_features(protocol, metadata)
        if self.page is None:
            start = self.head if self.head.version == self.first else self.log.snapshot(self.first)
            protocol, metadata = start.protocol, start.metadata
            live |= features.live_features(protocol, metadata)
            check_hidden(self.table.rights, protocol, metadata)
            self._check_recorded(metadata, self.first)
        kept: list[_Commit] = []
        room, files = _KEPT_BYTES, 0
        for found in self._seen(commits.read(0, self._commits_at_once), None):
            commit = found.commit
            if commit.protocol is not None:
                protocol = commit.protocol
                features.check_readable(protocol)
            if commit.metadata is not None:
                metadata = commit.metadata
                self._check_recorded(metadata, commit.version)
            if commit.protocol or commit.metadata:
                check_hidden(self.table.rights, protocol, metadata)
            for _, change in found.changes:
                if isinstance(change, FileChange):
                    check_place(change, self.table.locations)
            has_vectors = any(_has_vector(change) for _, change in found.changes)
            if has_vectors or commit.protocol or commit.metadata:
                live |= features.live_features(protocol, metadata, has_deletion_vectors=has_vectors)
            room -= commit.size
            if room >= 0:
                kept.append(found)
            files += sum(isinstance(change, FileChange) for _, change in self._left(found))
            if self.page is not None and self.max_files is not None and files > self.max_files:
                break
        return live, kept, files

    def _seen(self, commits: Iterable[CommitChanges], sight: Sight | None) -> Iterator[_Commit]:
        """Yield commits with what counts of them and is seen; `sight` is that of the commit before the first."""
        rights = self.table.rights
        for commit in commits:
            if commit.metadata is not None and rights.are_narrowed:
                sight = sight_of(rights, commit.metadata)
            elif sight is None:
                before = self.log.snapshot(commit.version) if rights.are_narrowed else self.head
                sight = sight_of(rights, before.metadata)
            yield self._counted(commit, sight)

    def _counted(self, commit: CommitChanges, sight: Sight) -> _Commit:
        changes = commit.change_data() if self.feed else commit.data()
        if self.feed and divides_updates(commit, changes, sight):
            changes = commit.data()
        shared = list(enumerate(changes))
        if commit.version == self.table.gate.start_version > 0:
            shared = first_changes(changes, feed=self.feed)
        removed = find_removed(self.log, commit.version, [change for _, change in shared])
        if sight.concealed is None:
            return _Commit(commit, shared, removed, sight, None)
        before = self._sight_before(commit, sight, shared)
        shared = seen_changes(self.sharing, self.table, shared, removed, sight=sight, before=before)
        return _Commit(commit, shared, removed, sight, sight.concealed | (before.concealed or frozenset()))

    def _sight_before(self, commit: CommitChanges, sight: Sight, changes: Sequence[Numbered]) -> Sight:
        """Return what is seen under the metadata that removed files are from, which is rarely another one."""
        removes = any(isinstance(one, FileChange) and isinstance(one.action, Remove) for _, one in changes)
        if commit.metadata is None or not removes:
            return sight
        return sight_of(self.table.rights, self.log.snapshot(commit.version - 1).metadata)

    def _check_recorded(self, metadata: Metadata, version: int) -> None:
        """Refuse a change feed over a version that did not record change data, as the reference does."""
        if self.feed and self.page is None and not features.change_data_enabled(metadata):
            raise InvalidParameter(
                f"Error getting change data for range [{self.first}, {self.last}] as change data was not recorded for "
                f"version [{version}]"
            )

    @property
    def _commits_at_once(self) -> int | None:
        """How many commits are fetched at first: a later page may be full with as many as it has files."""
        return None if self.page is None or self.max_files is None else self.max_files + 1

    @property
    def _resumes_at(self) -> tuple[int, int]:
        """The version and the number of the change in its commit that this page starts with."""
        if self.page is None or not self.page.position:
            return self.first, 0
        version, number = self.page.position
        return int(version), int(number)

    def _left(self, found: _Commit) -> Sequence[Numbered]:
        """Return the changes of a commit that were not on the pages before."""
        version, first = self._resumes_at
        if not first or found.commit.version != version:
            return found.changes
        return [(number, change) for number, change in found.changes if number >= first]

    def _lines(self, commits: Iterable[_Commit], keys: _Keys, tally: Tally) -> Iterator[bytes]:
        response_format = keys.response_format
        scheme = self.options.scheme(response_format)
        changes = ChangeLines(keys.urls, response_format, scheme, keys.partition_columns)
        files = 0
        following: ResumePoint | None = None
        tally.other_lines += HEAD_LINES
        tally.files = 0
        for found in commits:
            commit = found.commit
            out: list[bytes] = []
            for number, change in self._left(found):
                if not isinstance(change, FileChange):
                    historical = self._historical(found, change, response_format)
                    tally.other_lines += bool(historical)
                    out.append(historical)
                    continue
                # A page ends where the next file would be one too many, so metadata stays with the files before it.
                if files == self.max_files:
                    following = (commit.version, number)
                    break
                out.append(changes.line(commit, change, found.removed, found.concealed))
                _count(tally, change, found.removed)
                files += 1
            if joined := b"".join(out):
                yield joined
            if following is not None:
                break
        if self.ends:
            tally.other_lines += 1
            yield self._end(keys, following, keys.urls.expires_at_ms if files else None)

    def _historical(self, found: _Commit, change: Metadata | Protocol, response_format: ResponseFormat) -> bytes:
        """Return the line of metadata or a protocol that a commit after the first sets, where they are asked for."""
        commit = found.commit
        if commit.version == self.first:
            return b""
        if isinstance(change, Metadata):
            if not self.historical_metadata:
                return b""
            told = sight_of(self.table.rights, change).metadata
            return lines.metadata(response_format, wire_metadata(self.table, told, version=commit.version))
        if not self.historical_protocol or response_format != "delta":
            return b""
        return lines.protocol(response_format, msgspec.json.decode(change.raw), version=commit.version)

    def _end(self, keys: _Keys, following: ResumePoint | None, expires_at_ms: int | None) -> bytes:
        token = None
        if keys.signer is not None and following is not None:
            page = PageClaims(self.first, self.last, self.latest, keys.response_format, keys.log_id, following)
            token = seal_page_token(keys.signer, self.binding, page, now=self.sharing.clock())
        return lines.end_stream_action(lines.EndStreamAction(next_page_token=token, min_url_expiration=expires_at_ms))


def _count(tally: Tally, change: FileChange, removed: Mapping[str, RemovedFile]) -> None:
    """Count one file that was signed, and its deletion vector's."""
    action = change.action
    size = removed[action.path][1] if action.path in removed else action.size
    tally.add(1, size or 0)
    if isinstance(action, AddCdcFile):
        tally.change_files += 1
        return
    tally.removed_files += isinstance(action, Remove)
    vector = action.deletion_vector
    if vector is not None and deletion_vectors.file_path(vector.storage_type, vector.path_or_inline_dv) is not None:
        tally.deletion_vectors += 1


def _has_vector(change: Change) -> bool:
    """Tell whether only a reader of deletion vectors reads a change right.

    A remove with one takes away the rows that were left, where a bare remove takes away the whole file.
    """
    if not isinstance(change, FileChange) or isinstance(change.action, AddCdcFile):
        return False
    return change.action.deletion_vector is not None
