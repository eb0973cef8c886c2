"""The model of a declaration: what a catalog holds, as YAML; never secrets, keys or ids.

A field that has its default is left out where a catalog is written down, and has it where a file leaves it out. Values
are spelled as the catalog spells them, and what it would refuse is refused here: by the catalog's own checks.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from deltaic.catalog.admin.entry_admin import checked_access_modes, checked_location
from deltaic.catalog.admin.filter_rules import check_access, check_iceberg, checked_columns, checked_filter
from deltaic.catalog.admin.follow_admin import checked_patterns, checked_source
from deltaic.catalog.admin.storage_admin import check_storage_name, checked_endpoint, checked_region, checked_role
from deltaic.catalog.admin.table_admin import checked_metadata
from deltaic.catalog.admin.view_admin import checked_key, checked_staleness
from deltaic.catalog.credentials.federation_admin import Claim, checked_name, policy_id
from deltaic.catalog.items import Table
from deltaic.catalog.restrictions import MOST_BYTES, MOST_REQUESTS, checked_addresses, stored_end
from deltaic.errors import InvalidParameter
from deltaic.identity.key_download import check_issuer
from deltaic.partition_filters.properties import check_lists, value_of
from deltaic.protocol import names
from deltaic_datasets.file.schedule import check_schedule
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_Value = TypeVar("_Value")


def _by(check: Callable[[Any], Any]) -> AfterValidator:
    """Return a check of the catalog's as one of a field, whose refusal is told with its line."""

    def checked(value: Any) -> Any:
        try:
            return check(value)
        except InvalidParameter as wrong:
            raise ValueError(wrong.message) from None

    return AfterValidator(checked)


def _once(held: dict[str, _Value]) -> dict[str, _Value]:
    first: dict[str, str] = {}
    for name in held:
        if (other := first.setdefault(names.key(name), name)) != name:
            raise ValueError(f"has '{other}' and '{name}', which are one name: names match without regard to case")
    return held


def _or_nothing(value: Any) -> Any:
    """Take `orders:` with nothing behind it for an entry of defaults."""
    return {} if value is None else value


