"""Pydantic models of declaration files: a catalog's content as YAML, without secrets and ids.

Files can omit fields with default values, as exported files do. The checks of the catalog validate and normalize
values.
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


def _use(check: Callable[[Any], Any]) -> AfterValidator:
    """Return a pydantic field validator that calls a check of the catalog, which raises InvalidParameter."""

    def validate(value: Any) -> Any:
        try:
            return check(value)
        except InvalidParameter as error:
            raise ValueError(error.message) from None

    return AfterValidator(validate)


def _check_unique(values: dict[str, _Value]) -> dict[str, _Value]:
    spellings: dict[str, str] = {}
    for name in values:
        if (first_spelling := spellings.setdefault(names.key(name), name)) != name:
            raise ValueError(f"has '{first_spelling}' and '{name}', which are the same name: names ignore case")
    return values


def _or_default(value: Any) -> Any:
    """Read a YAML key without a value, such as `orders:`, as an entry with default values."""
    return {} if value is None else value


def _refuse_number(value: Any) -> Any:
    """Reject numbers such as 20270201, which pydantic would read as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value):
        raise ValueError("is not a date or time: write 2027-02-01 or 2027-02-01T12:00:00Z")
    return value


def _utc_end(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    try:
        time = value.replace(tzinfo=value.tzinfo or UTC, microsecond=0).astimezone(UTC)
    except OverflowError:
        raise ValueError("is not in the supported range of years: use a year from 1 to 9999") from None
    return stored_end(time)


def _to_json(values: list[str]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _normalize_property(value: str | list[str]) -> str | list[str]:
    parsed = value_of(value if isinstance(value, str) else _to_json(value))
    return list(parsed) if isinstance(parsed, tuple) else parsed


def _check_issuer_url(url: str) -> str:
    check_issuer(url, loopback=True)  # `apply` checks later whether an issuer on this machine is allowed
    return url


def _check_table_name(name: str) -> str:
    names.split_table_name(name)
    return name


Unique = AfterValidator(_check_unique)
OrDefault = BeforeValidator(_or_default)
Text = Annotated[str, AfterValidator(str.strip)]
Comment = Annotated[str, _use(names.check_comment)]
Location = Annotated[str, _use(checked_location)]
"""URL of a folder, normalized as in the catalog, so that a final slash makes no difference."""
StorageName = Annotated[str, AfterValidator(names.key)]
AccessModes = Annotated[list[Literal["url", "dir"]], _use(lambda modes: list(checked_access_modes(modes)))]
RowFilter = Annotated[str, _use(checked_filter)]
EndTime = Annotated[datetime | None, BeforeValidator(_refuse_number), AfterValidator(_utc_end)]
ShareName = Annotated[str, _use(lambda name: names.check_name("share", name))]
SchemaName = Annotated[str, _use(lambda name: names.check_name("schema", name))]
TableName = Annotated[str, _use(lambda name: names.check_name("table", name))]
VolumeName = Annotated[str, _use(lambda name: names.check_name("volume", name))]
SkillName = Annotated[str, _use(lambda name: names.check_name("skill", name))]
ModelName = Annotated[str, _use(lambda name: names.check_name("model", name))]
RecipientName = Annotated[str, _use(lambda name: names.check_name("recipient", name))]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageOf(_Section):
    """An object store other than the stack's AWS S3; set its access keys with `deltaic storage`."""

    endpoint: Annotated[str, _use(checked_endpoint)] = ""
    public_endpoint: Annotated[str, _use(checked_endpoint)] = ""
    region: Annotated[str, _use(checked_region)] = "us-east-1"
    path_style: bool = False
    role_arn: Annotated[str, _use(checked_role)] = ""


class TableOf(_Section):
    """A shared table: its folder, and the rows, columns and versions that recipients can read."""

    location: Location
    storage: StorageName = ""
    auxiliary_locations: list[Location] = []
    access_modes: AccessModes = ["url"]
    history: bool = False
    start_version: int = Field(0, ge=0, lt=2**63, strict=True)
    checkpoint: bool = False
    partition_filter: RowFilter = ""
    hidden_columns: Annotated[list[str], _use(lambda columns: list(checked_columns(columns)))] = []
    iceberg: Literal["", "vended", "signed"] = ""
    format: Literal["delta", "iceberg"] = "delta"
    metadata_location: Annotated[str, _use(checked_metadata)] = ""

    @model_validator(mode="after")
    def _check_combination(self) -> "TableOf":
        table = Table.read({**_EMPTY, **self.model_dump()})
        try:
            check_iceberg(table)
            check_access(table.access_modes, table.partition_filter, table.hidden_columns)
        except InvalidParameter as error:
            raise ValueError(error.message) from None
        return self


_EMPTY: Mapping[str, Any] = {"name": "", "schema_name": "", "share": "", "id": "", "share_id": "", "created_at": 0}


class ViewOf(_Section):
    """A view: a table whose rows `deltaic view refresh` computes from a shared table with SQL."""

    location: Location
    source: Annotated[str, _use(_check_table_name)]
    sql: Annotated[Text, Field(min_length=1)]
    key: Annotated[list[str], _use(lambda columns: list(checked_key(columns)))] = []
    refresh: Annotated[str, AfterValidator(lambda text: check_schedule(text) if text else "")] = ""
    max_staleness: Annotated[int, _use(checked_staleness)] = 0
    history: bool = False


class FolderOf(_Section):
    """A folder that is shared as a volume or a skill."""

    location: Location
    storage: StorageName = ""
    access_modes: AccessModes = ["url", "dir"]
    comment: Comment = ""


class VersionOf(FolderOf):
    """A version of a model: a folder with the files of this version."""

    source: str = ""
    run_id: str = ""


class ModelOf(_Section):
    """A model with its versions by number."""

    comment: Comment = ""
    versions: dict[Annotated[int, Field(ge=1, lt=2**63)], VersionOf] = {}


class FollowOf(_Section):
    """A followed source (folder or AWS Glue database): a schema shares its tables without declaring each."""

    source: Annotated[str, _use(checked_source)]
    storage: StorageName = ""
    exclude: Annotated[list[str], _use(lambda patterns: list(checked_patterns(patterns)))] = []
    history: bool = False


class SchemaOf(_Section):
    """A schema of a share, with its tables, views, volumes, skills and models."""

    comment: Comment = ""
    follow: FollowOf | None = None
    tables: Annotated[dict[TableName, TableOf], Unique] = {}
    views: Annotated[dict[TableName, ViewOf], Unique] = {}
    volumes: Annotated[dict[VolumeName, FolderOf], Unique] = {}
    skills: Annotated[dict[SkillName, FolderOf], Unique] = {}
    models: Annotated[dict[ModelName, Annotated[ModelOf, OrDefault]], Unique] = {}

    @model_validator(mode="after")
    def _check_names(self) -> "SchemaOf":
        if shared_names := {names.key(name) for name in self.tables} & {names.key(name) for name in self.views}:
            raise ValueError(f"has a table and a view '{min(shared_names)}', both tables for recipients: rename one")
        return self


class ShareOf(_Section):
    """A share with its schemas."""

    display_name: Annotated[str, _use(names.check_display_name)] = ""
    comment: Comment = ""
    properties: Annotated[dict[str, str], _use(names.check_properties)] = {}
    schemas: Annotated[dict[SchemaName, Annotated[SchemaOf, OrDefault]], Unique] = {}


class GrantOf(_Section):
    """A recipient's right to read a share, optionally with a row filter and an expiry time."""

    partition_filter: RowFilter = ""
    ends_at: EndTime = None


class PolicyOf(_Section):
    """A federation policy: which JWTs of an OpenID Connect issuer authenticate the recipient."""

    issuer: Annotated[str, _use(_check_issuer_url)]
    audience: Annotated[str, _use(checked_name)]
    subject: Annotated[str, _use(checked_name)]
    subject_claim: Claim = "sub"
    comment: Comment = ""

    @property
    def id(self) -> str:
        """Return the policy's id in the catalog, which is computed from its fields."""
        return policy_id(self.issuer, self.audience, self.subject_claim, self.subject)


class RecipientOf(_Section):
    """A recipient with its grants, without its tokens and OAuth clients, because these are secret."""

    comment: Comment = ""
    properties: dict[str, Annotated[str | list[str], AfterValidator(_normalize_property)]] = {}
    addresses: Annotated[list[str], _use(lambda addresses: sorted(checked_addresses(addresses)))] = []
    requests_per_minute: int = Field(0, ge=0, le=MOST_REQUESTS, strict=True)
    bytes_per_day: int = Field(0, ge=0, le=MOST_BYTES, strict=True)
    ends_at: EndTime = None
    policies: list[PolicyOf] = []
    grants: Annotated[dict[ShareName, Annotated[GrantOf, OrDefault]], Unique] = {}

    @model_validator(mode="after")
    def _check_properties(self) -> "RecipientOf":
        try:
            check_lists(names.check_properties(texts_of(self.properties)))
        except InvalidParameter as error:
            raise ValueError(error.message) from None
        return self


class Declaration(_Section):
    """The content of one declaration file, or of all files together."""

    storages: Annotated[dict[Annotated[str, _use(check_storage_name)], Annotated[StorageOf, OrDefault]], Unique] = {}
    shares: Annotated[dict[ShareName, Annotated[ShareOf, OrDefault]], OrDefault, Unique] = {}
    recipients: Annotated[dict[RecipientName, Annotated[RecipientOf, OrDefault]], OrDefault, Unique] = {}

    @model_validator(mode="before")
    @classmethod
    def _default_groups(cls, value: Any) -> Any:
        return {name: _or_default(group) for name, group in value.items()} if isinstance(value, dict) else value


PARTS: Mapping[str, type[BaseModel]] = {
    "storage": StorageOf, "share": ShareOf, "schema": SchemaOf, "table": TableOf, "view": ViewOf, "volume": FolderOf,
    "skill": FolderOf, "model": ModelOf, "version": VersionOf, "recipient": RecipientOf, "policy": PolicyOf,
    "grant": GrantOf,
}  # fmt: skip
"""Pydantic model of each kind of entry; a kind comes after all kinds to which it can refer."""


def texts_of(properties: Mapping[str, str | list[str]]) -> dict[str, str]:
    """Return a recipient's properties as strings, as the catalog stores them: lists become JSON arrays."""
    return {name: value if isinstance(value, str) else _to_json(value) for name, value in properties.items()}


def fields() -> Iterable[str]:
    """Return the field names of all pydantic models; error messages suggest one for a misspelled field."""
    models = [model for model in globals().values() if isinstance(model, type) and issubclass(model, _Section)]
    return sorted({name for model in models for name in model.model_fields})
