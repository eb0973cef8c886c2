"""The profile file: the one thing that a recipient gets (PROTOCOL.md, "Profile File Format")."""

import json
import os
from pathlib import Path

from deltaic.catalog.token_admin import IssuedToken


def profile(endpoint: str, issued: IssuedToken) -> str:
    """Return the file's text, version 1 of the format; it holds the token's secret."""
    known = {
        "shareCredentialsVersion": 1,
        "endpoint": endpoint,
        "bearerToken": issued.secret,
        "expirationTime": f"{issued.token.expires_at:%Y-%m-%dT%H:%M:%S}.0Z",
    }
    return json.dumps(known, indent=2) + "\n"


def write_profile(path: Path, endpoint: str, issued: IssuedToken) -> None:
    """Write the file at once, readable by its owner only; replaces one that is there."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(profile(endpoint, issued))
    fresh.replace(path)