def _no_number(value: Any) -> Any:
    """Refuse 20270201, which would be taken for seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value):
        raise ValueError("is a day or a time: write 2027-02-01 or 2027-02-01T12:00:00Z")
    return value


def _moment(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = value.replace(tzinfo=value.tzinfo or UTC, microsecond=0).astimezone(UTC)
    except OverflowError:
        raise ValueError("is beyond the years that there are") from None
    return stored_end(moment)


def _as_json(values: list[str]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _property(value: str | list[str]) -> str | list[str]:
    told = value_of(value if isinstance(value, str) else _as_json(value))
    return list(told) if isinstance(told, tuple) else told


def _issuer(url: str) -> str:
    check_issuer(url, loopback=True)  # whether this machine's own will do is asked where the AWS is known
    return url


def _table_named(name: str) -> str:
    names.split_table_name(name)
    return name


Once = AfterValidator(_once)
Text = Annotated[str, AfterValidator(str.strip)]
Comment = Annotated[str, _by(names.check_comment)]
Location = Annotated[str, _by(checked_location)]
"""A folder, as the catalog spells it: with or without a slash at its end it is one."""
StorageName = Annotated[str, AfterValidator(names.key)]
AccessModes = Annotated[list[Literal["url", "dir"]], _by(lambda modes: list(checked_access_modes(modes)))]
RowFilter = Annotated[str, _by(checked_filter)]
Moment = Annotated[datetime | None, BeforeValidator(_no_number), AfterValidator(_moment)]
ShareName = Annotated[str, _by(lambda name: names.check_name("share", name))]
SchemaName = Annotated[str, _by(lambda name: names.check_name("schema", name))]
TableName = Annotated[str, _by(lambda name: names.check_name("table", name))]
VolumeName = Annotated[str, _by(lambda name: names.check_name("volume", name))]
SkillName = Annotated[str, _by(lambda name: names.check_name("skill", name))]
ModelName = Annotated[str, _by(lambda name: names.check_name("model", name))]
RecipientName = Annotated[str, _by(lambda name: names.check_name("recipient", name))]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageOf(_Part):
    """A place other than AWS S3 as the stack reads it; its keys are given by `deltaic storage`."""

    endpoint: Annotated[str, _by(checked_endpoint)] = ""
    public_endpoint: Annotated[str, _by(checked_endpoint)] = ""
    region: Annotated[str, _by(checked_region)] = "us-east-1"
    path_style: bool = False
    role_arn: Annotated[str, _by(checked_role)] = ""


class TableOf(_Part):
    """A table."""

    location: Location
    storage: StorageName = ""
    auxiliary_locations: list[Location] = []
    access_modes: AccessModes = ["url"]
    history: bool = False
    start_version: int = Field(0, ge=0, lt=2**63, strict=True)
    checkpoint: bool = False
    partition_filter: RowFilter = ""
    hidden_columns: Annotated[list[str], _by(lambda columns: list(checked_columns(columns)))] = []
    iceberg: Literal["", "vended", "signed"] = ""
    format: Literal["delta", "iceberg"] = "delta"
    metadata_location: Annotated[str, _by(checked_metadata)] = ""

    @model_validator(mode="after")
    def _fits_together(self) -> "TableOf":
        table = Table.read({**_NOBODYS, **self.model_dump()})
        try:
            check_iceberg(table)
            check_access(table.access_modes, table.partition_filter, table.hidden_columns)
        except InvalidParameter as wrong:
            raise ValueError(wrong.message) from None
        return self


_NOBODYS: Mapping[str, Any] = {"name": "", "schema_name": "", "share": "", "id": "", "share_id": "", "created_at": 0}


class ViewOf(_Part):
    """A view, whose rows `deltaic view refresh` makes."""

    location: Location
    source: Annotated[str, _by(_table_named)]
    sql: Annotated[Text, Field(min_length=1)]
    key: Annotated[list[str], _by(lambda columns: list(checked_key(columns)))] = []
    refresh: Annotated[str, AfterValidator(lambda text: check_schedule(text) if text else "")] = ""
    max_staleness: Annotated[int, _by(checked_staleness)] = 0
    history: bool = False


class FolderOf(_Part):
    """A volume or a skill."""

    location: Location
    storage: StorageName = ""
    access_modes: AccessModes = ["url", "dir"]
    comment: Comment = ""


class VersionOf(FolderOf):
    """A version of a model."""

    source: str = ""
    run_id: str = ""


class ModelOf(_Part):
    """A model."""

    comment: Comment = ""
    versions: dict[Annotated[int, Field(ge=1, lt=2**63)], VersionOf] = {}


class FollowOf(_Part):
    """What a schema follows; the tables that it brings are in no file."""

    source: Annotated[str, _by(checked_source)]
    storage: StorageName = ""
    exclude: Annotated[list[str], _by(lambda patterns: list(checked_patterns(patterns)))] = []
    history: bool = False


class SchemaOf(_Part):
    """A schema."""

    comment: Comment = ""
    follow: FollowOf | None = None
    tables: Annotated[dict[TableName, TableOf], Once] = {}
    views: Annotated[dict[TableName, ViewOf], Once] = {}
    volumes: Annotated[dict[VolumeName, FolderOf], Once] = {}
    skills: Annotated[dict[SkillName, FolderOf], Once] = {}
    models: Annotated[dict[ModelName, Annotated[ModelOf, BeforeValidator(_or_nothing)]], Once] = {}

    @model_validator(mode="after")
    def _views_are_tables(self) -> "SchemaOf":
        if both := {names.key(name) for name in self.tables} & {names.key(name) for name in self.views}:
            raise ValueError(f"has a table and a view '{min(both)}': recipients see both as tables")
        return self


class ShareOf(_Part):
    """A share."""

    display_name: Annotated[str, _by(names.check_display_name)] = ""
    comment: Comment = ""
    properties: Annotated[dict[str, str], _by(names.check_properties)] = {}
    schemas: Annotated[dict[SchemaName, Annotated[SchemaOf, BeforeValidator(_or_nothing)]], Once] = {}


class GrantOf(_Part):
    """That a recipient holds a share."""

    partition_filter: RowFilter = ""
    ends_at: Moment = None


class PolicyOf(_Part):
    """That the JWTs of an issuer are a recipient's."""

    issuer: Annotated[str, _by(_issuer)]
    audience: Annotated[str, _by(checked_name)]
    subject: Annotated[str, _by(checked_name)]
    subject_claim: Claim = "sub"
    comment: Comment = ""

    @property
    def id(self) -> str:
        """As the catalog has it."""
        return policy_id(self.issuer, self.audience, self.subject_claim, self.subject)


