"""What a view is made of, and for which recipients' properties: frozen values that the catalog's entries become."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A shared Delta table that a view reads."""

    name: str
    location: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A view: where its table lies, and the SQL that its rows are the answer of."""

    name: str
    location: str
    sql: str
    source: SourceTable
    others: Mapping[str, SourceTable] = field(default_factory=dict)
    """Every other shared table that the SQL names (`ViewSql.tables`), by that name."""

    key: tuple[str, ...] = ()
    """Columns that name a row of one audience; empty: rows are compared as a whole."""


@dataclass(frozen=True, slots=True)
class Audience:
    """One combination of the properties that the SQL uses, which the view shall hold the rows of."""

    name: str
    values: Mapping[str, str | tuple[str, ...]]
    """Each property that the SQL uses; a list where one value is wanted shows no rows, one value is a list of one."""
