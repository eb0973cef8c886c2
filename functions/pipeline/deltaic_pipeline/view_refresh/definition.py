"""Definition of a view and of its audiences, as read from the catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Shared Delta table that a view reads."""

    name: str
    location: str


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a view: the location of its table, its SQL, and the tables that it reads."""

    name: str
    location: str
    sql: str
    source: SourceTable
    others: Mapping[str, SourceTable] = field(default_factory=dict)
    """Other shared tables that the SQL reads (`ViewSql.tables`), by name."""

    key: tuple[str, ...] = ()
    """Columns that identify a row of one audience; empty: all columns are compared."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Combination of values of the SQL's properties, for which the view has rows."""

    name: str
    values: Mapping[str, str | tuple[str, ...]]
    """Value of each property. A list instead of a single value selects no rows; a single value is a list of one."""
