"""Read the files of a table, completely or in byte ranges, with few parallel requests."""

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
from deltaic.storage.object_store_errors import is_empty, map_error

AT_ONCE = 64
"""Largest number of parallel requests of one call."""
LOG = "_delta_log"

_PAGE = 1000
_USUAL_FILES = (f"{0:020d}.json", "_last_checkpoint")
"""Names of files of which nearly every Delta log has at least one."""


class ObjectTableStore:
    """Objects of one table in S3 or a compatible store: `deltaic.delta.store.TableStore` with obstore.

    All tables of a bucket share the connections in this process. Requests are retried for a few seconds before they
    raise the errors that TableStore documents.
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
        """List the files directly in `_delta_log/` in byte order, only names greater than `start_after`."""
        import obstore

        root = self._locations.root
        folder = f"{root.key_prefix}{LOG}"
        after, any_object = start_after, False
        while True:
            is_full, last = True, ""
            with self._translate_errors(ObjectName(root.bucket, folder), ""):
                pages = obstore.list(
                    self._store(root.bucket), folder, offset=f"{folder}/{after}" if after else None, chunk_size=_PAGE
                )
                for page in pages:
                    is_full = len(page) == _PAGE
                    for meta in page:
                        last = str(meta["path"])[len(folder) + 1 :]
                        any_object = True
                        if last and "/" not in last and last > start_after and not _is_folder(last, meta["size"]):
                            modified = int(meta["last_modified"].timestamp() * 1000)
                            yield LogFile(last, meta["size"], modified, meta.get("e_tag") or "")
                    if is_full and "/" in last:
                        break
            if not (is_full and "/" in last):
                break
            # The page ends inside a large subfolder (sidecars): continue after it instead of listing all of it.
            after = f"{last.partition('/')[0]}/\U0010ffff"
        if not any_object and not start_after:
            self._check_empty_listing()

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        import obstore

        name = self._locations.object_name(path)
        with self._translate_errors(name, path):
            return bytes(obstore.get(self._store(name.bucket), name.key).bytes())

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects, read in parallel, in the order of `paths`."""
        if len(paths) < 2:  # noqa: PLR2004 -- a single read needs no event loop
            return [self.get(path) for path in paths]
        return on_loop(self._get_all(paths))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return byte ranges `[start, end)` of an object; raises Unavailable for a range past its end."""
        import obstore

        name = self._locations.object_name(path)
        merged = coalesce(ranges)
        if len(merged) > 1:
            parts = on_loop(self._get_parts(name, path, merged))
        elif merged:
            start, end = merged[0]
            with self._translate_errors(name, path):
                parts = [obstore.get_range(self._store(name.bucket), name.key, start=start, end=end)]
        else:
            parts = []
        return cut(ranges, merged, parts, path)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes of an object (all if it is shorter) and its size, in one request."""
        import obstore

        name = self._locations.object_name(path)
        try:
            answer = obstore.get(self._store(name.bucket), name.key, options={"range": {"suffix": length}})
            return bytes(answer.bytes()), int(answer.meta["size"])
        except Exception as error:
            if is_empty(error):
                return b"", 0
            raise map_error(error, name, self._storage.region, path) from error

    def _check_empty_listing(self) -> None:
        """Raise Unavailable if the listing of the Delta log is empty although the log has files.

        The reason: obstore parses any XML, such as an error page of a proxy, as an empty listing.
        """
        for name in _USUAL_FILES:
            path = f"{LOG}/{name}"
            try:
                self.get_tail(path, 1)
            except (FileNotFoundError, TableRefused):  # denied, if it does not exist and listing is not allowed
                continue
            raise Unavailable("the storage of this table returned an empty listing of the table's log; try again")

    async def _get_all(self, paths: Sequence[str]) -> list[bytes]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(path: str) -> bytes:
            import obstore

            name = self._locations.object_name(path)
            async with gate:
                with self._translate_errors(name, path):
                    answer = await obstore.get_async(self._store(name.bucket), name.key)
                    return bytes(await answer.bytes_async())

        return await asyncio.gather(*map(read, paths))

    async def _get_parts(self, name: ObjectName, path: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(start: int, end: int) -> Any:
            import obstore

            async with gate:
                with self._translate_errors(name, path):
                    return await obstore.get_range_async(self._store(name.bucket), name.key, start=start, end=end)

        return await asyncio.gather(*(read(start, end) for start, end in ranges))

    @contextmanager
    def _translate_errors(self, name: ObjectName, path: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise map_error(error, name, self._storage.region, path) from error

    def _store(self, bucket: str) -> Any:
        # Called here too (credentials are cached), because obstore hides the class of its errors.
        self._credentials()
        return connection(bucket, self._storage, self._credentials)


def _is_folder(name: str, size: int) -> bool:
    # Hadoop and consoles mark folders with empty objects, whose final slash obstore removes. Files of a log have a
    # suffix, except `_last_checkpoint`, which is never empty.
    return size == 0 and ("." not in name or name.endswith("_$folder$"))
