"""Decides what a request for a range of versions asks: the data changes of a query, or the change data feed.

Both walk the commits of the range in order (`ranges`); they differ in which actions of a commit count, in whose
metadata heads the answer, and in how the range is spelled and refused.
"""

from deltaic.delta.changes import CommitChanges
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol.continuations import Page, PageBinding, open_page_token
from deltaic.protocol.requests import ChangesRequest, QueryRequest
from deltaic.protocol.timestamps import Instant
from deltaic.sharing.answer import Answer, AskedHeaders, Wishes
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.ranges import Range
from deltaic.sharing.snapshots import open_log


def data_range(  # noqa: PLR0913 -- the parts of one request
    sharing: Sharing,
    table: SharedTable,
    request: QueryRequest,
    wishes: Wishes,
    *,
    call: str = "query",
    pinned: Page | None = None,
) -> tuple[Range, Snapshot]:
    """Return what a query since `startingVersion` asks (PROTOCOL.md, "Read Data from a Table"), and its head.

    The head is that of the first version, stamped with it; later metadata always follows where it changed. Page tokens
    are bound to `call`; `pinned` is where a submitted query begins.
    """
    binding = wishes.binding(table, call, request.fingerprint)
    page = _opened(sharing, request.page_token, binding) or pinned
    log = open_log(sharing, table)
    latest = page.latest_version if page else log.latest_version()
    start, end = (page.version, page.end_version or 0) if page else request.check_range(latest)
    asked = Range(
        sharing=sharing,
        table=table,
        wishes=wishes,
        log=log,
        binding=binding,
        first=start,
        last=end,
        latest=latest,
        page=page,
        max_files=request.max_files,
        changes_of=CommitChanges.data,
        needs_change_data=False,
        historical_metadata=True,
        historical_protocol=request.include_historical_protocol,
        ends=request.opts_into_end_stream or wishes.capabilities.include_end_stream_action,
    )
    return asked, log.snapshot(start)


def list_changes(
    sharing: Sharing, caller: Caller, name: TableName, request: ChangesRequest, headers: AskedHeaders
) -> Answer:
    """Answer GET .../changes (PROTOCOL.md, "Read Change Data Feed"); ranges without recorded changes are refused.

    The head is that of the latest version, or, where historical metadata is asked for, that of the first: a client
    that follows schemas starts from there.
    """
    table = sharing.table(caller, name)
    table.require_url_access()
    table.gate.require_changes()
    wishes = headers.wishes()
    span = request.span()
    binding = wishes.binding(table, "changes", request.fingerprint)
    page = _opened(sharing, request.page_token, binding)
    log = open_log(sharing, table)
    historical = request.include_historical_metadata
    head: Snapshot | None = None
    if page is not None:
        start, end, latest = page.version, page.end_version or 0, page.latest_version
    else:
        # The head is needed in any case where it is the latest version; it costs one listing, as its number does.
        head = None if historical else log.snapshot()
        latest = head.version if head else log.latest_version()
        start = _first_version(log, span.start) if isinstance(span.start, Instant) else span.start
        until = log.version_at_or_before(span.end.floor_ms) if isinstance(span.end, Instant) else span.end
        start, end = request.check_range(table.gate, start, until, latest)
    return Range(
        sharing=sharing,
        table=table,
        wishes=wishes,
        log=log,
        binding=binding,
        first=start,
        last=end,
        latest=latest,
        page=page,
        max_files=request.max_files,
        changes_of=CommitChanges.change_data,
        needs_change_data=True,
        historical_metadata=historical,
        historical_protocol=request.include_historical_protocol,
        ends=request.opts_into_end_stream or wishes.capabilities.include_end_stream_action,
    ).answer(head or log.snapshot(start if historical else latest))


def _opened(sharing: Sharing, token: str | None, binding: PageBinding) -> Page | None:
    if token is None:
        return None
    return open_page_token(sharing.signer, token, binding, now=sharing.clock())


def _first_version(log: DeltaLog, instant: Instant) -> int:
    """Return the first version at or after a time; a time before the first commit is refused, as the reference does."""
    log.version_at_or_before(instant.ceil_ms)
    return log.version_at_or_after(instant.ceil_ms)
