"""Decide what a recipient can read: row filters, hidden columns, and restrictions such as limits."""

from typing import Final

BEFORE_SNAPSHOT: Final = ("deltaic.sharing.rights.row_filters",)
"""Modules that the first filtered table imports, so that SnapStart imports them in advance."""
