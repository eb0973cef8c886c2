"""Read a profile file (PROTOCOL.md, "Profile File Format"; OpenSharing)."""

import json
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 1024 * 1024
"""Maximum size of a profile file in bytes, because the path can name any file."""


class ProfileError(ValueError):
    """A file is not a valid profile."""


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """Fields of a profile file. Endpoints have no trailing slash."""

    endpoint: str
    token: str
    iceberg: str
    """Endpoint of the Iceberg REST catalog; empty if the file has none."""


def read_profile(path: Path) -> Profile:
    """Read a profile file; raises ProfileError if it is invalid."""
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(_MAX_BYTES))  # a truncated file is not valid JSON
        endpoint, iceberg = (str(url).rstrip("/") for url in (fields["endpoint"], fields.get("icebergEndpoint") or ""))
        return Profile(endpoint, str(fields["bearerToken"]), iceberg)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else getattr(error, "strerror", error)
        raise ProfileError(f"{path} is not a valid profile file: {reason}") from None
