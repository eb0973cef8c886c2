"""Decides how the hints of a query become one predicate: all SQL hints and the JSON hint, joined by AND."""

from deltaic.expressions import And, Expression
from deltaic.protocol.predicates.json_hints import parse_json
from deltaic.protocol.predicates.sql_hints import parse_sql

__all__ = ["combine", "parse_json", "parse_sql"]


def combine(*predicates: Expression | None) -> Expression | None:
    """Return the conjunction of what is there; None, which selects everything, when nothing is."""
    present = tuple(predicate for predicate in predicates if predicate is not None)
    if len(present) > 1:
        return And(present)
    return present[0] if present else None
