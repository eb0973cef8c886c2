"""NDJSON answers: their response options, their lines, and the last line of an answer that fails midway."""

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

_UNEXPECTED = DeltaicError("The server failed while it was sent. Send the request again.")
_ABORTED = b"!aborted: the answer is not complete; send the request again\n"
"""Last line that is not JSON, because the Python client accepts an answer without its last lines as complete."""


class ResponseOptions(msgspec.Struct, frozen=True):
    """Response options that a client requests in headers."""

    capabilities: Capabilities
    file_id_hash: FileIdHash | None
    page_budget: PageBudget | None = None
    """Counts the sent bytes; None if the server must not end pages that the client did not request."""
    statistics: bool = True
    """Whether lines in parquet format contain the statistics of their files."""
    user_agent: str = ""
    """The client's User-Agent, so that a refusal can say what this client can do."""

    @classmethod
    def parse(
        cls, capabilities: str | None, file_ids: str | None, page_budget: PageBudget | None = None, **more: Any
    ) -> Self:
        """Parse the headers; `more` are further options, unchanged. Raises InvalidParameter."""
        paged = page_budget if page_budget is not None and page_budget.page_bytes else None
        return cls(Capabilities.parse(capabilities), file_id_hash(file_ids), paged, **more)

    def binding(self, table: SharedTable, call: str, parameters: Mapping[str, object]) -> PageBinding:
        """Return the values that page tokens of this request are bound to."""
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
        """Return the requested hash for file ids, else the one that the reference server uses in this format."""
        return self.file_id_hash or response_format


ReadOptions = Callable[[], ResponseOptions]
"""Parses the headers of a request, after the checks that come first; raises InvalidParameter."""


class Answer(msgspec.Struct, frozen=True):
    """NDJSON lines in chunks, and the values of the response headers."""

    version: int
    """Table version in the response header."""
    response_format: ResponseFormat
    options: ResponseOptions
    chunks: Iterable[bytes]
    """Parts of the answer, each with complete lines."""
    negotiated_end: bool = False
    """Whether the client requests an endStreamAction in a header, and the answer has one."""
    asynchronous: bool = False
    """Whether the response header repeats `asyncquery=true`: for a submission or its result."""

    def failed(self, error: Exception) -> bytes:
        """Return the last line after `chunks` raises, so that no client accepts the answer as complete.

        Spark retries only after a 5xx status, so a permanent error keeps its own status.
        """
        if not self.negotiated_end:
            return _ABORTED
        cause = error if isinstance(error, DeltaicError) else _UNEXPECTED
        message = f"The answer is not complete. {cause.message}"
        return lines.end_stream_action(
            lines.EndStreamAction(error_message=message, http_status_error_code=cause.status)
        )
