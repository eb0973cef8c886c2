"""Decides which of a commit's changes a recipient sees: in a query, in a change feed, and where something is kept back.

A commit says how a version came about from the one before. Where that one is not shared, whatever was live only there
stays untold: removed files, and change data files, which hold rows as they were before beside rows as they are
(decision 22).

A row that moves from a partition which is seen to one that is not is an update in the log: its old state stands in a
cdc file of the one, its new state in a cdc file of the other. Half of an update tells nobody that the row is gone. No
cdc file says whether it holds such a half, and neither do numbers of rows, which two rows that change places leave as
they are. So cdc files are told where no row can have moved, and other commits by the files that they removed and added:
what is gone is deleted and what came is inserted, unchanged rows of the same files included.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from deltaic.delta import features
from deltaic.delta.actions import Add, AddCdcFile, Metadata, Remove, to_text_map
from deltaic.delta.commit_changes import Change, CommitChanges, FileChange
from deltaic.delta.log import DeltaLog
from deltaic.delta.logical_files import canonical_path
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import InvalidParameter
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.inline_deletion_vectors import actions_with_inline_vectors
from deltaic.sharing.lines.change_lines import RemovedFile, find_removed
from deltaic.sharing.rights.table_visibility import TableVisibility, visibility_of

Numbered: TypeAlias = tuple[int, Change]
"""A change, and its number among those of its commit that count: page tokens name it."""


class DataChanges:
    """Changes of the table's data, which a query since a version reads."""

    @staticmethod
    def of(commit: CommitChanges, _visibility: TableVisibility, table: SharedTable) -> list[Numbered]:
        """Return the changes of a commit; of the first shared version what it added."""
        changes = enumerate(commit.data())
        return [one for one in changes if _adds(one[1])] if _is_first(commit, table) else list(changes)

    @staticmethod
    def check(metadata: Metadata, version: int, first: int, last: int) -> None:
        """Refuse nothing: every version has these changes."""


class ChangeFeed:
    """Changes as writers recorded them, row by row, which every version of a change data feed must have."""

    @staticmethod
    def of(commit: CommitChanges, visibility: TableVisibility, table: SharedTable) -> list[Numbered]:
        """Return the changes of a commit; of the first shared version what it added in new files.

        A file that the commit removes and adds with another deletion vector had its rows before, and what the pair
        tells is which of them went.
        """
        changes = commit.change_data()
        if _divides_updates(commit, changes, visibility, table):
            changes = commit.data()
        if not _is_first(commit, table):
            return list(enumerate(changes))
        paths = [canonical_path(one.action.path) if isinstance(one, FileChange) else None for one in changes]
        removed = {path for path, one in zip(paths, changes, strict=True) if _removes(one)}
        return [(at, one) for at, one in enumerate(changes) if _adds(one) and paths[at] not in removed]

    @staticmethod
    def check(metadata: Metadata, version: int, first: int, last: int) -> None:
        """Refuse a version of the range that did not record change data, as the reference does."""
        if not features.change_data_enabled(metadata):
            raise InvalidParameter(
                f"Error getting change data for range [{first}, {last}] as change data was not recorded for "
                f"version [{version}]"
            )


class VisibleCommit(msgspec.Struct, frozen=True):
    """A commit, and what the version before says of files that it removes."""

    commit: CommitChanges
    changes: Sequence[Numbered]
    """Those that count and are shared."""
    removed: Mapping[str, RemovedFile]
    visibility: TableVisibility
    """What the recipient sees under the metadata that the commit leaves."""
    before: TableVisibility
    """The same under the metadata before, which names the partition values of removed files."""


