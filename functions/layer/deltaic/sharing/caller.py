"""Recipient that sends a request, and name of the requested table."""

from dataclasses import dataclass, field

import msgspec

from deltaic.sharing.audit_record import AuditRecord


@dataclass(frozen=True, slots=True)
class Caller:
    """Recipient that sends one request, identified by its bearer token."""

    recipient_id: str
    token_id: str
    recipient: str = ""
    """The recipient's name, for the access log."""
    source_ip: str = ""
    """IP address of the client, according to API Gateway."""
    audit: AuditRecord = field(default_factory=AuditRecord, compare=False, repr=False)
    """Collects what the access log records about this request."""


class RequestedTable(msgspec.Struct, frozen=True):
    """Table name as in the request, also in error messages; look-ups ignore upper and lower case."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"
