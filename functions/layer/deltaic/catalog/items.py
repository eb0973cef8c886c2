"""Frozen items of the catalog: shares, schemas, tables, recipients, grants, storages and sign-in methods."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

import msgspec

from deltaic.protocol import names

AccessMode = Literal["url", "dir"]
IcebergAccess = Literal["", "vended", "signed"]
TableFormat = Literal["delta", "iceberg"]


def now() -> datetime:
    """Return the current time in whole seconds, as the tables store it."""
    return datetime.now(UTC).replace(microsecond=0)


class Item(msgspec.Struct, frozen=True):
    """Base of all items: conversion from and to stored attributes.

    Items check no values, because every value is checked before it is stored.
    """

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Self:
        """Return a stored item; ignores unknown attributes, such as those of later releases."""
        fields = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        return cls(**{fields[name]: _to_field(name, value) for name, value in attributes.items() if name in fields})

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that are stored."""
        fields = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return {name: getattr(self, field) for name, field in fields}


def _to_field(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else value
    return tuple(value) if isinstance(value, list) else value


class NamedItem(Item, frozen=True, kw_only=True):
    """An item that recipients can list by name."""

    name: str

    @property
    def key(self) -> str:
        """The position in a listing of this kind: pass it as `after`."""
        return names.key(self.name)


class Share(NamedItem, frozen=True, kw_only=True):
    """A share; its `id` never changes."""

    id: str
    display_name: str = ""
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: datetime


class Schema(NamedItem, frozen=True, kw_only=True):
    """A schema of a share."""

    share: str
    share_id: str
    comment: str = ""
    """A note for the provider, because the protocol does not show comments of schemas."""

    created_at: datetime


class SchemaEntry(NamedItem, frozen=True, kw_only=True):
    """An entry of a schema."""

    kind: ClassVar[str]

    schema_name: str
    share: str
    id: str
    share_id: str

    @property
    def title(self) -> str:
        """The full name, `share.schema.name`."""
        return f"{self.share}.{self.schema_name}.{self.name}"

    @property
    def key_in_share(self) -> str:
        """The position in the listing of all schemas of a share: pass it as `after`."""
        return f"{names.key(self.schema_name)}/{self.key}"


class Table(SchemaEntry, frozen=True, kw_only=True):
    """A table entry: the location of a table and what recipients may do with it."""

    kind = "table"

    location: str
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[AccessMode, ...] = ("url",)
    history: bool = False
    """Whether earlier versions and the change data feed are shared."""

    start_version: int = 0
    """The first shared version, if history is shared."""

    storage: str = ""
    """Name of the storage of the location; empty: AWS S3, read with the function's role."""

    checkpoint: bool = False
    """Whether a function of the stack writes checkpoints into the table's log, for writers that write none."""

    partition_filter: str = ""
    """SQL over partition columns that selects the shared rows (deltaic.partition_filters); empty: all."""

    hidden_columns: tuple[str, ...] = ()
    """Partition columns that recipients do not see."""

    view_properties: tuple[str, ...] | None = None
    """The recipient properties that the rows of a view depend on; None for a table that is not a view."""

    iceberg: IcebergAccess = ""
    """How Iceberg clients read files: with credentials for the folder ("vended"), or with a signature for each request
    ("signed"); empty: they cannot read the table."""

    format: TableFormat = "delta"
    """Format of the table. An Iceberg table is unfiltered, and only Iceberg clients can read it."""

    metadata_location: str = ""
    """Metadata file of an Iceberg table, or its Glue entry (`glue://database/table`); empty: its version hint."""

    followed: bool = False
    """Whether the entry comes from a followed source, whose checks can hide it (deltaic.catalog.admin.follow_admin)."""

    unlisted: str = ""
    """Why the table is hidden from recipients; empty: it is listed."""

    created_at: datetime

    @property
    def is_filtered(self) -> bool:
        """True if a filter or hidden columns apply to every recipient, and for views."""
        return bool(self.partition_filter or self.hidden_columns or self.view_properties is not None)


class Restrictions(Item, frozen=True, kw_only=True):
    """Limits on the requests of a recipient, whatever its grants; by default: none.

    They are stored twice: with the recipient's name, for administrators, and with its id, for endpoints.
    """

    addresses: tuple[str, ...] = ()
    """Networks (CIDR) from which requests are allowed; empty: all."""

    requests_per_minute: int = 0
    """0: no limit other than that of the stage."""

    bytes_per_day: int = 0
    """Bytes of files for which URLs are signed; 0: no limit."""

    ends_at: datetime | None = None
    """Time from which every request is refused; None: no end."""

    cut_off_at: datetime | None = None
    """Time since which every request is refused, until an operator restores the recipient; None: not cut off."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether every request of the recipient is refused."""
        return self.cut_off_at is not None or (self.ends_at is not None and self.ends_at <= now)


class Recipient(Restrictions, frozen=True, kw_only=True):
    """A recipient; grants, tokens and sessions refer to its `id`, a UUID that never changes."""

    name: str
    id: str
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: datetime


class Grant(Item, frozen=True, kw_only=True):
    """A grant, which allows a recipient to read a share."""

    recipient: str
    recipient_id: str
    share: str
    share_id: str
    partition_filter: str = ""
    """A filter that applies in addition to each table's filter; empty: none."""

    created_at: datetime
    ends_at: datetime | None = None
    """Time from which the grant has no effect; None: no end."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether the grant has no effect any more."""
        return self.ends_at is not None and self.ends_at <= now


class View(Item, frozen=True, kw_only=True):
    """Definition of a view, and the result of its last refresh."""

    share: str
    schema_name: str
    name: str
    table_id: str
    source: str
    """`share.schema.table`, which the SQL calls `source`."""

    sql: str
    key: tuple[str, ...] = ()
    """Columns that identify a row within one recipient's rows; empty: all columns."""

    refresh: str = ""
    """Schedule in the syntax of EventBridge Scheduler; empty: only on request, and after changes of rights."""

    max_staleness: int = 0
    """Seconds after the last refresh when the next one is due, whatever the schedule; 0: never."""

    requested_at: datetime | None = None
    """Time since which a refresh is requested; None: not requested."""

    refreshed_at: datetime | None = None
    last_refresh: dict[str, Any] = msgspec.field(default_factory=dict)
    """Result of the last refresh, as `deltaic view show` prints it."""

    created_at: datetime

    @property
    def title(self) -> str:
        """The full name, `share.schema.name`."""
        return f"{self.share}.{self.schema_name}.{self.name}"


class ViewPartition(Item, frozen=True, kw_only=True):
    """Rows of a view for all recipients with the same properties."""

    table_id: str
    audience: str = msgspec.field(name="policy")
    """Name of these properties (deltaic.partition_filters.audiences), stored as `policy`."""

    since_version: int
    values: dict[str, Any]
    """The properties, each a text or a list of texts."""

    created_at: datetime


class Storage(Item, frozen=True, kw_only=True):
    """Object store of tables other than AWS S3 with the function's role."""

    name: str
    endpoint: str = ""
    """Address for the server; empty: AWS S3."""

    public_endpoint: str = ""
    """Address for recipients, used in signed URLs; empty: `endpoint`."""

    region: str = "us-east-1"
    path_style: bool = False
    role_arn: str = ""
    """Role to assume for reading and signing; empty: the stack's role."""

    secret: str = ""
    """Name in Secrets Manager of the access keys, `{"accessKeyId", "secretAccessKey"}`; empty: a role is used."""

    created_at: datetime


class Invitation(Item, frozen=True, kw_only=True):
    """Link with which a recipient creates its own token, once, without its secret."""

    id: str
    recipient_id: str
    recipient: str
    endpoint: str
    """Endpoint for the recipient's profile."""

    token_seconds: int
    """Lifetime of the token."""

    overlap_seconds: int | None = None
    """How long the recipient's other tokens work after that; None: until they expire."""

    comment: str = ""
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    token_id: str = ""
    """Id of the token that the link created."""

    cancelled: bool = False

    def state(self, now: datetime | None = None) -> Literal["open", "used", "cancelled", "expired"]:
        """Return the state of the link at `now`."""
        if self.used_at is not None:
            return "used"
        if self.cancelled:
            return "cancelled"
        return "open" if self.expires_at > (now or datetime.now(UTC)) else "expired"


class Policy(Item, frozen=True, kw_only=True):
    """Policy that accepts JWTs of an issuer, audience and subject as a recipient's."""

    id: str
    recipient_id: str
    recipient: str
    issuer: str
    audience: str
    subject_claim: Literal["sub", "oid", "azp", "groups"]
    subject: str
    comment: str = ""
    created_at: datetime


class OAuthClient(Item, frozen=True, kw_only=True):
    """Program of a recipient that gets tokens from the server, without its secret."""

    id: str
    recipient_id: str
    recipient: str
    comment: str = ""
    created_at: datetime


class Token(Item, frozen=True, kw_only=True):
    """A bearer token without its secret, which is not stored."""

    id: str
    recipient_id: str
    recipient: str
    created_at: datetime
    expires_at: datetime
    revoked: bool = False
    comment: str = ""
    salt: str = ""
    """Salt that derives the token's secret from its link's secret; removed at the first use of the token."""

    def state(self, now: datetime | None = None) -> Literal["live", "expired", "revoked"]:
        """Return the state of the token at `now`, for an authorizer without a cache."""
        if self.revoked:
            return "revoked"
        return "live" if self.expires_at > (now or datetime.now(UTC)) else "expired"