class VisibleCommits(msgspec.Struct, frozen=True):
    """Commits as one recipient sees them."""

    sharing: Sharing
    table: SharedTable
    log: DeltaLog
    head: Snapshot
    """Whose metadata stands for any other's where nothing is kept back."""
    kind: type[DataChanges] | type[ChangeFeed]

    def read(self, commits: Iterable[CommitChanges], visibility: TableVisibility | None) -> Iterator[VisibleCommit]:
        """Yield commits with what counts of them and is seen; `visibility` is that of the commit before the first."""
        rights = self.table.rights
        for commit in commits:
            if commit.metadata is not None and rights.are_filtered:
                visibility = visibility_of(rights, commit.metadata)
            elif visibility is None:
                at = self.log.snapshot(commit.version) if rights.are_filtered else self.head
                visibility = visibility_of(rights, at.metadata)
            yield self._visible(commit, visibility)

    def _visible(self, commit: CommitChanges, visibility: TableVisibility) -> VisibleCommit:
        changes = self.kind.of(commit, visibility, self.table)
        removed = find_removed(self.log, commit.version, [change for _, change in changes])
        if not visibility.is_filtered:
            return VisibleCommit(commit, changes, removed, visibility, visibility)
        before = self._visibility_before(commit, visibility, changes)
        changes = self._with_inline_vectors(_seen(changes, removed, visibility, before))
        return VisibleCommit(commit, changes, removed, visibility, before)

    def _visibility_before(
        self, commit: CommitChanges, visibility: TableVisibility, changes: Sequence[Numbered]
    ) -> TableVisibility:
        """Return what is seen under the metadata that removed files are from, which is rarely another one."""
        if commit.metadata is None or not any(_removes(one) for _, one in changes):
            return visibility
        return visibility_of(self.table.rights, self.log.snapshot(commit.version - 1).metadata)

    def _with_inline_vectors(self, changes: Sequence[Numbered]) -> list[Numbered]:
        tracked = {
            number: change.action
            for number, change in changes
            if isinstance(change, FileChange) and not isinstance(change.action, AddCdcFile)
        }
        inline = actions_with_inline_vectors(self.sharing, self.table, list(tracked.values()))
        own = dict(zip(tracked, inline, strict=True))
        return [(number, FileChange(own[number]) if number in own else change) for number, change in changes]


def _seen(
    changes: Sequence[Numbered],
    removed: Mapping[str, RemovedFile],
    visibility: TableVisibility,
    before: TableVisibility,
) -> list[Numbered]:
    """Return what is no file's, and the changes of files that are seen: of a removed one by what was seen `before`."""

    def is_seen(change: Change) -> bool:
        if not isinstance(change, FileChange):
            return True
        is_gone = _removes(change)
        full = removed.get(change.action.path) if is_gone else None
        values = to_text_map(change.action.partition_values) if full is None else full[0]
        return (before if is_gone else visibility).sees(values)

    return [(number, change) for number, change in changes if is_seen(change)]


def _is_first(commit: CommitChanges, table: SharedTable) -> bool:
    """Tell whether a commit made the first version that is shared, and others came before it."""
    return commit.version == table.gate.start_version > 0


def _adds(change: Change) -> bool:
    return not isinstance(change, FileChange) or isinstance(change.action, Add)


def _removes(change: Change) -> bool:
    return isinstance(change, FileChange) and isinstance(change.action, Remove)


def _divides_updates(
    commit: CommitChanges, changes: Sequence[Change], visibility: TableVisibility, table: SharedTable
) -> bool:
    """Tell whether cdc files that are seen may hold halves of updates whose others are in files that are not.

    A view's refresh, which shows by its mark, matches rows within their audience only.
    """
    if visibility.kept is None:
        return False
    recorded = [
        to_text_map(change.action.partition_values)
        for change in changes
        if isinstance(change, FileChange) and isinstance(change.action, AddCdcFile)
    ]
    if any(not visibility.kept.columns.keys() <= values.keys() for values in recorded):
        # Whose rows such a file holds its writer does not say: for a file that is added a null would do.
        return True
    if len({visibility.sees(values) for values in recorded}) < 2:  # noqa: PLR2004 -- seen and not seen
        return False
    if _is_first(commit, table):
        return True
    if table.entry.view_properties is not None:
        return not _is_refresh(commit.mark)
    # Under other metadata a partition may be another one than before.
    return commit.metadata is not None or not commit.updates_none


def _is_refresh(mark: str) -> bool:
    """Tell whether a commit bears the mark of a view's refresh (`deltaic_pipeline.view_refresh`)."""
    try:
        return "view" in msgspec.json.decode(mark, type=dict[str, object])
    except msgspec.DecodeError:
        return False
