"""Download an object to a file that appears only when it is complete. Later attempts resume the download."""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
from delta_sharing_conformance.untrusted_http import UnsafeResponse, url_request

from delta_sharing_pull.errors import Conflict, NotFound, PermissionDenied, TooManyRequests, Unavailable

_TIMEOUT: Final = httpx.Timeout(120, connect=20)
_CHUNK_BYTES: Final = 1 << 18


class UrlRefused(PermissionDenied):
    """The object store rejected a signed URL: it has expired, or was never valid."""


class ObjectChanged(Conflict):
    """The object changed: it has a different ETag than the expected one."""


def save(  # noqa: PLR0913 -- source, destination and size of one object
    partial: Path,
    target: Path,
    size: int,
    read: Callable[[int], Iterator[bytes]],
    on_bytes: Callable[[int], None],
    *,
    exact: bool = True,
) -> None:
    """Download an object of `size` bytes to `partial`, then rename it to `target`.

    `read` yields the bytes from an offset on, so that bytes in `partial` are not downloaded again. `on_bytes` receives
    the length of each chunk in bytes. With `exact=False`, the object can be smaller than `size`.
    Raises Unavailable if the object is smaller than permitted, NotFound if it is larger.
    """
    offset = partial.stat().st_size if partial.exists() else 0
    if not exact or offset > size:
        partial.unlink(missing_ok=True)
        offset = 0
    # Never follow a symbolic link that another user placed in a folder that they can write to.
    with open(partial, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o666)) as file:
        if offset < size:
            for chunk in read(offset):
                file.write(chunk)
                offset += len(chunk)
                on_bytes(len(chunk))
                if offset > size:
                    break
    if offset > size:
        partial.unlink()
        raise NotFound(f"An object has more than the expected {size} bytes: the provider must check the shared files")
    if exact and offset < size:
        raise Unavailable(f"An object has {offset} bytes instead of the expected {size}: try again later")
    partial.replace(target)


class UrlReader:
    """HTTP client that reads objects from the signed URLs of one sharing server. Threads can share it."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext) -> None:
        self._endpoint = endpoint
        self._http = httpx.Client(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=None), verify=tls)

    def close(self) -> None:
        """Close the HTTP connections."""
        self._http.close()

    def read(self, url: str, start: int, etag: str = "") -> Iterator[bytes]:
        """Yield the bytes of the object at a signed URL from offset `start` on, if the object has this ETag.

        Raises UrlRefused, ObjectChanged, NotFound if the object was deleted, and Unavailable for temporary failures.
        """
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={start}-"} if start else {}
        headers |= {"If-Match": etag} if etag else {}
        try:
            request = url_request(self._http, self._endpoint, url, headers)
            with closing(self._http.send(request, stream=True)) as response:
                skip = start if _is_complete(response.status_code) else 0
                for chunk in response.iter_raw(_CHUNK_BYTES):  # never decompressed, whatever its Content-Encoding is
                    yield chunk[skip:]
                    skip = max(0, skip - len(chunk))
        except UnsafeResponse as error:
            raise PermissionDenied(str(error)) from None
        except (httpx.HTTPError, socket.gaierror) as error:
            raise Unavailable(f"The connection to the object store failed ({type(error).__name__})") from None


def _is_complete(status: int) -> bool:
    """Return True for an HTTP status of a whole object, False for a byte range; raises a PullError otherwise."""
    if status in {200, 206}:
        return status == 200  # noqa: PLR2004 -- OK: the store can ignore the Range header
    if status in {400, 401, 403}:
        raise UrlRefused(f"The object store rejects a signed URL with status {status}: download again for new URLs")
    if status == 404:  # noqa: PLR2004 -- Not Found
        raise NotFound("A shared file does not exist in the object store: ask the provider whether it was deleted")
    if status == 412:  # noqa: PLR2004 -- Precondition Failed
        raise ObjectChanged("The object changed during the download")
    if status == 429:  # noqa: PLR2004 -- Too Many Requests
        raise TooManyRequests("The object store is busy: try again later")
    raise Unavailable(f"The object store responds with status {status} to a signed URL: try again later")
