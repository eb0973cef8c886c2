"""Decides how a table's objects are read: in parallel, few requests, and which failure means what."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeVar

from deltaic.delta.store import LogFile
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.credentials import Credentials, own_credentials
from deltaic.storage.endpoints import StorageConfig, origin
from deltaic.storage.locations import ObjectName, TableLocations

NEAR = 1 << 20
"""Ranges with a gap of at most this many bytes become one request: S3 sends that much while it answers another."""
LARGEST = 16 << 20
"""Ranges are not merged into requests of more bytes than this, so that large reads run in parallel."""
AT_ONCE = 64
"""Requests of one call that run at the same time."""
LOG = "_delta_log"

_PAGE = 1000
_ASKED_AGAIN_SECONDS = 600
_ANSWER = TypeVar("_ANSWER")
# What obstore says of an answer that it has no class for, from the debug form of its error.
_STATUS = re.compile(r"Status \{\s*status: (\d{3}),")
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST})
_OTHER_REGION = re.compile(r"AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint")
_RANGE = re.compile(r"InvalidRange|StartTooLarge|range \S+ .*exceeds|Wanted range")
# No range of an empty object can be satisfied: S3 answers 416, MiniStack a range that ends before it starts.
_EMPTY = re.compile(r"status: 416,|\"bytes 0--1/0\"")
_THROTTLED = re.compile(r"SlowDown|429 Too Many|503 Slow|RequestLimitExceeded|ThrottlingException|TooManyRequests")


class ObjectTableStore:
    """The objects of one table in S3 or a compatible store: `deltaic.delta.store.TableStore` over obstore.

    Connections are shared by all tables of a bucket in this process. Requests are tried again for a few seconds; what
    then still fails is raised as the port says. `requests_made` counts requests that were sent (tries again are not
    counted, a listing counts one for each thousand objects).
    """

    def __init__(
        self,
        locations: TableLocations,
        storage: StorageConfig,
        credentials: Callable[[], Credentials] = own_credentials,
    ) -> None:
        self._locations = locations
        self._storage = storage
        self._credentials = credentials
        self._counted = threading.Lock()
        self.requests_made = 0

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List `_delta_log/`, one level, in byte order, names greater than `start_after` only."""
        import obstore

        root = self._locations.root
        folder = f"{root.key_prefix}{LOG}"
        after = start_after
        while True:
            full, last = True, ""
            self._count(1)
            try:
                pages = obstore.list(
                    self._store(root.bucket), folder, offset=f"{folder}/{after}" if after else None, chunk_size=_PAGE
                )
                for number, page in enumerate(pages):
                    if number:
                        self._count(1)
                    full = len(page) == _PAGE
                    for meta in page:
                        last = str(meta["path"])[len(folder) + 1 :]
                        if last and "/" not in last and last > start_after and not _is_folder(last, meta["size"]):
                            yield LogFile(last, meta["size"], _milliseconds(meta["last_modified"]))
                    if full and "/" in last:
                        break
            except Exception as error:
                raise self._failure(error, ObjectName(root.bucket, folder)) from error
            if not (full and "/" in last):
                return
            # In the middle of a large subfolder (sidecars): go on behind it instead of through it.
            after = f"{last.partition('/')[0]}/\U0010ffff"

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        import obstore

        name = self._locations.object_name(path)
        self._count(1)
        try:
            return bytes(obstore.get(self._store(name.bucket), name.key).bytes())
        except Exception as error:
            raise self._failure(error, name, path) from error

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects, fetched in parallel, in the order asked for."""
        if len(paths) < 2:  # noqa: PLR2004 -- one needs no loop
            return [self.get(path) for path in paths]
        return _on_loop(self._get_all(paths))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return `[start, end)` ranges, near ones coalesced, in parallel; a range past the end is TableUnreadable."""
        import obstore

        name = self._locations.object_name(path)
        merged = coalesce(ranges)
        if len(merged) > 1:
            parts = _on_loop(self._get_parts(name, path, merged))
        elif merged:
            self._count(1)
            start, end = merged[0]
            try:
                parts = [obstore.get_range(self._store(name.bucket), name.key, start=start, end=end)]
            except Exception as error:
                raise self._failure(error, name, path) from error
        else:
            parts = []
        return _cut(ranges, merged, parts, path)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes (all of a shorter object) and the object's size, in one request."""
        import obstore

        name = self._locations.object_name(path)
        self._count(1)
        try:
            answer = obstore.get(self._store(name.bucket), name.key, options={"range": {"suffix": length}})
            return bytes(answer.bytes()), int(answer.meta["size"])
        except Exception as error:
            if _EMPTY.search(str(error)):
                return b"", 0
            raise self._failure(error, name, path) from error

    async def _get_all(self, paths: Sequence[str]) -> list[bytes]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(path: str) -> bytes:
            import obstore

            name = self._locations.object_name(path)
            async with gate:
                self._count(1)
                try:
                    answer = await obstore.get_async(self._store(name.bucket), name.key)
                    return bytes(await answer.bytes_async())
                except Exception as error:
                    raise self._failure(error, name, path) from error

        return await asyncio.gather(*map(one, paths))

    async def _get_parts(self, name: ObjectName, path: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(start: int, end: int) -> Any:
            import obstore

            async with gate:
                self._count(1)
                try:
                    return await obstore.get_range_async(self._store(name.bucket), name.key, start=start, end=end)
                except Exception as error:
                    raise self._failure(error, name, path) from error

        return await asyncio.gather(*(one(start, end) for start, end in ranges))

    def _count(self, requests: int) -> None:
        with self._counted:
            self.requests_made += requests

    def _store(self, bucket: str) -> Any:
        # Asked here too (it is kept), because what obstore makes of its failure has no class.
        self._credentials()
        return _connection(bucket, self._storage, self._credentials)

    def _failure(self, error: Exception, name: ObjectName, path: str = "") -> Exception:
        """Say what a failure of the store means for the reader; never quotes the store, which may quote requests."""
        from obstore.exceptions import InvalidPathError, PermissionDeniedError, UnauthenticatedError

        if isinstance(error, DeltaicError):
            return error
        shown = f"s3://{name.bucket}/{name.key}"
        text = str(error)
        answered = _STATUS.search(text)
        status = int(answered[1]) if answered else 0
        if isinstance(error, FileNotFoundError) or status == HTTPStatus.NOT_FOUND:
            if path:
                return FileNotFoundError(path)
            return TableUnreadable(f"the bucket '{name.bucket}' does not exist: the provider must correct the location")
        if _THROTTLED.search(text) or status == HTTPStatus.TOO_MANY_REQUESTS:
            return TooManyRequests(f"the storage of this table is throttling requests to '{name.bucket}'; try again")
        if isinstance(error, InvalidPathError):
            return TableUnreadable(f"{shown} is not a path that this server can read")
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or _RANGE.search(text):
            return TableUnreadable(f"{shown} is shorter than the log says")
        if "redirect" in text or _OTHER_REGION.search(text):
            return TableUnreadable(
                f"the bucket '{name.bucket}' is not in region {self._storage.region}: the provider must register its "
                "storage with the right region (deltaic storage create --region)"
            )
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in _REFUSED:
            return TableUnreadable(
                f"the server may not read {shown}: the provider must give it access to the bucket '{name.bucket}' "
                "(the stack's parameter DataBuckets, or the role or keys of the table's storage)"
            )
        return Unavailable(f"the storage of this table failed to answer for {shown}; try again")


def coalesce(ranges: Sequence[tuple[int, int]], near: int = NEAR, largest: int = LARGEST) -> list[tuple[int, int]]:
    """Return the requests that cover `ranges`: sorted, near ones merged up to `largest` bytes, empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if end <= start:
            continue
        if merged:
            first, last = merged[-1]
            if start < last or (start - last <= near and end - first <= largest):
                merged[-1] = (first, max(last, end))
                continue
        merged.append((start, end))
    return merged


def _cut(
    ranges: Sequence[tuple[int, int]], merged: Sequence[tuple[int, int]], parts: Sequence[Any], path: str
) -> list[bytes]:
    from bisect import bisect_right

    starts = [start for start, _ in merged]
    views = [memoryview(part) for part in parts]
    answer: list[bytes] = []
    for start, end in ranges:
        if end <= start:
            answer.append(b"")
            continue
        index = bisect_right(starts, start) - 1
        piece = bytes(views[index][start - starts[index] : end - starts[index]])
        if len(piece) != end - start:
            raise TableUnreadable(f"{path} is shorter than the log says")
        answer.append(piece)
    return answer


def _is_folder(name: str, size: int) -> bool:
    # Hadoop and consoles mark folders with empty objects; obstore drops their slash. Files of a log have a suffix,
    # but for `_last_checkpoint`, which is never empty.
    return size == 0 and ("." not in name or name.endswith("_$folder$"))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@lru_cache(maxsize=64)
def _connection(bucket: str, storage: StorageConfig, credentials: Callable[[], Credentials]) -> Any:
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
            "timeout": timedelta(seconds=20),
        },
        retry_config={
            "max_retries": 3,
            "retry_timeout": timedelta(seconds=8),
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
        credential_provider=provide,
    )


class _Loop:
    """One event loop in a thread of its own, started at the first parallel read of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="deltaic-objects", daemon=True).start()
            return self._loop


_LOOP = _Loop()


def _on_loop(work: Coroutine[Any, Any, _ANSWER]) -> _ANSWER:
    return asyncio.run_coroutine_threadsafe(work, _LOOP.get()).result()
