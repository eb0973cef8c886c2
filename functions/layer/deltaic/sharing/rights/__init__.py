"""Decide what a recipient can read: grants, row filters, limits and hidden tables."""

from typing import Final

BEFORE_SNAPSHOT: Final = ("deltaic.sharing.rights.row_filters",)
"""Modules that the first filtered table imports. A snapshot of the process contains them."""
