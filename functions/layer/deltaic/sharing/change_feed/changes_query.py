"""Answers requests for a range of versions: the data changes of a query, or the change data feed.

Both walk the commits of the range in order (`ranges`); they differ in which actions of a commit count, in whose
metadata heads the answer, and in how the range is spelled and refused.
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
    """Return what a query since `startingVersion` asks (PROTOCOL.md, "Read Data from a Table").

    The head is that of the first version, stamped with it; later metadata always follows where it changed.
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
    """Answer GET .../changes (PROTOCOL.md, "Read Change Data Feed"); ranges without recorded changes are refused.

    The head is that of the latest version, or, where historical metadata is asked for, that of the first: a client
    that follows schemas starts from there.
    """
    table = sharing.table(caller, name)
    table.audit_request(request)
    table.require_url_access()
    table.gate.require_changes()
    options = read_options()
    span = request.span()
    of_range = RangeRequest(sharing, table, options, request, "changes")
    page, historical = of_range.page(), request.include_historical_metadata
    with CommitMemo(open_store(sharing, table)) as store:
        log = open_log(sharing, table, store)
        head: Snapshot | None = None
        if page is not None:
            start, end, latest = page.version, page.end_version or 0, page.latest_version
            # What is shared may have changed since the page before; a query's own parameters pass the gate anew.
            table.gate.check_changes_version(start)
        else:
            # The head is needed in any case where it is the latest version; it costs one listing, as its number does.
            head = None if historical else log.snapshot()
            latest = head.version if head else log.latest_version()
            start, end = request.check_range(table.gate, *_versions(log, span), latest)
        head = head or log.snapshot(start if historical else latest)
        return VersionRange(
            request=of_range,
            page=page,
            log=log,
            head=head,
            versions=Versions(start, end, latest),
            kind=ChangeFeed,
            historical_metadata=historical,
        ).answer()


def _versions(log: DeltaLog, span: Span) -> tuple[int, int | None]:
    """Return the versions that a span means; its start may not be a time before the first commit, as in the reference.

    Raises InvalidParameter for a time outside the table's: in this call, and no other, that is the reference's code.
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
