"""Who asks and what for: the recipient behind a request and the table that it names."""

from dataclasses import dataclass, field

import msgspec

from deltaic.sharing.audit_record import AuditRecord


@dataclass(frozen=True, slots=True)
class Caller:
    """The recipient whose token the authorizer accepted, in one request."""

    recipient_id: str
    token_id: str
    recipient: str = ""
    """The recipient's name, for those who read logs."""
    source_ip: str = ""
    """The address that API Gateway took the request from."""
    audit: AuditRecord = field(default_factory=AuditRecord, compare=False, repr=False)
    """What the access log says of the request."""


class RequestedTable(msgspec.Struct, frozen=True):
    """A table as the request spells it; comparisons ignore case, messages repeat this spelling."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"
