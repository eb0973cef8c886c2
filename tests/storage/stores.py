"""Object stores for the storage tests."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig


@dataclass(frozen=True)
class Store:
    """Running object store and its administrator's keys."""

    storage: StorageConfig
    credentials: Credentials
    bucket: str

    def reader(self) -> Credentials:
        return self.credentials

    @property
    def client(self) -> Any:
        """Create a boto3 client of the store."""
        return _client(self)

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)


def create_store(endpoint: str, key_id: str, secret: str) -> Store:
    """Create a bucket in a new store."""
    store = Store(StorageConfig(endpoint=endpoint, path_style=True), Credentials(key_id, secret), "storage-tests")
    store.client.create_bucket(Bucket=store.bucket)
    return store


def document(*statements: dict[str, Any]) -> str:
    """Write an IAM policy."""
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@cache
def _client(store: Store) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=store.storage.endpoint,
        region_name=store.storage.region,
        aws_access_key_id=store.credentials.access_key_id,
        aws_secret_access_key=store.credentials.secret_access_key,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
