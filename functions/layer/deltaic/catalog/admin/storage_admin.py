"""Administration of storages: object stores whose access keys are in Secrets Manager, or that need another role."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from deltaic.catalog import keys
from deltaic.catalog.admin.filter_rules import check_folders, stores_of
from deltaic.catalog.admin.records import Checks, Records, checked
from deltaic.catalog.aws_errors import ConditionFailed, to_operator_error
from deltaic.catalog.dynamo import Attributes, botocore_client
from deltaic.catalog.items import Storage, now
from deltaic.catalog.writes import Writes
from deltaic.errors import AlreadyExists, Conflict, InvalidParameter, NotFound
from deltaic.protocol import names
from deltaic.urls import parse_endpoint

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

SECRETS: Final = "deltaic/storage"
"""Prefix of secret names, followed by the names of catalog and storage, so that IAM policies can name a catalog."""

# What Secrets Manager allows in a name (CreateSecret, "Name"), except the slash, which separates parts here.
_NAME: Final = re.compile(r"[A-Za-z0-9_+=.@-]{1,100}")
_REGION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_ROLE: Final = re.compile(r"arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}")


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """Access key of an S3-compatible object store; it is never stored in the catalog."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


class StorageSettings(TypedDict, total=False):
    """Settings of a storage; None or an absent setting keeps the current value."""

    endpoint: str | None
    public_endpoint: str | None
    region: str | None
    path_style: bool | None
    role_arn: str | None


def connect_secrets() -> "SecretsManagerClient":
    """Return a Secrets Manager client for the AWS account of the environment."""
    client: SecretsManagerClient = botocore_client("secretsmanager")
    return client


class StorageAdmin:
    """Create, get, list, update and delete storages; `secrets` returns the Secrets Manager client."""

    def __init__(self, records: Records, secrets: "Callable[[], SecretsManagerClient]" = connect_secrets) -> None:
        self._records = records
        self._secrets = secrets

    def create(
        self, name: str, *, access_keys: AccessKeys | None = None, **settings: Unpack[StorageSettings]
    ) -> Storage:
        """Create a storage, with its access keys in Secrets Manager; raises AlreadyExists, InvalidParameter."""
        storage = Storage(
            name=check_storage_name(name),
            **checked(_CHECKED, settings),
            secret="" if access_keys is None else self._secret(name),
            created_at=now(),
        )
        key = keys.catalog_entry("storage", name)
        if not self._records.attempt([self._records.put_new(key, {**storage.attributes(), "tables": 0})]):
            raise AlreadyExists(f"storage '{name}' exists already: choose another name, or update it")
        if access_keys is not None:
            try:
                self._store_keys(storage.secret, access_keys)
            except Exception:
                self._records.transact([self._records.delete(key)])
                raise
        return storage

    def get(self, name: str) -> Storage:
        """Return a storage without its access keys; raises NotFound."""
        return Storage.read(self._records.get(keys.catalog_entry("storage", name), f"storage '{name}' not found"))

    def list(self) -> Iterator[Storage]:
        """Yield all storages, sorted by name."""
        return (Storage.read(item) for item in self._records.all(keys.all_of("storage")))

    def update(
        self, name: str, *, access_keys: AccessKeys | None = None, **changes: Unpack[StorageSettings]
    ) -> Storage:
        """Change the given settings of a storage, and keep the others; raises NotFound, InvalidParameter."""
        assign = checked(_CHECKED, changes)
        if access_keys is not None:
            assign["secret"] = self._secret(self.get(name).name)

        def check(before: Attributes, after: Mapping[str, Any]) -> Writes:
            moved = Storage.read({**before, **after})
            is_same = stores_of(moved) == stores_of(Storage.read(before))
            writes = [] if is_same else check_folders(self._records, moved=moved)
            if access_keys is not None:
                self._store_keys(assign["secret"], access_keys)
            return writes

        missing = f"storage '{name}' not found"
        return Storage.read(
            self._records.change(keys.catalog_entry("storage", name), missing, lambda _: assign, check=check)
        )

    def delete(self, name: str) -> Storage:
        """Delete a storage and its access keys; raises NotFound, or Conflict if an entry uses the storage."""
        storage = self.get(name)
        try:
            self._records.transact([self._records.delete(keys.catalog_entry("storage", name), {"tables": 0})])
        except ConditionFailed as failed:
            count = (failed.item or {}).get("tables", 0)
            if not count:
                raise NotFound(f"storage '{name}' not found") from None
            raise Conflict(
                f"storage '{storage.name}' has {count} table(s) or other folders: delete or move them first"
            ) from None
        if storage.secret:
            self._delete_keys(storage.secret)
        return storage

    def _secret(self, name: str) -> str:
        return f"{SECRETS}/{self._records.table}/{names.key(name)}"

    def _store_keys(self, secret: str, access_keys: AccessKeys) -> None:
        if not access_keys.access_key_id or not access_keys.secret_access_key:
            raise InvalidParameter("an access key needs both an id and a secret: give both")
        value = json.dumps({
            "accessKeyId": access_keys.access_key_id,
            "secretAccessKey": access_keys.secret_access_key,
        })  # fmt: skip
        with _translated_errors():
            client = self._secrets()
            try:
                client.create_secret(Name=secret, SecretString=value, Description="Access keys of a Deltaic storage")
            except client.exceptions.ResourceExistsException:
                client.put_secret_value(SecretId=secret, SecretString=value)

    def _delete_keys(self, secret: str) -> None:
        with _translated_errors():
            client = self._secrets()
            with suppress(client.exceptions.ResourceNotFoundException):
                # Without a recovery window, so that a new storage can have the same name at once.
                client.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise to_operator_error(error) from error


def check_storage_name(name: str) -> str:
    """Return the name if it is a valid storage name; otherwise raise InvalidParameter."""
    if not _NAME.fullmatch(name):
        raise InvalidParameter(f"'{name}' is not a valid storage name: use up to 100 letters, digits and _ + = . @ -")
    return name


def checked_endpoint(endpoint: str) -> str:
    """Validate the URL of an object store, and return it without a slash at the end; raises InvalidParameter."""
    if endpoint and "@" in parse_endpoint(endpoint).netloc:
        raise InvalidParameter("an endpoint must not contain credentials: give access keys instead")
    return endpoint.rstrip("/")


def checked_region(region: str) -> str:
    """Return a region name; raises InvalidParameter if it contains characters that no region name contains."""
    if not _REGION.fullmatch(region):
        raise InvalidParameter(f"'{region}' is not a region name: write, for example, us-east-1")
    return region


def checked_role(role_arn: str) -> str:
    """Return the ARN of an IAM role, or "" for none; raises InvalidParameter."""
    if role_arn and not _ROLE.fullmatch(role_arn):
        raise InvalidParameter(f"'{role_arn}' is not the ARN of a role: write arn:aws:iam::<account>:role/<name>")
    return role_arn


_CHECKED: Final[Checks] = {
    "endpoint": checked_endpoint,
    "public_endpoint": checked_endpoint,
    "region": checked_region,
    "path_style": bool,
    "role_arn": checked_role,
}
