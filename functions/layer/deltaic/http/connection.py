"""The connection of a process to DynamoDB, and the tokens behind it: all that the authorizer needs."""

from functools import cache

from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.dynamo import Dynamo
from deltaic.http.snapstart import call_after_restore, load_before_snapshot, reseed_after_restore
from deltaic.settings import settings
from deltaic.storage.aws_client import catalog_client

load_before_snapshot("botocore.exceptions", "botocore.parsers", "botocore.session", "encodings.idna", "pyexpat", "ssl")
reseed_after_restore()


@cache
def dynamo() -> Dynamo:
    """Return the connection; made at the first call."""
    config = settings()
    return Dynamo(lambda: catalog_client(config.region, config.endpoint_url))


@cache
def tokens() -> TokenStore:
    """Return the store of bearer tokens, for the authorizer."""
    return TokenStore(settings().tokens_table, dynamo())


def _connect() -> None:
    dynamo().connect()


call_after_restore(_connect)
