"""Parse URLs of HTTP endpoints."""

import re
from urllib.parse import SplitResult, urlsplit

from deltaic.errors import InvalidParameter

DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]+")


def parse_endpoint(text: str) -> SplitResult:
    """Return the parts of an http or https endpoint; raises InvalidParameter if invalid."""
    try:
        parts = urlsplit(text)
        is_valid = _HOST.fullmatch(parts.hostname or "") is not None and parts.port != 0
    except ValueError:
        is_valid = False
    # urlsplit silently removes line ends and tabs.
    if is_valid and parts.scheme in DEFAULT_PORTS and not (parts.query or parts.fragment) and text.isprintable():
        return parts
    raise InvalidParameter(f"'{text}' is not an endpoint: write https://host or http://host:port")
