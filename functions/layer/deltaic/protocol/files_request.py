"""The requests for the files of a folder, by their names: a page of its listing, and URLs for some of them.

They are this server's own, for recipients who cannot take credentials; OpenSharing has credentials alone.
"""

import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.parameters import INT32_MAX, number
from deltaic.protocol.request_body import Body

MAX_FILES: Final = 1000
"""Of a page, and of URLs in one answer: what S3 lists at once."""
MAX_KEY_BYTES: Final = 1024
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_DOTS: Final = frozenset({"", ".", ".."})


class FilesRequest(msgspec.Struct, frozen=True):
    """A page of a folder's listing."""

    prefix: str
    """What the names begin with."""
    delimiter: str
    """A slash where one level is asked for; else empty."""
    max_results: int
    page_token: str | None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read `prefix`, `delimiter`, `maxResults` and `pageToken`; raises `InvalidParameter`."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        if not _DOTS.isdisjoint(prefix.split("/")[:-1]) or not _fits(prefix):
            raise InvalidParameter(
                "'prefix' must be the beginning of a file's name: no empty, '.' or '..' segment, and at most "
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
    """URLs for some files of a folder."""

    names: tuple[str, ...]
    """Each once, in the order asked for."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read `paths`; raises `MalformedRequest` and `InvalidParameter`, which tells the place of a wrong one."""
        paths = Body.decode(content, "GetFileUrlsRequest").strings("paths")
        if not 1 <= len(paths) <= MAX_FILES:
            raise InvalidParameter(f"'paths' must be an array of 1 to {MAX_FILES} names of files")
        for place, path in enumerate(paths):
            if not is_name(path):
                raise InvalidParameter(
                    f"paths[{place}] names no file: a name has no empty, '.' or '..' segment, no slash at its ends, "
                    f"no control character, and at most {MAX_KEY_BYTES} bytes in UTF-8"
                )
        return cls(tuple(dict.fromkeys(paths)))


def is_name(text: str) -> bool:
    """Tell whether a file can have a name, below its folder: whoever joins it to a directory stays in it.

    Other objects no client can ask for: what sends a URL follows the dots in it (`a//b`, `a/../b`), and no reader of
    objects takes a control character.
    """
    return _DOTS.isdisjoint(text.split("/")) and _fits(text) and not _CONTROL.search(text)


def _fits(text: str) -> bool:
    try:
        return len(text.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:
        return False
