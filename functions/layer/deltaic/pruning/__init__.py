"""Decides which files may hold a row that a query asks for: the text of its hints in, a filter of files out.

A file is dropped only when what the log says of it proves that no row of it makes the hints true; whatever is not
understood, not told or not certain keeps it. One hint, on a table partitioned by `day`, all the way down:

    sql_hints, json_hints   "price < 5 AND NOT (day = DATE '2026-01-02')"
    expressions             And(price < '5', Not(day = '2026-01-02'))
    binding, intervals      all of: price < [5, 5] on the axis of decimals; day <> [20455, 20455] on that of integers

    file   partition_facts     statistics_facts            column_tests: may some row pass?
    a      day = 2026-01-01    3.00 <= price <= 9.00       day: yes; price: 3.00 < 5, yes           kept
    b      day = 2026-01-02    (not looked at)             day: every row is the one excluded       dropped
    c      day = 2026-01-01    5.00 <= price <= 9.00       day: yes; price: 5.00 < 5, no            dropped
    d      day = 2026-01-01    none                        day: yes; price: nothing is known        kept

`skipper` goes from step to step. A NOT is moved inwards to the tests, each of which has an opposite of its own, so that
"may some row pass?" is all that is ever asked and no answer is inverted. Nothing is known of the rest of the product.
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
"""Modules that are imported when the first hint comes; a snapshot of the process has them already."""


def predicate_of(sql_hints: Sequence[str], json_hints: str | None) -> "Expression | None":
    """Return what `predicateHints` and `jsonPredicateHints` say together; None where they filter nothing.

    Hints are best effort (PROTOCOL.md, "Read Data from a Table"): none is refused, and what cannot be read selects
    everything.
    """
    if not sql_hints and not json_hints:
        return None
    # Most queries carry no hints: they do not pay for the imports of the parsers.
    from deltaic.pruning.expressions import conjunction
    from deltaic.pruning.json_hints import parse_json
    from deltaic.pruning.sql_hints import parse_sql

    return conjunction(parse_sql(sql_hints), parse_json(json_hints or ""))


def file_filter(predicate: "Expression | None", metadata: "TableMetadata") -> "Skipper | None":
    """Return what prunes by a predicate; None where every file is kept."""
    if predicate is None:
        return None
    from deltaic.pruning.skipper import Skipper

    skipper = Skipper(predicate, metadata)
    return None if skipper.keeps_everything else skipper