class RecipientOf(_Part):
    """A recipient; what of how it comes in is secret (tokens, clients) is no part of a file."""

    comment: Comment = ""
    properties: dict[str, Annotated[str | list[str], AfterValidator(_property)]] = {}
    addresses: Annotated[list[str], _by(lambda some: sorted(checked_addresses(some)))] = []
    requests_per_minute: int = Field(0, ge=0, le=MOST_REQUESTS, strict=True)
    bytes_per_day: int = Field(0, ge=0, le=MOST_BYTES, strict=True)
    ends_at: Moment = None
    policies: list[PolicyOf] = []
    grants: Annotated[dict[ShareName, Annotated[GrantOf, BeforeValidator(_or_nothing)]], Once] = {}

    @model_validator(mode="after")
    def _are_properties(self) -> "RecipientOf":
        try:
            check_lists(names.check_properties(texts_of(self.properties)))
        except InvalidParameter as wrong:
            raise ValueError(wrong.message) from None
        return self


class Declaration(_Part):
    """What one file says, or all of them together."""

    storages: Annotated[
        dict[Annotated[str, _by(check_storage_name)], Annotated[StorageOf, BeforeValidator(_or_nothing)]], Once
    ] = {}
    shares: Annotated[
        dict[ShareName, Annotated[ShareOf, BeforeValidator(_or_nothing)]], BeforeValidator(_or_nothing), Once
    ] = {}
    recipients: Annotated[
        dict[RecipientName, Annotated[RecipientOf, BeforeValidator(_or_nothing)]], BeforeValidator(_or_nothing), Once
    ] = {}

    @model_validator(mode="before")
    @classmethod
    def _with_nothing(cls, value: Any) -> Any:
        """Take `shares:` with nothing behind it for none."""
        return {name: _or_nothing(one) for name, one in value.items()} if isinstance(value, dict) else value


PARTS: Mapping[str, type[BaseModel]] = {
    "storage": StorageOf, "share": ShareOf, "schema": SchemaOf, "table": TableOf, "view": ViewOf, "volume": FolderOf,
    "skill": FolderOf, "model": ModelOf, "version": VersionOf, "recipient": RecipientOf, "policy": PolicyOf,
    "grant": GrantOf,
}  # fmt: skip
"""By the kinds of entries, each behind what it needs."""


def texts_of(properties: Mapping[str, str | list[str]]) -> dict[str, str]:
    """Return a recipient's properties as the catalog keeps them: lists as JSON."""
    return {name: one if isinstance(one, str) else _as_json(one) for name, one in properties.items()}


def fields() -> Iterable[str]:
    """Return the names of all fields, for who has mistyped one."""
    parts = [part for part in globals().values() if isinstance(part, type) and issubclass(part, _Part)]
    return sorted({name for part in parts for name in part.model_fields})
