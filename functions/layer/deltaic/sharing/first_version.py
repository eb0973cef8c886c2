"""Decides what the first shared version tells of its own commit: what it added, and nothing that it took away.

A commit says how a version came about from the one before, and that one is not shared. So whatever was live only there
stays untold: removed files, and change data files, which hold rows as they were before beside rows as they are
(decision 22).
"""

from collections.abc import Sequence
from typing import TypeAlias

from deltaic.delta.actions import Add, Remove
from deltaic.delta.changes import Change, FileChange
from deltaic.delta.logical_files import canonical_path

Numbered: TypeAlias = tuple[int, Change]
"""A change, and its number among those of its commit that count: page tokens name it."""


def first_changes(changes: Sequence[Change], *, feed: bool) -> list[Numbered]:
    """Return what may be told of the first shared version's changes.

    A query since a version gets the adds. A change feed gets those of new files: a file that the commit removes and
    adds with another deletion vector had its rows before, and what the pair tells is which of them went.
    """
    removed = {
        canonical_path(change.action.path)
        for change in changes
        if isinstance(change, FileChange) and isinstance(change.action, Remove)
    }

    def is_told(change: Change) -> bool:
        if not isinstance(change, FileChange):
            return True
        action = change.action
        return isinstance(action, Add) and not (feed and canonical_path(action.path) in removed)

    return [(number, change) for number, change in enumerate(changes) if is_told(change)]
