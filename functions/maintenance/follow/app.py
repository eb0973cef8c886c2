"""Scheduled Lambda function that checks followed sources and adds their new tables to the catalog."""

import random
from collections import Counter
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.follow_admin import Follow
from deltaic.catalog.process_connection import dynamo
from deltaic.errors import DeltaicError, Unavailable
from deltaic.http.observability import error_fields, format_stack, logger
from deltaic.scheduled.source_check import LEAST_SECONDS, FollowContext, check_source
from deltaic.settings import settings
from deltaic.sharing.context import storage_config
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:  # noqa: ARG001 -- Lambda passes it
    """Check every followed source, and return the number of tables with each status.

    Also returns the number of sources, and how many have `failed` or are `left` for the next invocation because of the
    time limit. Raises Unavailable if a source could not be checked.
    """
    config = settings()
    admin = CatalogAdmin(config.catalog_table, config.tokens_table, dynamo())
    sessions = SigningSessions(region=config.region, endpoint=config.endpoint_url)
    home = StorageConfig(region=config.region, endpoint=config.endpoint_url, path_style=bool(config.endpoint_url))

    def create_context(follow: Follow) -> FollowContext:
        storage = storage_config(admin.storages.get(follow.storage)) if follow.storage else home
        return FollowContext(
            storage,
            sessions.reader(storage),
            lambda: control_client("glue", config.region, config.endpoint_url),
            lambda: context.get_remaining_time_in_millis() / 1000,
        )

    follows = [follow for share in admin.shares.list() for follow in admin.follows.list(share.name)]
    random.shuffle(follows)  # so that each source has its turn even if the time is always too short
    counts: Counter[str] = Counter(follows=len(follows), failed=0, left=0)
    for number, follow in enumerate(follows):
        if context.get_remaining_time_in_millis() / 1000 < LEAST_SECONDS:
            counts["left"] = len(follows) - number  # their stored results stay
            break
        fields = {"follows": follow.title, "source": follow.source}
        try:
            for check in check_source(admin, follow, create_context(follow)):
                counts[check.status] += 1
                line = {**fields, "table": check.name, "did": check.status, "why": check.reason}
                (logger().warning if check.reason else logger().info)("follow", extra=line)
        except DeltaicError as error:
            counts["failed"] += 1
            logger().error("follow", extra={**fields, **error_fields(error)})
        except Exception as error:  # noqa: BLE001 -- the other sources can still be checked
            counts["failed"] += 1
            logger().error("follow", extra={**fields, **error_fields(error), "stack": format_stack(error)})
    logger().info("followed", extra=counts)
    if counts["failed"]:
        raise Unavailable(f"{counts['failed']} sources could not be checked: see the log for their names")
    return dict(counts)
