"""Share obstore clients of buckets within a process, and an event loop for parallel requests."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, TypeVar

from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, origin

_RENEWAL_SECONDS = 600
_ANSWER = TypeVar("_ANSWER")
_LOOP_LOCK = threading.Lock()


@lru_cache(maxsize=64)
def connection(bucket: str, storage: StorageConfig, credentials: Callable[[], Credentials]) -> Any:
    """Return the obstore client for a bucket; the same client for the same arguments.

    Requests are retried for a few seconds and fail after at most 20 s, so that a function can respond within its 29 s.
    """
    from obstore.store import S3Store

    def provide() -> Any:
        keys = credentials()
        # Keys without an expiry can be rotated, so they are requested again after some time.
        expires_at_ms = keys.expires_at_ms or (time.time() + _RENEWAL_SECONDS) * 1000
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token or None,
            "expires_at": datetime.fromtimestamp(expires_at_ms / 1000, UTC),
        }

    target = origin(storage, bucket, public=False)
    in_host = not target.path.endswith(f"/{bucket}/")
    endpoint = f"{target.scheme}://{target.authority}{target.path if in_host else target.path[: -len(bucket) - 1]}"
    return S3Store(
        bucket,
        region=storage.region,
        # Both names of the option, so that obstore does not take an endpoint from the environment.
        aws_endpoint_url_s3=endpoint.rstrip("/"),
        endpoint=endpoint.rstrip("/"),
        skip_signature=False,
        virtual_hosted_style_request=in_host,
        client_options={
            "allow_http": target.scheme == "http",
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
    """Return the event loop of the process; the first call starts it in a separate thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="deltaic-objects", daemon=True).start()
    return loop


def on_loop(work: Coroutine[Any, Any, _ANSWER]) -> _ANSWER:
    """Run a coroutine on the shared event loop, and wait for its result; never call it on that loop."""
    with _LOOP_LOCK:
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(work, loop).result()
