"""Folder of a table in S3: list all its objects, and delete objects by name."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.log_writer import LogWriter
from deltaic.storage.objects import ObjectTableStore

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.storage_access import S3Access

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DELETED_AT_ONCE = 1000
"""Maximum number of keys that S3 deletes in one request."""


class StoredObject(NamedTuple):
    """Object in the folder of a table."""

    name: str
    """Key relative to the table's root, without percent-encoding."""

    size: int
    modified: int
    """Time of the last modification in milliseconds since the epoch, by the store's clock."""


class S3Folder:
    """Folder of a table in S3 or a compatible store."""

    def __init__(self, location: str, access: S3Access) -> None:
        """Create the S3 clients: `store` reads the table, `writer` writes its log."""
        self._location = Location.parse(location)
        self._client = _client(access)
        storage = StorageConfig(region=access.region, endpoint=access.endpoint or "", path_style=bool(access.endpoint))
        keys = Credentials(access.access_key_id or "", access.secret_access_key or "", access.session_token or "")
        credentials = (lambda: keys) if access.access_key_id and access.secret_access_key else default_credentials
        locations = TableLocations(self._location)
        self.store = ObjectTableStore(locations, storage, credentials)
        self.writer = LogWriter(locations, storage, credentials)

    def objects(self) -> Iterator[StoredObject]:
        """List all objects, in any order, with one request per thousand objects; raises `PipelineError`."""
        prefix = self._location.key_prefix
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._location.bucket, Prefix=prefix)
        try:
            for page in pages:
                for entry in page.get("Contents", ()):
                    modified = int(entry["LastModified"].timestamp() * 1000)
                    yield StoredObject(entry["Key"][len(prefix) :], entry["Size"], modified)
        except (ClientError, BotoCoreError) as failure:
            raise PipelineError(f"{self._location.uri} cannot be listed: {failure}") from failure

    def delete(self, names: Sequence[str]) -> None:
        """Delete at most 1000 objects by name; a name that does not exist is no error. Raises `PipelineError`."""
        keys = [f"{self._location.key_prefix}{name}" for name in names]
        try:
            response = self._client.delete_objects(
                Bucket=self._location.bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            )
        except (ClientError, BotoCoreError) as failure:
            raise PipelineError(f"objects of {self._location.uri} cannot be deleted: {failure}") from failure
        for error in response.get("Errors", ()):
            raise PipelineError(f"{error.get('Key')} cannot be deleted: {error.get('Code')}.")


def _client(access: S3Access) -> "S3Client":
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        region_name=access.region,
        endpoint_url=access.endpoint,
        aws_access_key_id=access.access_key_id,
        aws_secret_access_key=access.secret_access_key,
        aws_session_token=access.session_token,
        config=Config(s3={"addressing_style": "path"} if access.endpoint else {}),
    )
