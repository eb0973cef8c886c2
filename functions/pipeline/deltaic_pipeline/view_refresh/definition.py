"""Describe a view and its audiences, as read from the catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Shared Delta table that a view reads."""

    name: str
    location: str


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a view: the location of its table, its SQL, and its source tables."""

    name: str
    location: str
    sql: str
    source: SourceTable
    others: Mapping[str, SourceTable] = field(default_factory=dict)
    """Other shared tables that the SQL reads, by name as in `ViewSql.tables`."""

    key: tuple[str, ...] = ()
    """Columns that identify a row within one audience (`Audience`); empty: rows are compared by all columns."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Combination of values of the recipient properties in a view's SQL, for which the view has separate rows."""

    name: str
    values: Mapping[str, str | tuple[str, ...]]
    """Value of each property. SQL for one value selects no rows for a list; SQL for a list accepts one value too."""
