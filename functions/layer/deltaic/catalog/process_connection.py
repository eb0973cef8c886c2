"""Create the DynamoDB client that all code of a process shares."""

import random
from functools import cache

from deltaic.catalog.dynamo import Dynamo
from deltaic.settings import settings
from deltaic.snapstart import call_after_restore, load_before_snapshot
from deltaic.storage.aws_client import CATALOG, control_client

load_before_snapshot("botocore.exceptions", "botocore.parsers", "botocore.session", "encodings.idna", "pyexpat", "ssl")
call_after_restore(random.seed)  # so that restored processes do not all wait for the same time


@cache
def dynamo() -> Dynamo:
    """Return the DynamoDB client of this process, created at the first call."""
    config = settings()
    return Dynamo(lambda: control_client("dynamodb", config.region, config.endpoint_url, CATALOG))


call_after_restore(lambda: dynamo().client)
