"""Prepare a query: of the files of a snapshot, or of the data changes in a range of versions."""

from deltaic.protocol.continuations import PageClaims
from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing.answer import ResponseOptions
from deltaic.sharing.change_feed.changes_query import data_range
from deltaic.sharing.change_feed.ranges import RangeRequest, VersionRange
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.snapshot_query import SnapshotQuery
from deltaic.sharing.snapshots import open_log


def open_query(  # noqa: PLR0913 -- the parts of one request
    sharing: Sharing,
    table: SharedTable,
    request: QueryRequest,
    options: ResponseOptions,
    *,
    call: str = "query",
    pinned: PageClaims | None = None,
) -> SnapshotQuery | VersionRange:
    """Return the prepared query; its page tokens are bound to `call`. `pinned`: stored version of a submitted query."""
    if request.is_range:
        return data_range(RangeRequest(sharing, table, options, request, call, pinned), request)
    return SnapshotQuery(sharing, table, request, options, open_log(sharing, table), call=call, pinned=pinned)
