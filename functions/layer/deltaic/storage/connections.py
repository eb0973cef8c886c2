"""The connections to buckets, kept for the process, and the event loop on which parallel requests run."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, TypeVar

from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, origin

_ASKED_AGAIN_SECONDS = 600
_ANSWER = TypeVar("_ANSWER")
_STARTING = threading.Lock()


@lru_cache(maxsize=64)
def connection(bucket: str, storage: StorageConfig, credentials: Callable[[], Credentials]) -> Any:
    """Return the obstore client of a bucket, one per process, storage and source of credentials.

    Requests are tried again for a few seconds and end after 20 s at worst, so that a function of 29 s can still answer.
    """
    from obstore.store import S3Store

    def provide() -> Any:
        keys = credentials()
        # Keys without a known end may be rotated all the same: they are asked for again after a while.
        ends = keys.expires_at_ms or (time.time() + _ASKED_AGAIN_SECONDS) * 1000
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token or None,
            "expires_at": datetime.fromtimestamp(ends / 1000, UTC),
        }

    place = origin(storage, bucket, public=False)
    in_host = not place.path.endswith(f"/{bucket}/")
    endpoint = f"{place.scheme}://{place.authority}{place.path if in_host else place.path[: -len(bucket) - 1]}"
    return S3Store(
        bucket,
        region=storage.region,
        # Each name that obstore would otherwise look up in the environment, which must not lead elsewhere.
        aws_endpoint_url_s3=endpoint.rstrip("/"),
        endpoint=endpoint.rstrip("/"),
        skip_signature=False,
        virtual_hosted_style_request=in_host,
        client_options={
            "allow_http": place.scheme == "http",
            "connect_timeout": timedelta(seconds=3),
            "timeout": timedelta(seconds=15),
        },
        retry_config={
            "max_retries": 3,
            "retry_timeout": timedelta(seconds=5),
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
        credential_provider=provide,
    )


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Start the process's event loop, in a thread of its own, at the first parallel read."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="deltaic-objects", daemon=True).start()
    return loop


def on_loop(work: Coroutine[Any, Any, _ANSWER]) -> _ANSWER:
    """Run `work` on the process's loop and wait for it; never call it from there."""
    with _STARTING:
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(work, loop).result()
