"""Simulate a job that dies between two requests: earlier requests have happened, and no later one does."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from faults.plays import aws_json, s3
from faults.proxy import FaultPlan, Proxy, Request

ALIVE = 1_000_000


@dataclass
class Life:
    """A limited number of changing requests, after which a job is dead."""

    changes_left: int = ALIVE
    changes: int = 0

    def passes(self, request: Request) -> bool:
        """Count a request and return whether it reaches AWS."""
        if self.changes_left == 0:
            return False
        if _changes(request):
            self.changes_left -= 1
            self.changes += 1
        return True


@contextmanager
def living(proxy: Proxy, changes_left: int = ALIVE) -> Iterator[Life]:
    """Limit the jobs behind a proxy to a number of changes.

    Afterwards every request is refused with an error that no client retries: a dead job cannot clean up, and must not
    change anything.
    """
    life = Life(changes_left)
    closed = "AccessDeniedException", "the job is dead"
    store = _Part("get", (), s3(403, "AccessDenied", "the job is dead"), life=life)
    with proxy.play_fault(store), proxy.play_fault(_Part("dynamodb", (), aws_json(400, *closed), life=life)):
        yield life


@dataclass
class _Part(FaultPlan):
    """Answers of one service to dead jobs."""

    life: Life = field(default_factory=Life)

    def matches(self, request: Request) -> bool:
        mine = (request.service == "dynamodb") == (self.service == "dynamodb")
        return mine and not self.life.passes(request)


def _changes(request: Request) -> bool:
    if request.service == "dynamodb":
        operation = request.headers["x-amz-target"].partition(".")[2]
        return operation.startswith(("Put", "Update", "Delete", "Transact", "BatchWrite"))
    return request.method in {"PUT", "POST", "DELETE"}
