"""The profile file: endpoints and token of a recipient (PROTOCOL.md, "Profile File Format"; OpenSharing)."""

import json
from dataclasses import dataclass
from pathlib import Path

_MOST_BYTES = 1024 * 1024
"""Of a file that is read as a profile: somebody else wrote it, and it may be no file at all."""


class ProfileError(ValueError):
    """A file is no profile; the text says which and why."""


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """What a profile file says; endpoints without a slash at their end."""

    endpoint: str
    token: str
    iceberg: str
    """Of Iceberg's clients; empty where the file has none."""


def read_profile(path: Path) -> Profile:
    """Return what a profile file says; raises ProfileError."""
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(_MOST_BYTES))  # what is cut there is no JSON
        endpoint, iceberg = (str(one).rstrip("/") for one in (fields["endpoint"], fields.get("icebergEndpoint") or ""))
        return Profile(endpoint, str(fields["bearerToken"]), iceberg)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProfileError(f"{path} is no profile file: {error}") from None
