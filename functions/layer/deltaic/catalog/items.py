"""The items of the catalog: shares, schemas, tables, recipients, grants, storages and ways in; all frozen."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

import msgspec

from deltaic.protocol import names

AccessMode = Literal["url", "dir"]
IcebergAccess = Literal["", "vended", "signed"]
TableFormat = Literal["delta", "iceberg"]


def now() -> datetime:
    """Return the time in whole seconds, as the tables keep it."""
    return datetime.now(UTC).replace(microsecond=0)


class Item(msgspec.Struct, frozen=True):
    """What all items share: how they are read from and written as attributes.

    They check nothing: every value was checked on its way in.
    """

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Self:
        """Return a stored item; deaf to attributes that are not its own, or that a later version added."""
        own = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        return cls(**{own[name]: _plain(name, value) for name, value in attributes.items() if name in own})

    def attributes(self) -> dict[str, Any]:
        """Return what is stored."""
        own = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return {name: getattr(self, field) for name, field in own}


def _plain(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else value
    return tuple(value) if isinstance(value, list) else value


class Named(Item, frozen=True, kw_only=True):
    """What recipients list by name."""

    name: str

    @property
    def key(self) -> str:
        """The position in the listing of its kind: pass it as `after`."""
        return names.key(self.name)


class Share(Named, frozen=True, kw_only=True):
    """A share; `id` is immutable for its life."""

    id: str
    display_name: str = ""
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: datetime


class Schema(Named, frozen=True, kw_only=True):
    """A schema of a share."""

    share: str
    share_id: str
    comment: str = ""
    """The provider's note; the protocol has no place for it."""

    created_at: datetime


class InSchema(Named, frozen=True, kw_only=True):
    """An entry of a schema."""

    kind: ClassVar[str]

    schema_name: str
    share: str
    id: str
    share_id: str

    @property
    def title(self) -> str:
        """Its name as one types it."""
        return f"{self.share}.{self.schema_name}.{self.name}"

    @property
    def key_in_share(self) -> str:
        """The position in the listing of a whole share: pass it as `after`."""
        return f"{names.key(self.schema_name)}/{self.key}"


class Table(InSchema, frozen=True, kw_only=True):
    """A table entry: where the Delta table lies and what recipients may do with it."""

    kind = "table"

    location: str
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[AccessMode, ...] = ("url",)
    history: bool = False
    """Whether versions before the latest, and the change data feed, are shared."""

    start_version: int = 0
    """The first version that is shared where history is."""

    storage: str = ""
    """Name of the storage that holds the location; empty: AWS S3, read as the function itself."""

    checkpoint: bool = False
    """Whether the stack's own function writes checkpoints into the table's log, for writers that leave none."""

    partition_filter: str = ""
    """Which rows are shared, as SQL over partition columns (deltaic.partition_filters); empty: all."""

    hidden_columns: tuple[str, ...] = ()
    """Partition columns that recipients do not see."""

    view_properties: tuple[str, ...] | None = None
    """The recipient properties that the rows of a view depend on; None for a table that is no view."""

    iceberg: IcebergAccess = ""
    """How Iceberg clients get at the files: by credentials for the folder, or by a signature for each request; empty:
    the table is not open to them."""

    format: TableFormat = "delta"
    """What the table is; one of Iceberg's is shared whole, and with Iceberg clients alone."""

    metadata_location: str = ""
    """Of an Iceberg table the metadata file, or where it is named (`glue://database/table`); empty: by its hint."""

    followed: bool = False
    """Whether a followed folder or database brought it (deltaic.catalog.admin.follow_admin), and can unlist it."""

    unlisted: str = ""
    """Why recipients do not see it, though it is entered; empty: they do."""

    created_at: datetime

    @property
    def is_filtered(self) -> bool:
        """Whether less than all of the table is shared, whoever asks."""
        return bool(self.partition_filter or self.hidden_columns or self.view_properties is not None)


class Restrictions(Item, frozen=True, kw_only=True):
    """From where, until when and how much a recipient may ask, whatever it was granted; by default: no restriction.

    It lies with the recipient's name, for administrators, and with its id, where endpoints read it beside the grant.
    """

    addresses: tuple[str, ...] = ()
    """The networks (CIDR) whose requests are answered; empty: all."""

    requests_per_minute: int = 0
    """0: as many as the stage takes."""

    bytes_per_day: int = 0
    """Of files that URLs are signed for; 0: as many as are asked for."""

    ends_at: datetime | None = None
    """From when on nothing is answered; None: there is no end."""

    cut_off_at: datetime | None = None
    """Since when nothing is answered, until an operator restores it; None: it is not cut off."""

    def has_ended(self, now: datetime) -> bool:
        """Whether no request is answered any more: whoever holds the recipient's keys holds nothing."""
        return self.cut_off_at is not None or (self.ends_at is not None and self.ends_at <= now)


