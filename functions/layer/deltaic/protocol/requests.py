"""Parse and check the protocol's requests with few parameters.

`parse` runs the checks that need only the request, in the reference server's order. Methods run the checks that need
the table; call them in the order of the step numbers in their docstrings.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.gates import TableGate
from deltaic.protocol.instants import Instant, parse_instant
from deltaic.protocol.parameters import INT32_MAX, INT64_MAX, number
from deltaic.protocol.query_request import check_max_files
from deltaic.protocol.request_body import Body
from deltaic.timestamps import format_ms

MAX_RESULTS: Final = 500


class ListRequest(msgspec.Struct, frozen=True):
    """A request for a page of shares, schemas or tables."""

    max_results: int
    """Maximum number of items, 0 to 500; 0 requests no items, only a token for the same page."""
    page_token: str | None
    """A list token; None for the first page. An empty token counts as None, because responses can contain one."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse `maxResults` and `pageToken`; raises `InvalidParameter`."""
        max_results = number(query.get("maxResults"), INT32_MAX)
        if max_results is None:
            max_results = MAX_RESULTS
        if not 0 <= max_results <= MAX_RESULTS:
            raise InvalidParameter(
                f"Acceptable values of 'maxResults' are 0 to {MAX_RESULTS}, inclusive. (Default: {MAX_RESULTS})"
            )
        return cls(max_results, query.get("pageToken") or None)


class VersionRequest(msgspec.Struct, frozen=True):
    """Request "Query Table Version": the latest version, or the first one at or after a timestamp."""

    starting_timestamp: str | None
    """The string in the request; `starting_instant` parses it after the history check, like the reference server."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse `startingTimestamp`."""
        return cls(query.get("startingTimestamp"))

    def starting_instant(self, gate: TableGate) -> Instant | None:
        """Parse the requested timestamp; None for the latest version (step 1, after the lookup of the table).

        Raises InvalidParameter if the table's history is not shared, or the string is not a timestamp.
        """
        if self.starting_timestamp is None:
            return None
        gate.require_history()
        return parse_instant(self.starting_timestamp, "startingTimestamp")

    def check_version(self, gate: TableGate, version: int) -> None:
        """Reject a version before the table's start version (step 2, after a timestamp was resolved to `version`)."""
        if self.starting_timestamp is None or version >= gate.start_version:
            return
        instant = parse_instant(self.starting_timestamp, "startingTimestamp")
        raise InvalidParameter(
            f"You can only query table data since version {gate.start_version}."
            f"The provided timestamp({format_ms(instant.floor_ms)}) corresponds to {version}."
        )


class MetadataRequest(msgspec.Struct, frozen=True):
    """Request "Query Table Metadata": of the latest version, of a given version, or as of a timestamp."""

    version: int | None
    timestamp: str | None
    """The string in the request; `instant` parses it."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse `version` and `timestamp`; raises `InvalidParameter` for both at once or a negative version."""
        version, timestamp = number(query.get("version"), INT64_MAX), query.get("timestamp")
        if version is not None and timestamp is not None:
            raise InvalidParameter("Please only provide one of: version,timestamp")
        if version is not None and version < 0:
            raise InvalidParameter("version cannot be negative.")
        return cls(version, timestamp)

    def check_gate(self, gate: TableGate) -> None:
        """Reject versions and timestamps if history is not shared (step 1, after the lookup of the table)."""
        if self.version is not None or self.timestamp is not None:
            gate.require_history()

    def instant(self) -> Instant | None:
        """Parse the requested timestamp, if any; raises `InvalidParameter` (step 2, after the `fileidhash` header)."""
        return None if self.timestamp is None else parse_instant(self.timestamp, "timestamp")


class QueryResultRequest(msgspec.Struct, frozen=True):
    """Request "Get Query Info": poll an asynchronous query, or read the next page of its result."""

    max_files: int | None
    page_token: str | None

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the optional body; raises MalformedRequest, or InvalidParameter if `maxFiles` is not positive."""
        body = Body.decode(content, "GetQueryInfoRequest", optional=True)
        max_files, page_token = body.int32("maxFiles"), body.string("pageToken")
        check_max_files(max_files)
        return cls(max_files, page_token or None)


class CredentialsRequest(msgspec.Struct, frozen=True):
    """Request for temporary credentials for a table's root, or for another location of the table."""

    location: str | None
    """Location in the request; the caller checks that it belongs to the table."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the optional body; raises `MalformedRequest`.

        The reference treats invalid JSON as a request without a location, and vends credentials for the complete table.
        This server rejects it, so that an invalid request never gets more access than intended.
        """
        return cls(Body.decode(content, "GenerateTemporaryTableCredentialRequest", optional=True).string("location"))
