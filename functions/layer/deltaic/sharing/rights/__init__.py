"""Decide what a recipient can read: row filters, hidden columns, and restrictions such as limits."""

from typing import Final

BEFORE_SNAPSHOT: Final = ("deltaic.sharing.rights.row_filters",)
"""Modules that the first filtered table imports. A snapshot of the process contains them."""
