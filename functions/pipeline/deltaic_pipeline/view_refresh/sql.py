"""The SQL of a view as it is written: what it reads, which properties it asks for, and whether rows stand alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ViewSql:
    """A SELECT that a view may be made of."""

    text: str
    properties: frozenset[str]
    """What `current_recipient('...')` names."""

    tables: tuple[str, ...]
    """The other shared tables that it reads: full names `share.schema.table`, each once."""

    row_wise: bool
    """Whether each row of the source gives at most one row by itself, so that changes of the source can be followed."""

    why_full: str
    """Why every refresh computes all rows; empty where rows stand alone."""


def read_sql(text: str, source: str = "") -> ViewSql:
    """Return what a view's SQL says; `source` is the full name of the --from table, which it may use for `source`.

    Needs no Spark. Raises `InvalidParameter` with line, column and remedy for whatever is not one deterministic SELECT
    over shared tables.
    """
    raise NotImplementedError(text, source)
