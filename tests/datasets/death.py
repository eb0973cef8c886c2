"""A job that dies between two of its requests: what came before has happened, and nothing comes after."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from faults.plays import aws_json, s3
from faults.proxy import Plan, Proxy, Request

ALIVE = 1_000_000


@dataclass
class Life:
    """How many requests that change something a job may still send; with the last of them it is dead."""

    left: int = ALIVE
    changes: int = 0

    def passes(self, request: Request) -> bool:
        """Count a request, and tell whether it reaches AWS."""
        if self.left == 0:
            return False
        if _changes(request):
            self.left -= 1
            self.changes += 1
        return True


@contextmanager
def living(proxy: Proxy, left: int = ALIVE) -> Iterator[Life]:
    """Let the jobs behind a proxy live for so many changes.

    Afterwards every request is refused as a stranger's, which no client sends again: a job that is dead has no time
    to tidy up, and one that only seems dead must not change anything.
    """
    life = Life(left)
    closed = "AccessDeniedException", "the job is dead"
    store = _Part("get", (), s3(403, "AccessDenied", "the job is dead"), life=life)
    with proxy.playing(store), proxy.playing(_Part("dynamodb", (), aws_json(400, *closed), life=life)):
        yield life


@dataclass
class _Part(Plan):
    """What one service says to the dead."""

    life: Life = field(default_factory=Life)

    def takes(self, request: Request) -> bool:
        mine = (request.service == "dynamodb") == (self.service == "dynamodb")
        return mine and not self.life.passes(request)


def _changes(request: Request) -> bool:
    if request.service == "dynamodb":
        operation = request.headers["x-amz-target"].partition(".")[2]
        return operation.startswith(("Put", "Update", "Delete", "Transact", "BatchWrite"))
    return request.method in {"PUT", "POST", "DELETE"}
