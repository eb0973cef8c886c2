"""Lazily created clients and caches, shared by all requests of a process."""

import time
from functools import cache
from typing import TYPE_CHECKING

from deltaic.catalog.limit_counters import LimitCounters
from deltaic.catalog.process_connection import dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import UnsupportedOperation
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.settings import settings
from deltaic.sharing.context import Sharing
from deltaic.sharing.memory import Memory
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.server_secret import server_secret
from deltaic.storage.sessions import SigningSessions

if TYPE_CHECKING:
    from deltaic.catalog.submitted_queries import QueryStore
    from deltaic.storage.server_bucket import ServerBucket


@cache
def sharing() -> Sharing:
    """Return the clients, caches and settings of this process; created by the first call."""
    config = settings()
    return Sharing(
        catalog=CatalogReader(config.catalog_table, dynamo()),
        token_key=_token_signer,
        sessions=SigningSessions(config.signing_role_arn, region=config.region, endpoint=config.endpoint_url),
        home=_home(),
        url_ttl=config.url_ttl,
        memory=Memory(config.memory_mb << 20),
        queries=_queries,
        counters=LimitCounters(config.catalog_table, dynamo()),
        iceberg_bucket=_iceberg_bucket,
        start_iceberg_generation=_start_iceberg_generation,
        iceberg_files_at_once=config.iceberg_files_at_once,
        limits_fail_closed=config.limits_on_failure == "closed",
        clock=time.time,
    )


def connect_sessions() -> None:
    """Create the STS client before the first request, in Lambda functions that sign URLs."""
    if settings().signing_role_arn:
        sharing().sessions.connect()


def _home() -> StorageConfig:
    config = settings()
    return StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))


@cache
def _iceberg_bucket() -> "ServerBucket":
    from deltaic.storage.server_bucket import ServerBucket

    name = settings().iceberg_bucket
    if not name:  # a local gateway in front of a stack without the bucket
        raise UnsupportedOperation("this server has no Iceberg catalog: ask its provider to enable the catalog")
    return ServerBucket(name, _home())


def _start_iceberg_generation(event: bytes) -> None:
    from deltaic.storage.background_function import invoke

    invoke(settings().iceberg_maker, settings().region, event)


@cache
def _queries() -> "QueryStore":
    from deltaic.catalog.submitted_queries import QueryStore

    return QueryStore(settings().catalog_table, dynamo())


@cache
def _token_signer() -> TokenSigner:
    config = settings()
    return TokenSigner(server_secret(config.token_key_secret, config.region, config.endpoint_url).encode())
