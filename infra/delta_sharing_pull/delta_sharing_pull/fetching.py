"""Objects onto this disk: whole, of the size that was told, or not there; what a broken fetch has brought stays."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
from delta_sharing_conformance.untrusted_http import AnswerRefused, url_request

from delta_sharing_pull.errors import Conflict, NotFound, PermissionDenied, TooManyRequests, Unavailable

_TIMEOUT: Final = httpx.Timeout(120, connect=20)
_PIECE: Final = 1 << 18


class UrlRefused(PermissionDenied):
    """The store refuses a URL: it has ended, or never held."""


class ObjectChanged(Conflict):
    """The object is another one by now."""


def save(  # noqa: PLR0913 -- what comes from where, and how much of it
    part: Path,
    target: Path,
    size: int,
    read: Callable[[int], Iterator[bytes]],
    brought: Callable[[int], None],
    *,
    exact: bool = True,
) -> None:
    """Put an object of `size` bytes, or of as many at most, in its place at once when it is there to the last byte.

    `part` is where it grows, and what is there already is not read again: `read` gives the bytes from a position on,
    and `brought` is told how many came. Raises Unavailable where they are fewer than was told, NotFound
    for more.
    """
    have = part.stat().st_size if part.exists() else 0
    if not exact or have > size:
        part.unlink(missing_ok=True)
        have = 0
    # Where others may write too, nobody leads this elsewhere by a link.
    with open(part, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o666)) as file:
        if have < size:
            for piece in read(have):
                file.write(piece)
                have += len(piece)
                brought(len(piece))
                if have > size:
                    break
    if have > size:
        part.unlink()
        raise NotFound(f"an object has more than the {size} bytes that were told")
    if exact and have < size:
        raise Unavailable(f"an object has {have} bytes where {size} were told")
    part.replace(target)


class Urls:
    """The signed URLs of one server. May be used from several threads."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._http = httpx.Client(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=None))

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def read(self, url: str, start: int, etag: str = "") -> Iterator[bytes]:
        """Yield an object's bytes from a position on, of the content that an ETag names, if one is said.

        Raises UrlRefused, ObjectChanged, NotFound for one that is gone, Unavailable for what fails in passing.
        """
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={start}-"} if start else {}
        headers |= {"If-Match": etag} if etag else {}
        try:
            answer = self._http.send(url_request(self._http, self._endpoint, url, headers), stream=True)
            try:
                whole = _check(answer)
                skip = start if whole else 0
                for piece in answer.iter_raw(_PIECE):  # as the store has it, whatever Content-Encoding it names
                    yield piece[skip:]
                    skip = max(0, skip - len(piece))
            finally:
                answer.close()
        except AnswerRefused as refused:
            raise PermissionDenied(str(refused)) from None
        except (httpx.HTTPError, socket.gaierror) as error:
            raise Unavailable(f"the store cannot be reached, or broke off ({type(error).__name__})") from None


def _check(answer: httpx.Response) -> bool:
    """Return whether the answer begins at the object's first byte."""
    status = answer.status_code
    if status in {200, 206}:
        return status == 200  # noqa: PLR2004 -- OK, where a range was asked for or none was
    if status in {400, 401, 403}:
        raise UrlRefused(f"the store answers {status} to a signed URL")
    if status == 404:  # noqa: PLR2004 -- Not Found
        raise NotFound("the store answers 404 to a signed URL: the provider has taken the object away")
    if status == 412:  # noqa: PLR2004 -- Precondition Failed
        raise ObjectChanged("the object has changed")
    if status == 429:  # noqa: PLR2004 -- Too Many Requests
        raise TooManyRequests("the store is busy")
    raise Unavailable(f"the store answers {status} to a signed URL")
