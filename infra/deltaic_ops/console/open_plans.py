"""Which plans may be carried out: those that were shown, each once, and as it was shown."""

import secrets
from typing import Final

from deltaic.errors import Conflict

from deltaic_ops.console.plans import Plan

_MOST: Final = 200


class OpenPlans:
    """The plans that were shown and not carried out; each is carried out once, however often its form is sent."""

    def __init__(self) -> None:
        self._shown: dict[str, Plan] = {}

    def opened(self, plan: Plan) -> str:
        """Return the number of a new one."""
        number = secrets.token_urlsafe(16)
        self._shown[number] = plan
        if len(self._shown) > _MOST:
            self._shown.pop(next(iter(self._shown)), None)
        return number

    def taken(self, number: str, plan: Plan) -> None:
        """Close one; raises Conflict where it is none, or closed, or was another plan when it was shown."""
        shown = self._shown.pop(number, None)
        if shown is None:
            raise Conflict("this was done already, or planned in an earlier run: plan it again")
        if shown != plan:
            raise Conflict("what it would do has changed since it was planned: plan it again")
