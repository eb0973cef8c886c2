"""Parse requests for the files of a shared folder: a page of its listing, and URLs of files.

These requests are an extension of this server for recipients who cannot use credentials; OpenSharing defines only
credentials.
"""

import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.parameters import INT32_MAX, number
from deltaic.protocol.request_body import Body

MAX_FILES: Final = 1000
"""Maximum number of files in a page and of URLs in a response; one S3 listing returns as many."""
MAX_KEY_BYTES: Final = 1024
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_DOTS: Final = frozenset({"", ".", ".."})


class FilesRequest(msgspec.Struct, frozen=True):
    """A request for a page of a folder's listing."""

    prefix: str
    delimiter: str
    """A slash to list only one folder level; else empty."""
    max_results: int
    page_token: str | None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse `prefix`, `delimiter`, `maxResults` and `pageToken`; raises `InvalidParameter`."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        if not _DOTS.isdisjoint(prefix.split("/")[:-1]) or not _is_short_utf8(prefix):
            raise InvalidParameter(
                "'prefix' must be the beginning of a file name: no empty, '.' or '..' segment, and at most "
                f"{MAX_KEY_BYTES} bytes"
            )
        if delimiter not in {"", "/"}:
            raise InvalidParameter("'delimiter' must be '/', or absent")
        max_results = number(query.get("maxResults"), INT32_MAX)
        if max_results is None:
            max_results = MAX_FILES
        if not 1 <= max_results <= MAX_FILES:
            raise InvalidParameter(f"Acceptable values of 'maxResults' are 1 to {MAX_FILES}, inclusive.")
        return cls(prefix, delimiter, max_results, query.get("pageToken") or None)


class UrlsRequest(msgspec.Struct, frozen=True):
    """A request for URLs of some files in a folder."""

    names: tuple[str, ...]
    """Distinct file names in the requested order."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse `paths`; raises `MalformedRequest`, or `InvalidParameter` with the index of an invalid path."""
        paths = Body.decode(content, "GetFileUrlsRequest").strings("paths")
        if not 1 <= len(paths) <= MAX_FILES:
            raise InvalidParameter(f"'paths' must be an array of 1 to {MAX_FILES} file names")
        for index, path in enumerate(paths):
            if not is_name(path):
                raise InvalidParameter(
                    f"paths[{index}] is not a valid file name: use no empty, '.' or '..' segment, no slash at the "
                    f"ends, no control character, and at most {MAX_KEY_BYTES} bytes in UTF-8"
                )
        return cls(tuple(dict.fromkeys(paths)))


def is_name(text: str) -> bool:
    """Return whether a string is a valid file name that stays inside the folder.

    Clients cannot request other objects: HTTP clients resolve the dots in a URL (`a//b`, `a/../b`), and object readers
    reject control characters.
    """
    return _DOTS.isdisjoint(text.split("/")) and _is_short_utf8(text) and not _CONTROL.search(text)


def _is_short_utf8(text: str) -> bool:
    try:
        return len(text.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:
        return False
