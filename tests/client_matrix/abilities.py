"""Abilities and outcomes of the matrix, in the order of the page."""

from typing import Final

ABILITIES: Final = {
    "plain": "a table without table features",
    "partitions": "partition columns with nulls, spaces, quotes, slashes, `%` and letters outside ASCII",
    "deletion vectors": "in files, and inside the log",
    "column mapping": "by name and by id, switched on later, renamed, nested and partition columns, odd names",
    "time travel": "an earlier version",
    "change feed": "all changes of a table, also one with deletion vectors",
    "filters": "a recipient's own rows of a table with a partition filter",
    "views": "the rows of a recipient's audience",
    "Iceberg vended": "Iceberg's REST catalog with credentials",
    "Iceberg signed": "Iceberg's REST catalog with signed requests",
    "directory access": "a table's folder with temporary credentials",
    "OAuth profile": "the client requests tokens itself, with a client id and a secret or its own key",
}
"""Each ability, and what was read to test it."""

YES: Final = "yes"
NO: Final = "no"
WRONG: Final = "silently wrong"
NOT_TRIED: Final = "not tried"
OUTCOMES: Final = (YES, NOT_TRIED, NO, WRONG)
"""Outcomes, the worst last: that of an ability is the worst of its tables."""