class Recipient(Restrictions, frozen=True, kw_only=True):
    """Who may read; `id` is an immutable UUID that grants, tokens and sessions refer to."""

    name: str
    id: str
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: datetime


class Grant(Item, frozen=True, kw_only=True):
    """That a recipient may read a share."""

    recipient: str
    recipient_id: str
    share: str
    share_id: str
    partition_filter: str = ""
    """Which rows of the share's tables it may read, beside each table's own filter; empty: all of those."""

    created_at: datetime
    ends_at: datetime | None = None
    """From when on it is as if it were not there; None: there is no end."""

    def has_ended(self, now: datetime) -> bool:
        """Whether it opens nothing any more."""
        return self.ends_at is not None and self.ends_at <= now


class View(Item, frozen=True, kw_only=True):
    """What a view is made of, beside its table entry; and how its last refresh went."""

    share: str
    schema_name: str
    name: str
    table_id: str
    source: str
    """`share.schema.table`, which the SQL calls `source`."""

    sql: str
    key: tuple[str, ...] = ()
    """Columns that name a row of one recipient; empty: rows are compared as a whole."""

    refresh: str = ""
    """When it is refreshed, in the words of EventBridge Scheduler; empty: by hand, and when rights change."""

    max_staleness: int = 0
    """Seconds after its last refresh from which on it is due whatever its schedule says; 0: never."""

    requested_at: datetime | None = None
    """Since when a refresh is wanted, as rights changed; None: it is not."""

    refreshed_at: datetime | None = None
    last_refresh: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the last refresh did, as `deltaic view show` says it."""

    created_at: datetime

    @property
    def title(self) -> str:
        """Its name as one types it."""
        return f"{self.share}.{self.schema_name}.{self.name}"


class ViewPartition(Item, frozen=True, kw_only=True):
    """That a view holds the rows of all recipients with the same properties, and since which of its versions."""

    table_id: str
    audience: str = msgspec.field(name="policy")
    """deltaic.partition_filters.audiences names it; stored as `policy`."""

    since_version: int
    values: dict[str, Any]
    """The properties: text or a list of texts."""

    created_at: datetime


class Storage(Item, frozen=True, kw_only=True):
    """A place where tables lie other than AWS S3 read as the function itself."""

    name: str
    endpoint: str = ""
    """Where the server reaches it; empty: AWS S3."""

    public_endpoint: str = ""
    """Where recipients reach it, which signed URLs name; empty: `endpoint`."""

    region: str = "us-east-1"
    path_style: bool = False
    role_arn: str = ""
    """The role that is assumed to read and sign; empty: the stack's own."""

    secret: str = ""
    """Secrets Manager name of its access keys, `{"accessKeyId", "secretAccessKey"}`; empty: a role's."""

    created_at: datetime


class Invitation(Item, frozen=True, kw_only=True):
    """A link by which a recipient makes its token itself, once; without the link's secret, which is stored nowhere."""

    id: str
    recipient_id: str
    recipient: str
    endpoint: str
    """What the profile will name."""

    token_seconds: int
    """How long the token will live."""

    overlap_seconds: int | None = None
    """How long the recipient's other tokens still work then; None: to their own ends."""

    comment: str = ""
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    token_id: str = ""
    """Of the token that was made."""

    cancelled: bool = False

    def state(self, now: datetime | None = None) -> Literal["open", "used", "cancelled", "expired"]:
        """Return what becomes of whoever opens the link at `now`."""
        if self.used_at is not None:
            return "used"
        if self.cancelled:
            return "cancelled"
        return "open" if self.expires_at > (now or datetime.now(UTC)) else "expired"


class Policy(Item, frozen=True, kw_only=True):
    """That the JWTs of an issuer are a recipient's: those for this audience and about this subject."""

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
    """A program of a recipient's that gets its tokens at our token endpoint; without its secret."""

    id: str
    recipient_id: str
    recipient: str
    comment: str = ""
    created_at: datetime


class Token(Item, frozen=True, kw_only=True):
    """A bearer token without its secret, which is stored nowhere."""

    id: str
    recipient_id: str
    recipient: str
    created_at: datetime
    expires_at: datetime
    revoked: bool = False
    comment: str = ""
    salt: str = ""
    """Of a link's token that was never used: what makes its secret of the link's."""

    def state(self, now: datetime | None = None) -> Literal["live", "expired", "revoked"]:
        """Return what an authorizer with no cache makes of it at `now`."""
        if self.revoked:
            return "revoked"
        return "live" if self.expires_at > (now or datetime.now(UTC)) else "expired"
