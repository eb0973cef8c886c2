"""Decide what a recipient can read: grants, row filters, limits and hidden tables."""

from typing import Final

BEFORE_SNAPSHOT: Final = ("deltaic.sharing.rights.row_filters",)
"""Modules that are imported for the first table with a filter; a snapshot of the process has them already."""
