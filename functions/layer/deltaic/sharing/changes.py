"""Decides what a request for a range of versions asks: the data changes of a query, or the change data feed.

Both walk the commits of the range in order (`ranges`); they differ in which actions of a commit count, in whose
metadata heads the answer, and in how the range is spelled and refused.
"""

from typing import Self

import msgspec

from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import InvalidParameter, MalformedRequest
from deltaic.protocol.changes import Span
from deltaic.protocol.continuations import PageBinding, PageClaims, open_page_token
from deltaic.protocol.requests import ChangesRequest, QueryRequest
from deltaic.protocol.timestamps import Instant
from deltaic.sharing.answer import Answer, AskedHeaders, ResponseOptions
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.commit_memo import CommitMemo
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.ranges import Range
from deltaic.sharing.snapshots import open_log, open_store


def data_range(  # noqa: PLR0913 -- the parts of one request
    sharing: Sharing,
    table: SharedTable,
    request: QueryRequest,
    options: ResponseOptions,
    *,
    call: str = "query",
    pinned: PageClaims | None = None,
) -> Range:
    """Return what a query since `startingVersion` asks (PROTOCOL.md, "Read Data from a Table").

    The head is that of the first version, stamped with it; later metadata always follows where it changed. Page tokens
    are bound to `call`; `pinned` is where a submitted query begins.
    """
    asked = _Asked.read(sharing, table, options, request, call=call, pinned=pinned)
    page, log = asked.page, open_log(sharing, table)
    latest = page.latest_version if page else log.latest_version()
    start, end = (page.version, page.end_version or 0) if page else request.check_range(latest)
    return asked.range(log, log.snapshot(start), (start, end), latest, feed=False, historical_metadata=True)


def list_changes(
    sharing: Sharing, caller: Caller, name: TableName, request: ChangesRequest, headers: AskedHeaders
) -> Answer:
    """Answer GET .../changes (PROTOCOL.md, "Read Change Data Feed"); ranges without recorded changes are refused.

    The head is that of the latest version, or, where historical metadata is asked for, that of the first: a client
    that follows schemas starts from there.
    """
    table = sharing.table(caller, name)
    table.note_asked(request)
    table.require_url_access()
    table.gate.require_changes()
    options = headers.options()
    span = request.span()
    asked = _Asked.read(sharing, table, options, request, call="changes")
    page, historical = asked.page, request.include_historical_metadata
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
        return asked.range(log, head, (start, end), latest, feed=True, historical_metadata=historical).answer()


class _Asked(msgspec.Struct, frozen=True):
    """A request for a range of either kind, and where its page token says that it goes on."""

    sharing: Sharing
    table: SharedTable
    options: ResponseOptions
    request: QueryRequest | ChangesRequest
    binding: PageBinding
    page: PageClaims | None

    @classmethod
    def read(  # noqa: PLR0913 -- the parts of one request
        cls,
        sharing: Sharing,
        table: SharedTable,
        options: ResponseOptions,
        request: QueryRequest | ChangesRequest,
        *,
        call: str,
        pinned: PageClaims | None = None,
    ) -> Self:
        """Open the page token, which is bound to `call`; without one the request begins at `pinned`, if anywhere."""
        binding = options.binding(table, call, request.fingerprint)
        page = pinned
        if request.page_token is not None:
            page = open_page_token(sharing.signer, request.page_token, binding, now=sharing.clock())
        return cls(sharing, table, options, request, binding, page)

    def range(  # noqa: PLR0913 -- what one range consists of
        self,
        log: DeltaLog,
        head: Snapshot,
        versions: tuple[int, int],
        latest: int,
        *,
        feed: bool,
        historical_metadata: bool,
    ) -> Range:
        """Return the range, now that its ends and its head are known."""
        return Range(
            sharing=self.sharing,
            table=self.table,
            options=self.options,
            log=log,
            head=head,
            binding=self.binding,
            first=versions[0],
            last=versions[1],
            latest=latest,
            page=self.page,
            max_files=self.request.max_files,
            feed=feed,
            historical_metadata=historical_metadata,
            historical_protocol=self.request.include_historical_protocol,
            ends=self.request.opts_into_end_stream or self.options.capabilities.include_end_stream_action,
        )


def _versions(log: DeltaLog, span: Span) -> tuple[int, int | None]:
    """Return the versions that a span means; its start may not be a time before the first commit, as in the reference.

    Raises InvalidParameter for a time outside the table's: in this call, and no other, that is the reference's code.
    """
    start, end = span.start, span.end
    try:
        if isinstance(start, Instant):
            log.version_at_or_before(start.ceil_ms)
            start = log.version_at_or_after(start.ceil_ms)
        if isinstance(end, Instant):
            end = log.version_at_or_before(end.floor_ms)
    except MalformedRequest as outside:
        raise InvalidParameter(outside.message) from outside
    return start, end
