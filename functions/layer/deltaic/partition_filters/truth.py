"""Sets of possible results (TRUE, FALSE, UNKNOWN) of SQL conditions on uncertain values.

A set is a bit mask. A certain result has one bit, and a file is visible only if the result is exactly TRUE. The values
are ordered so that AND is the minimum and OR the maximum.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

Truth: TypeAlias = int

FALSE: Final[Truth] = 1
UNKNOWN: Final[Truth] = 2
TRUE: Final[Truth] = 4
ANY: Final[Truth] = FALSE | UNKNOWN | TRUE

_VALUES: Final = (FALSE, UNKNOWN, TRUE)


def _lookup_table(operator: Callable[[int, int], int]) -> tuple[tuple[Truth, ...], ...]:
    """Return a table with the possible results of an operator for each pair of sets of operands."""

    def results(left_set: Truth, right_set: Truth) -> Truth:
        result = 0
        for first in _VALUES:
            for second in _VALUES:
                if first & left_set and second & right_set:
                    result |= operator(first, second)
        return result

    return tuple(tuple(results(first, second) for second in range(8)) for first in range(8))


AND: Final = _lookup_table(min)
OR: Final = _lookup_table(max)
NOT: Final = tuple((mask & UNKNOWN) | (TRUE * bool(mask & FALSE)) | (FALSE * bool(mask & TRUE)) for mask in range(8))


def truth(*, may_hold: bool, may_fail: bool) -> Truth:
    """Return the set of possible results of a condition that cannot be UNKNOWN."""
    return TRUE * may_hold | FALSE * may_fail
