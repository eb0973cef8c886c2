"""Recipient that sends a request, and the table that the request names."""

from dataclasses import dataclass, field

import msgspec

from deltaic.sharing.audit_record import AuditRecord


@dataclass(frozen=True, slots=True)
class Caller:
    """The recipient whose token the authorizer accepted, in one request."""

    recipient_id: str
    token_id: str
    recipient: str = ""
    """The recipient's name, for the access log."""
    source_ip: str = ""
    """Client address, according to API Gateway."""
    audit: AuditRecord = field(default_factory=AuditRecord, compare=False, repr=False)
    """Facts of the request for the access log."""


class RequestedTable(msgspec.Struct, frozen=True):
    """Table name as the request spells it. Comparisons ignore case; messages repeat this spelling."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"
