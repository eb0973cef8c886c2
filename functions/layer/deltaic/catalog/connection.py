"""The connection of a process to DynamoDB."""

from functools import cache

from deltaic.catalog.dynamo import Dynamo
from deltaic.settings import settings
from deltaic.snapstart import call_after_restore, load_before_snapshot, reseed_after_restore
from deltaic.storage.aws_client import catalog_client

load_before_snapshot("botocore.exceptions", "botocore.parsers", "botocore.session", "encodings.idna", "pyexpat", "ssl")
reseed_after_restore()


@cache
def dynamo() -> Dynamo:
    """Return the connection; made at the first call."""
    config = settings()
    return Dynamo(lambda: catalog_client(config.region, config.endpoint_url))


def _connect() -> None:
    dynamo().connect()


call_after_restore(_connect)
