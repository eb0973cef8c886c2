"""Who asks and what for: the recipient behind a request and the table that it names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The recipient whose token the authorizer accepted."""

    recipient_id: str
    token_id: str


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as the request spells it; comparisons ignore case, messages repeat this spelling."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"
