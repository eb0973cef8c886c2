"""What an NDJSON answer consists of: what describes it, its lines, and how it ends if it breaks."""

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

_UNEXPECTED = DeltaicError("The server failed while it was sent. Ask again.")
_BROKEN = b"!aborted: the answer is not complete; ask again\n"
"""A last line that is no JSON: the Python client takes an answer that ends cleanly in the middle for a whole one."""


class ResponseOptions(msgspec.Struct, frozen=True):
    """What the headers of a request ask of its answer."""

    capabilities: Capabilities
    file_id_hash: FileIdHash | None
    page_budget: PageBudget | None = None
    """Counts the answer as it leaves; None where a page of it must not end unless it was asked for."""
    statistics: bool = True
    """Whether lines in parquet format have those of their files."""
    user_agent: str = ""
    """What the client says it is: a refusal tells it what it can do."""

    @classmethod
    def parse(
        cls, capabilities: str | None, file_ids: str | None, page_budget: PageBudget | None = None, **more: Any
    ) -> Self:
        """Read the headers as sent, and take `more` of the options as they are; raises InvalidParameter."""
        paged = page_budget if page_budget is not None and page_budget.page_bytes else None
        return cls(Capabilities.parse(capabilities), file_id_hash(file_ids), paged, **more)

    def binding(self, table: SharedTable, call: str, parameters: Mapping[str, object]) -> PageBinding:
        """Return what a page token of this request is bound to."""
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
        """Return how files are named: as asked for, else as the reference names them in this format."""
        return self.file_id_hash or response_format


ReadOptions = Callable[[], ResponseOptions]
"""Reads the headers of a request, when it is their turn; raises InvalidParameter."""


class Answer(msgspec.Struct, frozen=True):
    """Lines in chunks, and what describes them."""

    version: int
    """What the answer says the table's version is."""
    response_format: ResponseFormat
    options: ResponseOptions
    chunks: Iterable[bytes]
    """Whole lines."""
    negotiated_end: bool = False
    """The client asked, by header, for an endStreamAction, and this kind of answer has one."""
    asynchronous: bool = False
    """`asyncquery=true` is echoed: a query was accepted, or its result goes to a client that said so again."""

    def failed(self, error: Exception) -> bytes:
        """Return the last line if `chunks` raises: no reader can take what came before it for the whole.

        Spark tries again for a status of 5xx only, so a permanent cause keeps its own status.
        """
        if not self.negotiated_end:
            return _BROKEN
        cause = error if isinstance(error, DeltaicError) else _UNEXPECTED
        message = f"The answer is not complete. {cause.message}"
        return lines.end_stream_action(
            lines.EndStreamAction(error_message=message, http_status_error_code=cause.status)
        )
