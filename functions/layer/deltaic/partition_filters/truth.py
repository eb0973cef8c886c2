"""Holds SQL's three answers and the sets of them that are possible, where what a file's values say is not certain.

A set is a number of three bits. What is certain is a set of one; a condition shows a file only if TRUE is alone in its
set. The answers are ordered as AND and OR order them: AND is the least of its answers, OR the greatest.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

Truth: TypeAlias = int

FALSE: Final[Truth] = 1
UNKNOWN: Final[Truth] = 2
TRUE: Final[Truth] = 4
ANY: Final[Truth] = FALSE | UNKNOWN | TRUE

_ANSWERS: Final = (FALSE, UNKNOWN, TRUE)


def _combined(of: Callable[[int, int], int]) -> tuple[tuple[Truth, ...], ...]:
    """Return for each two sets the answers that one of each can make together."""

    def together(left: Truth, right: Truth) -> Truth:
        found = 0
        for one in _ANSWERS:
            for other in _ANSWERS:
                if one & left and other & right:
                    found |= of(one, other)
        return found

    return tuple(tuple(together(left, right) for right in range(8)) for left in range(8))


BOTH: Final = _combined(min)
EITHER: Final = _combined(max)
OPPOSITE: Final = tuple((one & UNKNOWN) | (TRUE * bool(one & FALSE)) | (FALSE * bool(one & TRUE)) for one in range(8))


def truth(*, may_hold: bool, may_fail: bool) -> Truth:
    """Return the set for what is never unknown."""
    return TRUE * may_hold | FALSE * may_fail
