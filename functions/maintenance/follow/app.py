"""Looks at what schemas follow, and enters their new tables; invoked by a schedule."""

import random
from collections import Counter
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.follow_admin import Follow
from deltaic.catalog.process_connection import dynamo
from deltaic.errors import DeltaicError, Unavailable
from deltaic.http.observability import error_fields, format_stack, logger
from deltaic.scheduled.source_check import LEAST_SECONDS, FollowMeans, look
from deltaic.settings import settings
from deltaic.sharing.context import storage_config
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:  # noqa: ARG001 -- a schedule says nothing
    """Look at every source and return what came of its tables, in counts; raises Unavailable if one could not be.

    Those for which there is no time are `left` to the next invocation.
    """
    config = settings()
    admin = CatalogAdmin(config.catalog_table, config.tokens_table, dynamo())
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def means(follow: Follow) -> FollowMeans:
        storage = storage_config(admin.storages.get(follow.storage)) if follow.storage else home
        return FollowMeans(
            storage,
            sessions.reader(storage),
            lambda: control_client("glue", config.region, config.endpoint_url),
            lambda: context.get_remaining_time_in_millis() / 1000,
        )

    follows = [follow for share in admin.shares.list() for follow in admin.follows.list(share.name)]
    random.shuffle(follows)  # so that none is left for ever where the time ends before them
    came: Counter[str] = Counter(follows=len(follows), failed=0, left=0)
    for number, follow in enumerate(follows):
        if context.get_remaining_time_in_millis() / 1000 < LEAST_SECONDS:
            came["left"] = len(follows) - number  # their last looks stay as they were told
            break
        facts = {"follows": follow.title, "source": follow.source}
        try:
            for outcome in look(admin, follow, means(follow)):
                came[outcome.did] += 1
                line = {**facts, "table": outcome.name, "did": outcome.did, "why": outcome.why}
                (logger().warning if outcome.why else logger().info)("follow", extra=line)
        except DeltaicError as failure:
            came["failed"] += 1
            logger().error("follow", extra={**facts, **error_fields(failure)})
        except Exception as failure:  # noqa: BLE001 -- the other sources are not to blame
            came["failed"] += 1
            logger().error("follow", extra={**facts, **error_fields(failure), "stack": format_stack(failure)})
    logger().info("followed", extra=came)
    if came["failed"]:
        raise Unavailable(f"{came['failed']} sources could not be looked at: the log names them")
    return dict(came)
