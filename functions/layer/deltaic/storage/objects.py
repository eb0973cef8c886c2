"""The objects of a table, read whole or in ranges, in parallel, in few requests."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from deltaic.delta.store import LogFile
from deltaic.errors import TableRefused, Unavailable
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.byte_ranges import coalesce, cut
from deltaic.storage.connections import connection, on_loop
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import ObjectName, TableLocations
from deltaic.storage.object_store_errors import failure, is_empty

AT_ONCE = 64
"""Requests of one call that run at the same time."""
LOG = "_delta_log"

_PAGE = 1000
_WITNESSES = (f"{0:020d}.json", "_last_checkpoint")
"""What a log has that is not empty, one or the other."""


class ObjectTableStore:
    """The objects of one table in S3 or a compatible store: `deltaic.delta.store.TableStore` over obstore.

    Connections are shared by all tables of a bucket in this process. Requests are tried again for a few seconds; what
    then still fails is raised as the port says.
    """

    def __init__(
        self,
        locations: TableLocations,
        storage: StorageConfig,
        credentials: Callable[[], Credentials] = default_credentials,
    ) -> None:
        self._locations = locations
        self._storage = storage
        self._credentials = credentials

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List `_delta_log/`, one level, in byte order, names greater than `start_after` only."""
        import obstore

        root = self._locations.root
        folder = f"{root.key_prefix}{LOG}"
        after, any_object = start_after, False
        while True:
            full, last = True, ""
            with self._failing(ObjectName(root.bucket, folder), ""):
                pages = obstore.list(
                    self._store(root.bucket), folder, offset=f"{folder}/{after}" if after else None, chunk_size=_PAGE
                )
                for page in pages:
                    full = len(page) == _PAGE
                    for meta in page:
                        last = str(meta["path"])[len(folder) + 1 :]
                        any_object = True
                        if last and "/" not in last and last > start_after and not _is_folder(last, meta["size"]):
                            modified = int(meta["last_modified"].timestamp() * 1000)
                            yield LogFile(last, meta["size"], modified, meta.get("e_tag") or "")
                    if full and "/" in last:
                        break
            if not (full and "/" in last):
                break
            # In the middle of a large subfolder (sidecars): go on behind it instead of through it.
            after = f"{last.partition('/')[0]}/\U0010ffff"
        if not any_object and not start_after:
            self._check_absent()

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        import obstore

        name = self._locations.object_name(path)
        with self._failing(name, path):
            return bytes(obstore.get(self._store(name.bucket), name.key).bytes())

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects, fetched in parallel, in the order asked for."""
        if len(paths) < 2:  # noqa: PLR2004 -- one needs no loop
            return [self.get(path) for path in paths]
        return on_loop(self._get_all(paths))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return `[start, end)` ranges, near ones coalesced, in parallel; a range past the end is Unavailable."""
        import obstore

        name = self._locations.object_name(path)
        merged = coalesce(ranges)
        if len(merged) > 1:
            parts = on_loop(self._get_parts(name, path, merged))
        elif merged:
            start, end = merged[0]
            with self._failing(name, path):
                parts = [obstore.get_range(self._store(name.bucket), name.key, start=start, end=end)]
        else:
            parts = []
        return cut(ranges, merged, parts, path)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes (all of a shorter object) and the object's size, in one request."""
        import obstore

        name = self._locations.object_name(path)
        try:
            answer = obstore.get(self._store(name.bucket), name.key, options={"range": {"suffix": length}})
            return bytes(answer.bytes()), int(answer.meta["size"])
        except Exception as error:
            if is_empty(error):
                return b"", 0
            raise failure(error, name, self._storage.region, path) from error

    def _check_absent(self) -> None:
        """Raise Unavailable for a log whose listing is empty and that is there all the same.

        Whatever XML a proxy answers with reads as a listing of nothing.
        """
        for name in _WITNESSES:
            path = f"{LOG}/{name}"
            try:
                self.get_tail(path, 1)
            except (FileNotFoundError, TableRefused):  # refused: missing, to a caller that may not list the bucket
                continue
            raise Unavailable("the storage of this table lists nothing where the table's log is; try again")

    async def _get_all(self, paths: Sequence[str]) -> list[bytes]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(path: str) -> bytes:
            import obstore

            name = self._locations.object_name(path)
            async with gate:
                with self._failing(name, path):
                    answer = await obstore.get_async(self._store(name.bucket), name.key)
                    return bytes(await answer.bytes_async())

        return await asyncio.gather(*map(one, paths))

    async def _get_parts(self, name: ObjectName, path: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(start: int, end: int) -> Any:
            import obstore

            async with gate:
                with self._failing(name, path):
                    return await obstore.get_range_async(self._store(name.bucket), name.key, start=start, end=end)

        return await asyncio.gather(*(one(start, end) for start, end in ranges))

    @contextmanager
    def _failing(self, name: ObjectName, path: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise failure(error, name, self._storage.region, path) from error

    def _store(self, bucket: str) -> Any:
        # Asked here too (it is kept), because what obstore makes of its failure has no class.
        self._credentials()
        return connection(bucket, self._storage, self._credentials)


def _is_folder(name: str, size: int) -> bool:
    # Hadoop and consoles mark folders with empty objects; obstore drops their slash. Files of a log have a suffix,
    # but for `_last_checkpoint`, which is never empty.
    return size == 0 and ("." not in name or name.endswith("_$folder$"))
