"""What the Delta log needs of a store: the port that `storage` implements and tests implement on a folder."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class LogFile(NamedTuple):
    """One object directly below `_delta_log/`, as a listing shows it."""

    name: str
    """File name below `_delta_log/`, without any folder."""
    size: int
    """Bytes."""
    modified: int
    """Milliseconds since the epoch, UTC."""
    etag: str = ""
    """Changes with the content, where the store has one: a file written anew in the same second is another file."""


class TableStore(Protocol):
    """The objects below one table's root.

    Every `path` is relative to the root (`_delta_log/00000000000000000000.json`) and not URI-encoded, or an absolute
    URI (`s3://bucket/key`) where a log holds one. A missing object raises `FileNotFoundError` (with the path as its
    argument) from every method; throttling raises `errors.TooManyRequests`, refusal `errors.TableUnreadable`, anything
    transient `errors.Unavailable`. All methods may be called from several threads.
    """

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List `_delta_log/` (one level, no folders, no zero-byte folder markers) in byte order of the names.

        Only names strictly greater than `start_after` are returned. An absent log gives nothing.
        """
        ...

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        ...

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects, fetched in parallel, in the order asked for."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return `[start, end)` byte ranges of one object, near ones coalesced into one request, in parallel.

        Whoever asks knows the length of the object, so a range past its end is `errors.Unavailable`: it was replaced.
        """
        ...

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes (all of a shorter object) and the object's size, in one request."""
        ...
