"""Storage interface of the Delta log, implemented by `storage` and by tests."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class LogFile(NamedTuple):
    """A file directly in `_delta_log/`, as the storage lists it."""

    name: str
    """File name without a folder."""
    size: int
    """Size in bytes."""
    modified: int
    """Milliseconds since the epoch, UTC."""
    etag: str = ""
    """Changes with the content, if the store has ETags; distinguishes two writes in the same second."""


class TableStore(Protocol):
    """Objects below the root of one table.

    Each `path` is relative to the root (`_delta_log/00000000000000000000.json`) and not URI-encoded, or an absolute URI
    (`s3://bucket/key`) if the log contains one. Every method raises `FileNotFoundError` (with the path as argument) for
    a missing object, `errors.TooManyRequests` if throttled, `errors.TableUnreadable` if access is denied, and
    `errors.Unavailable` for transient failures. Methods can be called from several threads.
    """

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List `_delta_log/` (one level, without folders and folder markers) in byte order of the names.

        Returns only names greater than `start_after`; an absent log has no names.
        """

    def get(self, path: str) -> bytes:
        """Return the content of an object."""

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return the contents of objects, fetched in parallel, in the order of `paths`."""

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return `[start, end)` byte ranges, fetched in parallel; adjacent ranges share a request.

        Callers know the length of the object, so a range past its end raises `errors.Unavailable`: the object was
        replaced.
        """

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes and the object's size, with one request."""
