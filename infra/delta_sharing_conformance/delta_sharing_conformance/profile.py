"""The profile file: endpoint and token of a recipient (PROTOCOL.md, "Profile File Format")."""

import json
from pathlib import Path

_MOST_BYTES = 1024 * 1024
"""Of a file that is read as a profile: somebody else wrote it, and it may be no file at all."""


class ProfileError(ValueError):
    """A file is no profile; the text says which and why."""


def read_profile(path: Path) -> tuple[str, str]:
    """Return a profile's endpoint, without a slash at its end, and its token; raises ProfileError."""
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(_MOST_BYTES))  # what is cut there is no JSON
        return str(fields["endpoint"]).rstrip("/"), str(fields["bearerToken"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProfileError(f"{path} is no profile file: {error}") from None
