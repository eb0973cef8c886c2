"""Select the changes of a commit that a recipient may see.

A commit describes the difference between two versions. If the earlier version is not shared, the response omits files
that would reveal its rows: removed files, and change data files, which contain old and new rows (decision 22).

If an update moves a row from a visible partition to a hidden one, a cdc file of the first partition has the old row,
and a cdc file of the second has the new row. A recipient who gets only one of these files cannot know that the row was
deleted. Neither the cdc files nor row counts show whether this happened: two rows may have swapped partitions. So the
response has cdc files only for commits that cannot have moved rows. Other commits are shown by their removed and added
files: all rows of removed files are deleted, and all rows of added files are inserted, including unchanged rows.
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
"""Change with its index among the selected changes of its commit, for page tokens."""


class DataChanges:
    """Selector of the added and removed files of a commit, for a query with a starting version."""

    @staticmethod
    def visible_changes(commit: CommitChanges, _visibility: TableVisibility, table: SharedTable) -> list[Numbered]:
        """Return a commit's added and removed files; only added files if it created the first shared version."""
        is_first = _is_first(commit, table)
        return [(number, change) for number, change in enumerate(commit.data()) if not is_first or _adds(change)]

    @staticmethod
    def check(metadata: Metadata, version: int, first: int, last: int) -> None:
        """Accept every version, because every commit records its added and removed files."""


class ChangeFeed:
    """Selector of the row-level changes of a commit, for the change data feed."""

    @staticmethod
    def visible_changes(commit: CommitChanges, visibility: TableVisibility, table: SharedTable) -> list[Numbered]:
        """Return a commit's row-level changes; only new files if it created the first shared version.

        A file that the commit removes and adds again with another deletion vector is not new: the two actions mean that
        some of its rows were deleted.
        """
        changes = commit.change_data()
        if _may_split_updates(commit, changes, visibility, table):
            changes = commit.data()
        if not _is_first(commit, table):
            return list(enumerate(changes))
        paths = [canonical_path(change.path) if isinstance(change, FileChange) else None for change in changes]
        removed = {path for path, change in zip(paths, changes, strict=True) if isinstance(change, Remove)}
        pairs = zip(changes, paths, strict=True)
        return [(at, change) for at, (change, path) in enumerate(pairs) if _adds(change) and path not in removed]

    @staticmethod
    def check(metadata: Metadata, version: int, first: int, last: int) -> None:
        """Raise InvalidParameter for a version without recorded change data, as the reference server does."""
        if not features.change_data_enabled(metadata):
            raise InvalidParameter(
                f"Error getting change data for range [{first}, {last}] as change data was not recorded for "
                f"version [{version}]"
            )


class VisibleCommit(msgspec.Struct, frozen=True):
    """Commit as one recipient may see it."""

    commit: CommitChanges
    changes: Sequence[Numbered]
    """Changes that the recipient may see."""
    removed: Mapping[str, RemovedFile]
    visibility: TableVisibility
    """What the recipient may see in the version that the commit created; applies to added files."""
    before: TableVisibility
    """What the recipient may see in the previous version; applies to removed files."""


class VisibleCommits(msgspec.Struct, frozen=True):
    """Reader of commits, as one recipient may see them."""

    sharing: Sharing
    table: SharedTable
    log: DeltaLog
    head: Snapshot
    """Snapshot whose metadata is used for all versions of an unfiltered table."""
    kind: type[DataChanges] | type[ChangeFeed]

    def read(self, commits: Iterable[CommitChanges], visibility: TableVisibility | None) -> Iterator[VisibleCommit]:
        """Yield commits with their visible changes; `visibility` is that of the previous commit, if known."""
        rights = self.table.rights
        for commit in commits:
            if commit.metadata is not None and rights.are_filtered:
                visibility = visibility_of(rights, commit.metadata)
            elif visibility is None:
                snapshot = self.log.snapshot(commit.version) if rights.are_filtered else self.head
                visibility = visibility_of(rights, snapshot.metadata)
            yield self._visible(commit, visibility)

    def _visible(self, commit: CommitChanges, visibility: TableVisibility) -> VisibleCommit:
        changes = self.kind.visible_changes(commit, visibility, self.table)
        removed = find_removed(self.log, commit.version, [change for _, change in changes])
        if not visibility.is_filtered:
            if self.head.inlines_vectors:
                changes = self._with_inline_vectors(changes)
            return VisibleCommit(commit, changes, removed, visibility, visibility)
        before = self._visibility_before(commit, visibility, changes)
        changes = self._with_inline_vectors(_visible_changes(changes, removed, visibility, before))
        return VisibleCommit(commit, changes, removed, visibility, before)

    def _visibility_before(
        self, commit: CommitChanges, visibility: TableVisibility, changes: Sequence[Numbered]
    ) -> TableVisibility:
        """Return the visibility in the previous version, which differs only if the commit changes metadata."""
        if commit.metadata is None or not any(isinstance(change, Remove) for _, change in changes):
            return visibility
        return visibility_of(self.table.rights, self.log.snapshot(commit.version - 1).metadata)

    def _with_inline_vectors(self, changes: Sequence[Numbered]) -> list[Numbered]:
        tracked = {number: change for number, change in changes if isinstance(change, Add | Remove)}
        inline = actions_with_inline_vectors(self.sharing, self.table, list(tracked.values()))
        actions = dict(zip(tracked, inline, strict=True))
        return [(number, actions.get(number, change)) for number, change in changes]


def _visible_changes(
    changes: Sequence[Numbered],
    removed: Mapping[str, RemovedFile],
    visibility: TableVisibility,
    before: TableVisibility,
) -> list[Numbered]:
    """Return changes of visible files: removed files by `before` (of the previous version), others by `visibility`."""

    def is_visible(change: Change) -> bool:
        if not isinstance(change, FileChange):
            return True
        is_removed = isinstance(change, Remove)
        file = removed.get(change.path) if is_removed else None
        values = to_text_map(change.partition_values) if file is None else file[0]
        return (before if is_removed else visibility).shows(values)

    return [(number, change) for number, change in changes if is_visible(change)]


def _is_first(commit: CommitChanges, table: SharedTable) -> bool:
    """Return whether a commit created the first shared version, and earlier versions exist."""
    return commit.version == table.gate.start_version > 0


def _adds(change: Change) -> bool:
    return not isinstance(change, Remove | AddCdcFile)


def _may_split_updates(
    commit: CommitChanges, changes: Sequence[Change], visibility: TableVisibility, table: SharedTable
) -> bool:
    """Return whether an update may have only one of its two rows (old and new) in a visible cdc file.

    A refresh of a view never moves rows between audiences, the groups of recipients that see the same rows.
    """
    if visibility.partition_filter is None:
        return False
    recorded = [to_text_map(change.partition_values) for change in changes if isinstance(change, AddCdcFile)]
    if any(not visibility.partition_filter.columns.keys() <= values.keys() for values in recorded):
        # Without partition values, the rows of a cdc file may belong to any partition.
        return True
    if len({visibility.shows(values) for values in recorded}) < 2:  # noqa: PLR2004 -- visible and hidden
        return False
    if _is_first(commit, table):
        return True
    if table.entry.view_properties is not None:
        return not _is_refresh(commit.mark)
    # The new metadata may change which partition a row belongs to.
    return commit.metadata is not None or not commit.updates_none


def _is_refresh(mark: str) -> bool:
    """Return whether a commit's userMetadata (`mark`) is that of a view's refresh (`deltaic_pipeline.view_refresh`)."""
    try:
        return "view" in msgspec.json.decode(mark, type=dict[str, object])
    except msgspec.DecodeError:
        return False
