"""Which plans may be carried out: those that were shown, each once."""

import secrets
from collections import deque
from typing import Final

from deltaic.errors import Conflict

_MOST: Final = 200


class OpenPlans:
    """The plans that were shown and not carried out; each is carried out once, however often its form is sent."""

    def __init__(self) -> None:
        self._numbers: deque[str] = deque(maxlen=_MOST)

    def opened(self) -> str:
        """Return the number of a new one."""
        number = secrets.token_urlsafe(16)
        self._numbers.append(number)
        return number

    def taken(self, number: str) -> None:
        """Close one; raises Conflict where it is none, or closed."""
        try:
            self._numbers.remove(number)
        except ValueError:
            raise Conflict("this was done already, or planned in an earlier run: plan it again") from None
