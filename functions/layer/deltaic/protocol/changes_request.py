"""Parse and check requests for the change data feed, in the order of the reference server.

The checks run in this order, because each needs the result of earlier steps:

     1. `ChangesRequest.parse`            maxFiles
     2. lookup of the table               404
     3. `TableGate.require_changes`       whether history is shared
     4. `capabilities.file_id_hash`       the `fileidhash` header
     5. `span`                            one start, at most one end, numbers, timestamps
     6. `continuations.open_page_token`
     7. `check_range`                     the resolved versions against the latest and the start version
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.gates import TableGate
from deltaic.protocol.instants import Instant, parse_instant
from deltaic.protocol.parameters import INT32_MAX, INT64_MAX, flag, integer, number
from deltaic.protocol.query_request import check_max_files, check_start


class Span(msgspec.Struct, frozen=True):
    """Requested start and end of a change feed; without an end it continues to the latest version."""

    start: int | Instant
    end: int | Instant | None


class ChangesRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Request "Read Change Data Feed"; the range consists of strings until `span` parses them."""

    starting_version: str | None
    starting_timestamp: str | None
    ending_version: str | None
    ending_timestamp: str | None
    include_historical_metadata: bool
    include_historical_protocol: bool
    max_files: int | None
    page_token: str | None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse the query string; other parameters (`readChangeFeed` of Spark) are ignored.

        Raises InvalidParameter if `maxFiles` is not a positive number.
        """
        max_files = number(query.get("maxFiles"), INT32_MAX)
        check_max_files(max_files)
        return cls(
            starting_version=query.get("startingVersion"),
            starting_timestamp=query.get("startingTimestamp"),
            ending_version=query.get("endingVersion"),
            ending_timestamp=query.get("endingTimestamp"),
            include_historical_metadata=flag(query.get("includeHistoricalMetadata")),
            include_historical_protocol=flag(query.get("includeHistoricalProtocol")),
            max_files=max_files,
            page_token=query.get("pageToken") or None,
        )

    @property
    def opts_into_end_stream(self) -> bool:
        """Return whether the parameters alone request an `endStreamAction`, which older clients do not support."""
        return self.max_files is not None or self.page_token is not None

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Return the parameters that must be equal in the requests for all pages of a result."""
        parameters = msgspec.to_builtins(self)
        return {name: value for name, value in parameters.items() if name not in {"maxFiles", "pageToken"}}

    def span(self) -> Span:
        """Parse the start and end of the range as versions or instants (step 5); raises `InvalidParameter`."""
        for side, version, timestamp in (
            ("starting", self.starting_version, self.starting_timestamp),
            ("ending", self.ending_version, self.ending_timestamp),
        ):
            if version is not None and timestamp is not None:
                raise InvalidParameter(
                    f"Multiple {side} arguments provided for CDF read. Please provide one of either "
                    f"{side}Timestamp or {side}Version."
                )
        start = _parse_end("starting", self.starting_version, self.starting_timestamp)
        if start is None:
            raise InvalidParameter("No startingVersion or startingTimestamp provided for CDF read.")
        return Span(start, _parse_end("ending", self.ending_version, self.ending_timestamp))

    @staticmethod
    def check_range(gate: TableGate, start: int, end: int | None, latest: int) -> tuple[int, int]:
        """Return first and last version, inclusive, limited to the latest version (step 7).

        Raises InvalidParameter if the range starts after the latest version, after its end, or before the table's start
        version.
        """
        check_start(start, latest)
        last = latest if end is None else min(end, latest)
        if last < start:
            raise InvalidParameter(
                f"CDF range from start {start} to end {last} was invalid. End cannot be before start."
            )
        gate.check_changes_version(start)
        return start, last


def _parse_end(side: str, version: str | None, timestamp: str | None) -> int | Instant | None:
    if timestamp is not None:
        return parse_instant(timestamp, f"{side}Timestamp")
    if version is None:
        return None
    number_ = integer(version, INT64_MAX)
    if number_ is None:
        raise InvalidParameter(f"{side}Version is not a valid number.")
    if number_ < 0:
        raise InvalidParameter(f"{side}Version cannot be negative.")
    return number_
