"""The means of a process: each is made once, at first use, from the settings."""

import time
from functools import cache
from typing import TYPE_CHECKING

from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic.catalog.tokens import TokenStore
from deltaic.http.snapstart import call_after_restore, load_before_snapshot, reseed_after_restore
from deltaic.protocol.tokens import TokenSigner
from deltaic.settings import settings
from deltaic.sharing.context import Sharing
from deltaic.sharing.memory import Memory
from deltaic.storage.aws_client import catalog_client
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.server_secret import server_secret
from deltaic.storage.sessions import SigningSessions

if TYPE_CHECKING:
    from deltaic.catalog.queries import QueryStore

load_before_snapshot("botocore.exceptions", "botocore.parsers", "botocore.session", "encodings.idna", "pyexpat", "ssl")
reseed_after_restore()


@cache
def tokens() -> TokenStore:
    """Return the store of bearer tokens, for the authorizer."""
    return TokenStore(settings().tokens_table, _dynamo())


@cache
def sharing() -> Sharing:
    """Return the means of the use cases."""
    config = settings()
    return Sharing(
        catalog=CatalogReader(config.catalog_table, _dynamo()),
        token_key=_token_signer,
        sessions=SigningSessions(config.signing_role_arn, region=config.region, endpoint=config.endpoint_url),
        home=StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url)),
        url_ttl=config.url_ttl,
        memory=Memory(config.memory_mb << 20),
        queries=_queries,
        clock=time.time,
    )


@cache
def _dynamo() -> Dynamo:
    config = settings()
    return Dynamo(lambda: catalog_client(config.region, config.endpoint_url))


def _connect() -> None:
    _dynamo().connect()


call_after_restore(_connect)


def connect_sessions() -> None:
    """Make the client that assumes roles ahead of the first request, in functions that sign."""
    if settings().signing_role_arn:
        sharing().sessions.connect()


@cache
def _queries() -> "QueryStore":
    from deltaic.catalog.queries import QueryStore

    return QueryStore(settings().catalog_table, _dynamo())


@cache
def _token_signer() -> TokenSigner:
    config = settings()
    return TokenSigner(server_secret(config.token_key_secret, config.region, config.endpoint_url).encode())
