"""Parse requests for a range of versions: a query with a starting version, or the change data feed.

Both read the commits of the range in order (`ranges`). They differ in the actions that they return for a commit, in the
version of the metadata line at the start, and in the syntax and validation of the range.
"""

from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import InvalidParameter, MalformedRequest
from deltaic.protocol.changes_request import ChangesRequest, Span
from deltaic.protocol.instants import Instant
from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing.answer import Answer, ReadOptions
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.change_feed.commit_memo import CommitMemo
from deltaic.sharing.change_feed.ranges import RangeRequest, VersionRange, Versions
from deltaic.sharing.change_feed.visible_changes import ChangeFeed, DataChanges
from deltaic.sharing.context import Sharing
from deltaic.sharing.snapshots import open_log, open_store


def data_range(request: RangeRequest, query: QueryRequest) -> VersionRange:
    """Return the range of a query with `startingVersion` (PROTOCOL.md, "Read Data from a Table").

    The response starts with the metadata and number of the first version. Later changes of the metadata follow.
    """
    page, log = request.page(), open_log(request.sharing, request.table)
    latest = page.latest_version if page else log.latest_version()
    start, end = (page.version, page.end_version or 0) if page else query.check_range(latest)
    return VersionRange(
        request=request,
        page=page,
        log=log,
        head=log.snapshot(start),
        versions=Versions(start, end, latest),
        kind=DataChanges,
        historical_metadata=True,
    )


def list_changes(
    sharing: Sharing, caller: Caller, name: RequestedTable, request: ChangesRequest, read_options: ReadOptions
) -> Answer:
    """Return the change data feed of a table (PROTOCOL.md, "Read Change Data Feed").

    Raises InvalidParameter for versions without recorded change data. The response starts with the metadata of the
    latest version, or, if the client requests historical metadata, of the first version. Later metadata follows.
    """
    table = sharing.table(caller, name)
    table.audit_request(request)
    table.require_url_access()
    table.gate.require_changes()
    options = read_options()
    span = request.span()
    range_request = RangeRequest(sharing, table, options, request, "changes")
    page, historical = range_request.page(), request.include_historical_metadata
    with CommitMemo(open_store(sharing, table)) as store:
        log = open_log(sharing, table, store)
        head: Snapshot | None = None
        if page is not None:
            start, end, latest = page.version, page.end_version or 0, page.latest_version
            # The start version may have changed since the previous page.
            table.gate.check_changes_version(start)
        else:
            # The latest snapshot is needed anyway, and costs one listing, like the latest version number.
            head = None if historical else log.snapshot()
            latest = head.version if head else log.latest_version()
            start, end = request.check_range(table.gate, *_versions(log, span), latest)
        head = head or log.snapshot(start if historical else latest)
        return VersionRange(
            request=range_request,
            page=page,
            log=log,
            head=head,
            versions=Versions(start, end, latest),
            kind=ChangeFeed,
            historical_metadata=historical,
        ).answer()


def _versions(log: DeltaLog, span: Span) -> tuple[int, int | None]:
    """Return the first and last version (None: the latest) of a range of versions or timestamps.

    Raises InvalidParameter for timestamps outside the table's history, as the reference server does for change feeds.
    """
    start, end = span.start, span.end
    try:
        if isinstance(start, Instant):
            log.history.version_at_or_before(start.ceil_ms)
            start = log.history.version_at_or_after(start.ceil_ms)
        if isinstance(end, Instant):
            end = log.history.version_at_or_before(end.floor_ms)
    except MalformedRequest as outside:
        raise InvalidParameter(outside.message) from outside
    return start, end
