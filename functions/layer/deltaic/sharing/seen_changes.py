"""Decides what of a commit's changes a recipient sees from whom something is kept back.

A row that moves from a partition which is seen to one that is not is an update in the log: its old state stands in a
cdc file of the one, its new state in a cdc file of the other. Half of an update tells nobody that the row is gone. No
cdc file says whether it holds such a half, so a commit whose updates may be divided is told by the files that it
removed and added: what is gone is deleted and what came is inserted, unchanged rows of the same files included.
"""

from collections.abc import Mapping, Sequence

from deltaic.delta.actions import AddCdcFile, Remove, text_map
from deltaic.delta.changes import Change, CommitChanges, FileChange
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.first_version import Numbered
from deltaic.sharing.lines.change_lines import RemovedFile
from deltaic.sharing.own_vectors import actions_with_own_vectors
from deltaic.sharing.sight import Sight


def divides_updates(commit: CommitChanges, changes: Sequence[Change], sight: Sight) -> bool:
    """Tell whether some of the commit's cdc files are seen and others are not, so that updates may be divided."""
    if sight.kept is None or commit.only_deletes:
        return False
    seen = {
        sight.sees(text_map(change.action.partition_values))
        for change in changes
        if isinstance(change, FileChange) and isinstance(change.action, AddCdcFile)
    }
    return len(seen) > 1


def seen_changes(  # noqa: PLR0913 -- what a commit consists of
    sharing: Sharing,
    table: SharedTable,
    changes: Sequence[Numbered],
    removed: Mapping[str, RemovedFile],
    *,
    sight: Sight,
    before: Sight,
) -> list[Numbered]:
    """Return the changes of files that are seen, with their deletion vectors inline, and what is no file's.

    A file that is removed is judged by what was seen `before`: its partition values are those of the columns that the
    table had then.
    """

    def is_seen(change: Change) -> bool:
        if not isinstance(change, FileChange):
            return True
        is_gone = isinstance(change.action, Remove)
        known = removed.get(change.action.path) if is_gone else None
        values = text_map(change.action.partition_values) if known is None else known[0]
        return (before if is_gone else sight).sees(values)

    seen = [(number, change) for number, change in changes if is_seen(change)]
    tracked = {
        number: change.action
        for number, change in seen
        if isinstance(change, FileChange) and not isinstance(change.action, AddCdcFile)
    }
    own = dict(zip(tracked, actions_with_own_vectors(sharing, table, list(tracked.values())), strict=True))
    return [(number, FileChange(own[number]) if number in own else change) for number, change in seen]
