"""NDJSON responses: their options, their chunks, and the last line of a response that fails midway."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import msgspec

from deltaic.errors import DeltaicError
from deltaic.protocol import lines
from deltaic.protocol.capabilities import Capabilities, FileIdHash, ResponseFormat, file_id_hash
from deltaic.protocol.continuations import PageBinding
from deltaic.protocol.sealed_tokens import checksum
from deltaic.sharing.context import SharedTable
from deltaic.sharing.page_budget import PageBudget

_UNEXPECTED = DeltaicError("An unexpected error occurred on the server. Send the request again.")
_ABORTED = b"!aborted: the response is incomplete; send the request again\n"
"""Last line, deliberately not JSON: the Python client accepts a truncated response, but fails on such a line."""


class ResponseOptions(msgspec.Struct, frozen=True):
    """Response options that a client requests in headers."""

    capabilities: Capabilities
    file_id_hash: FileIdHash | None
    page_budget: PageBudget | None = None
    """Limits the bytes of a page; None if the server must not split a response that the client wants in one page."""
    statistics: bool = True
    """Whether lines in parquet format contain the min/max statistics of their files."""
    user_agent: str = ""
    """The client's User-Agent, so that an error message can say what this client supports."""

    @classmethod
    def parse(
        cls, capabilities: str | None, file_ids: str | None, page_budget: PageBudget | None = None, **more: Any
    ) -> Self:
        """Parse the values of two headers; `more` are values of further fields. Raises InvalidParameter."""
        paged = page_budget if page_budget is not None and page_budget.page_bytes else None
        return cls(Capabilities.parse(capabilities), file_id_hash(file_ids), paged, **more)

    def binding(self, table: SharedTable, call: str, parameters: Mapping[str, object]) -> PageBinding:
        """Return the values that a later request must repeat to use a page token of this request."""
        return PageBinding(
            recipient=table.caller.recipient_id,
            table_id=table.entry.id,
            call=call,
            parameters=checksum(parameters),
            response_formats=self.capabilities.response_formats,
            file_id_hash=self.file_id_hash,
            rights=table.rights.identity,
        )

    def scheme(self, response_format: ResponseFormat) -> FileIdHash:
        """Return the hash function for file ids: the requested one, by default that of the reference server."""
        return self.file_id_hash or response_format


ReadOptions = Callable[[], ResponseOptions]
"""Parses the request headers when called, so that other errors come first; raises InvalidParameter."""


class Answer(msgspec.Struct, frozen=True):
    """Response of NDJSON lines in chunks, and the values of its headers."""

    version: int
    """Table version in the response header."""
    response_format: ResponseFormat
    options: ResponseOptions
    chunks: Iterable[bytes]
    """Parts of the response body, each with complete lines."""
    negotiated_end: bool = False
    """Whether the client requests an endStreamAction in a header, and the response has one."""
    asynchronous: bool = False
    """Whether the response header repeats `asyncquery=true`: for a submitted query or its result."""

    def failed(self, error: Exception) -> bytes:
        """Return the last line of a response whose `chunks` raised, so that no client accepts it as complete.

        The line contains the HTTP status of the error, because Spark retries only after a 5xx status.
        """
        if not self.negotiated_end:
            return _ABORTED
        cause = error if isinstance(error, DeltaicError) else _UNEXPECTED
        message = f"The response is incomplete. {cause.message}"
        return lines.end_stream_action(
            lines.EndStreamAction(error_message=message, http_status_error_code=cause.status)
        )
