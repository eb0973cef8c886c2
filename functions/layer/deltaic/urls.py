"""The URLs of endpoints that this server, an operator's command or a recipient can call."""

import re
from urllib.parse import SplitResult, urlsplit

from deltaic.errors import InvalidParameter

DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]+")


def web_address(text: str) -> SplitResult:
    """Return the parts of an endpoint, its port a number or none; raises InvalidParameter unless it can be called.

    Whether something answers there is not asked.
    """
    try:
        parts = urlsplit(text)
        named = _HOST.fullmatch(parts.hostname or "") is not None and parts.port != 0
    except ValueError:
        named = False
    # urlsplit drops line ends and tabs without a word, wherever they stand.
    if named and parts.scheme in DEFAULT_PORTS and not (parts.query or parts.fragment) and text.isprintable():
        return parts
    raise InvalidParameter(f"'{text}' is not an endpoint: write https://host or http://host:port")
