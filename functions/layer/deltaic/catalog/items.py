"""Stored items of the catalog: shares, schemas, tables, recipients, grants, storages and sign-in methods."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

import msgspec

from deltaic.protocol import names

AccessMode = Literal["url", "dir"]
IcebergAccess = Literal["", "vended", "signed"]
TableFormat = Literal["delta", "iceberg"]


def now() -> datetime:
    """Return the current time in whole seconds, the precision of times in the DynamoDB tables."""
    return datetime.now(UTC).replace(microsecond=0)


class Item(msgspec.Struct, frozen=True):
    """Base class of all items: converts from and to the attributes that DynamoDB stores.

    Items do not validate their values, because every value is validated before it is stored.
    """

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Self:
        """Convert stored attributes to an item; ignores unknown attributes, such as those of later releases."""
        fields = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        return cls(**{fields[name]: _to_field(name, value) for name, value in attributes.items() if name in fields})

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that DynamoDB stores for this item."""
        fields = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return {name: getattr(self, field) for name, field in fields}


def _to_field(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else value
    return tuple(value) if isinstance(value, list) else value


class NamedItem(Item, frozen=True, kw_only=True):
    """Base class of items that are listed by name."""

    name: str

    @property
    def key(self) -> str:
        """Sort key in listings; pass it as `after` to continue a listing after this item."""
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
    """Comment that only the provider sees, because the protocol has none for schemas."""

    created_at: datetime


class SchemaEntry(NamedItem, frozen=True, kw_only=True):
    """Base class of the entries of a schema: tables, views, volumes, skills and models."""

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
        """Sort key in the listing of a whole share; pass it as `after` to continue after this entry."""
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
    """Whether a function of the stack writes checkpoints into the table's log, because its writers do not."""

    partition_filter: str = ""
    """SQL condition on partition columns that selects the shared rows (deltaic.partition_filters); empty: all."""

    hidden_columns: tuple[str, ...] = ()
    """Partition columns that recipients do not see."""

    view_properties: tuple[str, ...] | None = None
    """Names of the recipient properties that the rows of a view depend on; None: the table is not a view."""

    iceberg: IcebergAccess = ""
    """How Iceberg clients read files: with credentials for the folder ("vended"), or with a signature for each request
    ("signed"); empty: they cannot read the table."""

    format: TableFormat = "delta"
    """Format of the table. Iceberg clients read an Iceberg table's own metadata and its folder (access mode `dir`)."""

    metadata_location: str = ""
    """Metadata file of an Iceberg table, or a name (`glue://...`, `s3tables://...`); empty: see the version hint."""

    followed: bool = False
    """Whether a check of a followed source added the table, and may hide it (deltaic.catalog.admin.follow_admin)."""

    unlisted: str = ""
    """Why the table is hidden from recipients; empty: it is listed."""

    created_at: datetime

    @property
    def client_modes(self) -> tuple[AccessMode, ...]:
        """Access modes in which Delta Sharing clients can read the table: not the folder of an Iceberg table."""
        return tuple(mode for mode in self.access_modes if mode == "url" or self.format == "delta")

    @property
    def is_filtered(self) -> bool:
        """True if the table has a filter or hidden columns, which apply to every recipient, or is a view."""
        return bool(self.partition_filter or self.hidden_columns or self.view_properties is not None)


class Restrictions(Item, frozen=True, kw_only=True):
    """Limits on all requests of a recipient, for every share; by default there are none.

    They are stored twice: under the recipient's name for administrators, and under its id for the API functions.
    """

    addresses: tuple[str, ...] = ()
    """Networks (CIDR) from which requests are allowed; empty: all."""

    requests_per_minute: int = 0
    """Maximum number of requests per minute; 0: only the limit of the API Gateway stage applies."""

    bytes_per_day: int = 0
    """Total size of the files for which URLs are signed in a day (UTC); 0: no limit."""

    ends_at: datetime | None = None
    """Time from which every request is rejected; None: never."""

    cut_off_at: datetime | None = None
    """Time since which every request is rejected, until an operator restores the recipient; None: not cut off."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether every request of the recipient is rejected, because it has expired or is cut off."""
        return self.cut_off_at is not None or (self.ends_at is not None and self.ends_at <= now)


class Recipient(Restrictions, frozen=True, kw_only=True):
    """A recipient; grants, tokens and sessions refer to its `id`, a UUID that never changes."""

    name: str
    id: str
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: datetime


class Grant(Item, frozen=True, kw_only=True):
    """A grant of a share to a recipient, which may then read the share."""

    recipient: str
    recipient_id: str
    share: str
    share_id: str
    partition_filter: str = ""
    """Filter on the rows of every table, in addition to the table's own filter; empty: none."""

    created_at: datetime
    ends_at: datetime | None = None
    """Time when the grant expires; None: never."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether the grant has expired."""
        return self.ends_at is not None and self.ends_at <= now


class View(Item, frozen=True, kw_only=True):
    """Definition of a view of the catalog, and the result of its last refresh."""

    share: str
    schema_name: str
    name: str
    table_id: str
    source: str
    """Full name `share.schema.table` of the table that the view reads; its name in the SQL is `source`."""

    sql: str
    key: tuple[str, ...] = ()
    """Columns that identify a row among the rows of one recipient; empty: all columns."""

    refresh: str = ""
    """Schedule in EventBridge Scheduler syntax; empty: only on request, and after changes of grants or properties."""

    max_staleness: int = 0
    """Seconds after the last refresh at which another one is due even without a schedule; 0: never."""

    requested_at: datetime | None = None
    """Time of the latest request for a refresh; None: no refresh is requested."""

    refreshed_at: datetime | None = None
    last_refresh: dict[str, Any] = msgspec.field(default_factory=dict)
    """Result of the last refresh, which `deltaic view show` prints."""

    created_at: datetime

    @property
    def title(self) -> str:
        """The full name, `share.schema.name`."""
        return f"{self.share}.{self.schema_name}.{self.name}"


class ViewPartition(Item, frozen=True, kw_only=True):
    """Partition of a view: the rows for all recipients with the same properties."""

    table_id: str
    audience: str = msgspec.field(name="policy")
    """Name derived from the properties (deltaic.partition_filters.audiences); its attribute is `policy`."""

    since_version: int
    values: dict[str, Any]
    """Properties that the recipients have in common, by name; each value is a string or a list of strings."""

    created_at: datetime


class Storage(Item, frozen=True, kw_only=True):
    """Storage: an object store that is not AWS S3, or that is read with another role than the function's."""

    name: str
    endpoint: str = ""
    """URL that the server uses; empty: AWS S3."""

    public_endpoint: str = ""
    """URL that recipients use, in signed URLs; empty: `endpoint`."""

    region: str = "us-east-1"
    path_style: bool = False
    role_arn: str = ""
    """ARN of the IAM role to assume for reading and signing; empty: the function's role."""

    secret: str = ""
    """Name of the Secrets Manager secret with `accessKeyId` and `secretAccessKey`; empty: a role is used."""

    created_at: datetime


class Invitation(Item, frozen=True, kw_only=True):
    """Activation link that a recipient can use once to create its token; the link's secret is not stored."""

    id: str
    recipient_id: str
    recipient: str
    endpoint: str
    """URL of the server, for the recipient's profile file."""

    token_seconds: int
    """Lifetime of the token that the link creates."""

    overlap_seconds: int | None = None
    """Seconds for which the recipient's other tokens stay valid after the link is used; None: until they expire."""

    comment: str = ""
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    token_id: str = ""
    """Id of the token that the link created."""

    cancelled: bool = False

    def state(self, now: datetime | None = None) -> Literal["open", "used", "cancelled", "expired"]:
        """Return the state of the invitation link at `now`."""
        if self.used_at is not None:
            return "used"
        if self.cancelled:
            return "cancelled"
        return "open" if self.expires_at > (now or datetime.now(UTC)) else "expired"


class Policy(Item, frozen=True, kw_only=True):
    """Federation policy: JWTs with this issuer, audience and subject authenticate the recipient."""

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
    """OAuth client of a recipient, which gets tokens from the server; its secret is not in this item."""

    id: str
    recipient_id: str
    recipient: str
    comment: str = ""
    created_at: datetime


class Token(Item, frozen=True, kw_only=True):
    """A bearer token; its secret is not stored."""

    id: str
    recipient_id: str
    recipient: str
    created_at: datetime
    expires_at: datetime
    revoked: bool = False
    comment: str = ""
    salt: str = ""
    """Salt to derive the token's secret from its link's secret; removed when the token is first used."""

    def state(self, now: datetime | None = None) -> Literal["live", "expired", "revoked"]:
        """Return the state of the token at `now`; authorizers with a cache may see changes a minute later."""
        if self.revoked:
            return "revoked"
        return "live" if self.expires_at > (now or datetime.now(UTC)) else "expired"
