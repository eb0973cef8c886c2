"""Parse and check the body of a query, in the order of the reference server.

The checks run in this order, because each needs the result of earlier steps:

     1. `QueryRequest.parse`         JSON; one of version, timestamp, startingVersion; signs; refresh and page tokens
     2. `capabilities.file_id_hash`  the `fileidhash` header
     3. lookup of the table          404
     4. `check_gate`                 shared history, start version, startingVersion <= endingVersion
     5. `continuations.open_page_token`, `open_refresh_token`
     6. `instant`, `check_range`     the timestamp's form; the range against the latest version
     7. `TableGate.check_version`    the resolved version
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.gates import TableGate
from deltaic.protocol.instants import Instant, parse_instant
from deltaic.protocol.request_body import Body

_PAGE_FIELDS: Final = frozenset({
    "maxFiles", "pageToken", "includeRefreshToken", "namesRefreshToken", "refreshToken", "idempotencyKey",
})  # fmt: skip


class QueryRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Request "Read Data from a Table": for a snapshot, or for data changes in a range of versions."""

    predicate_hints: tuple[str, ...]
    """SQL conditions joined by AND, which the server may ignore."""
    json_predicate_hints: str | None
    """A condition as JSON, which the server may ignore, so an invalid one is no error here."""
    limit_hint: int | None
    """Number of rows that the client needs, not negative; the server may return more."""
    version: int | None
    timestamp: str | None
    """The string in the request; `instant` parses it."""
    starting_version: int | None
    ending_version: int | None
    """Last version of the range, inclusive; None without `starting_version`, because it is ignored then."""
    include_historical_protocol: bool
    max_files: int | None
    """Requested page size, positive; None if the client did not request pages."""
    page_token: str | None
    include_refresh_token: bool
    names_refresh_token: bool
    """Whether the body contains the field `includeRefreshToken`, whatever its value."""
    refresh_token: str | None
    idempotency_key: str | None

    @classmethod
    def parse(cls, content: bytes, *, async_query: bool = False) -> Self:
        """Parse a request body; `async_query` is the client's capability `asyncquery`.

        Raises MalformedRequest if it is not a JSON object or a field has the wrong type, and InvalidParameter for
        fields that exclude each other and numbers out of range.
        """
        body = Body.decode(content, "QueryTableRequest")
        limit = body.int64("limitHint")
        starting = body.int64("startingVersion")
        ending = body.int64("endingVersion")
        request = cls(
            predicate_hints=body.strings("predicateHints"),
            json_predicate_hints=body.string("jsonPredicateHints") or None,
            limit_hint=limit if limit is not None and limit >= 0 else None,
            version=body.int64("version"),
            timestamp=body.string("timestamp"),
            starting_version=starting,
            ending_version=None if starting is None else ending,
            include_historical_protocol=body.boolean("includeHistoricalProtocol"),
            max_files=body.int32("maxFiles"),
            page_token=body.string("pageToken") or None,
            include_refresh_token=body.boolean("includeRefreshToken"),
            names_refresh_token="includeRefreshToken" in body.fields,
            refresh_token=body.string("refreshToken") or None,
            idempotency_key=body.string("idempotencyKey") or None,
        )
        request._check(async_query=async_query)
        return request

    @property
    def is_range(self) -> bool:
        """Return whether the request is for data changes and not for a snapshot."""
        return self.starting_version is not None

    @property
    def time_travels(self) -> bool:
        """Return whether the request is for an older version, a time or a range, not for the latest snapshot."""
        return self.version is not None or self.timestamp is not None or self.starting_version is not None

    @property
    def opts_into_end_stream(self) -> bool:
        """Return whether the body alone requests an `endStreamAction`, which older clients do not support."""
        return self.max_files is not None or self.page_token is not None or self.include_refresh_token

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Return the parameters that must be equal in the requests for all pages of a result."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if name not in _PAGE_FIELDS}

    def _check(self, *, async_query: bool) -> None:
        selectors = [item for item in (self.version, self.timestamp, self.starting_version) if item is not None]
        if len(selectors) > 1:
            raise InvalidParameter("Please only provide one of: version,timestamp,startingVersion")
        if self.version is not None and self.version < 0:
            raise InvalidParameter("table version cannot be negative.")
        if self.starting_version is not None and self.starting_version < 0:
            raise InvalidParameter("startingVersion cannot be negative.")
        check_max_files(self.max_files)
        if selectors and self.include_refresh_token:
            raise InvalidParameter("includeRefreshToken cannot be used when querying a specific version.")
        if self.page_token is not None and self.include_refresh_token:
            raise InvalidParameter("includeRefreshToken must be used in the first page request.")
        if selectors and self.refresh_token is not None:
            raise InvalidParameter("refreshToken cannot be used when querying a specific version.")
        if self.page_token is not None and self.refresh_token is not None:
            raise InvalidParameter("refreshToken must be used in the first page request.")
        # With its async setting, Spark sends asyncquery=true in every request, but no key for ranges, which it
        # reads synchronously.
        if async_query and self.idempotency_key is None and not self.is_range:
            raise InvalidParameter("idempotency_key is required for async query.")

    def check_gate(self, gate: TableGate) -> None:
        """Reject requests that the table's catalog entry does not permit, and reversed ranges (step 4)."""
        if self.time_travels:
            gate.require_history()
        for version in (self.version, self.starting_version):
            if version is not None:
                gate.check_version(version)
        start, end = self.starting_version, self.ending_version
        if start is not None and end is not None and start > end:
            raise InvalidParameter(f"startingVersion({start}) must be smaller than or equal to endingVersion({end}).")

    def instant(self) -> Instant | None:
        """Parse the requested timestamp; None without one. Raises `InvalidParameter` (step 6)."""
        return None if self.timestamp is None else parse_instant(self.timestamp, "timestamp")

    def check_range(self, latest: int) -> tuple[int, int]:
        """Return the first and the last version of a range query, inclusive (step 6).

        Raises InvalidParameter if the range starts or ends after the latest version. (/changes instead limits the end.)
        """
        start = self.starting_version or 0
        end = latest if self.ending_version is None else self.ending_version
        check_start(start, latest)
        if end > latest:
            raise InvalidParameter(
                f"Provided end version({end}) is invalid. End version cannot be greater than the latest version of "
                f"the table({latest})."
            )
        return start, end


def check_start(start: int, latest: int) -> None:
    """Reject a range of versions, in /query or /changes, that starts after the latest version."""
    if start > latest:
        raise InvalidParameter(
            f"Provided Start version({start}) for reading change data is invalid. Start version cannot be greater "
            f"than the latest version of the table({latest})."
        )


def check_max_files(max_files: int | None) -> None:
    """Reject a page size that is not positive."""
    if max_files is not None and max_files <= 0:
        raise InvalidParameter("maxFiles must be positive.")
