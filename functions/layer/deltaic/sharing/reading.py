"""Decides what a query reads: the files of a snapshot, or the data changes of a range of versions."""

from typing import Protocol

from deltaic.protocol.continuations import PageClaims
from deltaic.protocol.requests import QueryRequest
from deltaic.sharing.answer import Answer, ResponseOptions
from deltaic.sharing.changes import data_range
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.snapshot_query import SnapshotQuery
from deltaic.sharing.snapshots import open_log


class Reading(Protocol):
    """One page of what a query asks."""

    def pin(self) -> PageClaims:
        """Return where the answer begins, for whoever asks for it later; refuses by version and format."""
        ...

    def answer(self) -> Answer:
        """Answer; what can be refused is refused before a line."""
        ...


def reading(  # noqa: PLR0913 -- the parts of one request
    sharing: Sharing,
    table: SharedTable,
    request: QueryRequest,
    options: ResponseOptions,
    *,
    call: str = "query",
    pinned: PageClaims | None = None,
) -> Reading:
    """Return what reads for a query; page tokens are bound to `call`, `pinned` is where a submitted query begins."""
    if request.is_range:
        return data_range(sharing, table, request, options, call=call, pinned=pinned)
    return SnapshotQuery(sharing, table, request, options, open_log(sharing, table), call=call, pinned=pinned)
