"""Select the files that may contain rows for a query's hints.

A file is dropped only if the log proves that none of its rows can match; missing or unclear statistics keep it.
Example: one hint for a table partitioned by `day`.

    sql_hints, json_hints   parse "price < 5 AND NOT (day = DATE '2026-01-02')"
    expressions             And(price < '5', Not(day = '2026-01-02'))
    predicate_binding,      all of: price < [5, 5], compared as decimals; day <> [20455, 20455], compared as integers
      intervals

    file   partition_facts     statistics_facts            column_tests: may a row pass?
    a      day = 2026-01-01    3.00 <= price <= 9.00       day: yes; price: 3.00 < 5, yes           kept
    b      day = 2026-01-02    (not read)                  day: no, every row has this day          dropped
    c      day = 2026-01-01    5.00 <= price <= 9.00       day: yes; price: 5.00 < 5, no            dropped
    d      day = 2026-01-01    none                        day: yes; price: unknown, yes            kept

`skipper` runs these steps. NOT is moved inwards to the tests, each of which has an opposite, so that no result is ever
inverted. The package does not depend on the rest of the product.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltaic.pruning.columns import TableMetadata
    from deltaic.pruning.expressions import Expression
    from deltaic.pruning.skipper import Skipper

BEFORE_SNAPSHOT: Final = (
    "deltaic.pruning.json_hints",
    "deltaic.pruning.redacted_predicate",
    "deltaic.pruning.skipper",
    "deltaic.pruning.sql_hints",
    "deltaic.pruning.sql_tree",
    "sqlglot.dialects.databricks",
)
"""Modules that the first hint imports; a SnapStart snapshot contains them already."""


def parse_hints(sql_hints: Sequence[str], json_hints: str | None) -> "Expression | None":
    """Return the predicate of `predicateHints` and `jsonPredicateHints`; None if they filter nothing.

    Hints are best effort (PROTOCOL.md, "Read Data from a Table"): no hint raises an error, and an unreadable one
    selects all rows.
    """
    if not sql_hints and not json_hints:
        return None
    # Most queries have no hints, so they should not import the parsers.
    from deltaic.pruning.expressions import conjunction
    from deltaic.pruning.json_hints import parse_json
    from deltaic.pruning.sql_hints import parse_sql

    return conjunction(parse_sql(sql_hints), parse_json(json_hints or ""))


def file_filter(predicate: "Expression | None", metadata: "TableMetadata") -> "Skipper | None":
    """Return a filter of files by a predicate; None if it keeps every file."""
    if predicate is None:
        return None
    from deltaic.pruning.skipper import Skipper

    skipper = Skipper(predicate, metadata)
    return None if skipper.keeps_everything else skipper
