"""Read and write profile files, with which clients connect (Delta Sharing, "Profile File Format")."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delta_sharing_conformance import profile as profile_file
from deltaic.catalog.credentials.token_admin import IssuedToken
from deltaic.catalog.items import Token
from deltaic.errors import InvalidParameter, Unavailable
from deltaic.sign_in.activation import iceberg_field, profile


class ProfileFile:
    """A temporary file that is renamed to the profile file once written."""

    def __init__(self, path: Path, temporary: Path, descriptor: int) -> None:
        self.path = path
        self._temporary = temporary
        self._descriptor = descriptor

    def write_profile(self, endpoint: str, issued: IssuedToken, *, serves_iceberg: bool = False) -> None:
        """Write the profile for an issued token; raises the same error as `write`."""
        self.write(profile(endpoint, issued, serves_iceberg=serves_iceberg), revoke_hint(issued.token))

    def write(self, content: str, remedy: str) -> None:
        """Write the file atomically; raises Unavailable, whose message ends with `remedy`."""
        try:
            text = content.encode()
            while text:
                text = text[os.write(self._descriptor, text) :]
            os.fsync(self._descriptor)
            self._temporary.replace(self.path)
        except OSError as error:
            raise Unavailable(f"cannot write '{self.path}' ({error.strerror}){remedy}") from error


def client_profile(  # noqa: PLR0913 -- its fields
    endpoint: str,
    token_endpoint: str,
    client_id: str,
    client_secret: str,
    scope: str = "",
    *,
    serves_iceberg: bool = False,
) -> str:
    """Return a version 2 profile (JSON) for OAuth client credentials, including the client secret."""
    fields = {
        "shareCredentialsVersion": 2,
        "type": "oauth_client_credentials",
        "endpoint": endpoint,
        "tokenEndpoint": token_endpoint,
        "clientId": client_id,
        "clientSecret": client_secret,
        **({"scope": scope} if scope else {}),
        **iceberg_field(endpoint, serves_iceberg=serves_iceberg),
    }
    return json.dumps(fields, indent=2) + "\n"


def read_profile(path: Path) -> tuple[str, str]:
    """Return the endpoint (without a final slash) and the token in a profile; raises InvalidParameter."""
    try:
        content = profile_file.read_profile(path)
    except profile_file.ProfileError as error:
        raise InvalidParameter(str(error)) from None
    return content.endpoint, content.token


def revoke_hint(token: Token) -> str:
    """Return the end of an error message about a token that was created but could not be delivered."""
    return (
        f", but token {token.id} was created: revoke it with `deltaic token revoke {token.recipient} {token.id}`, and "
        "create another"
    )


@contextmanager
def reserve_profile(path: Path) -> Iterator[ProfileFile]:
    """Create a file that only its owner can read, before the token for the profile is created.

    The temporary file is deleted when the block ends. Raises InvalidParameter if the file cannot be created, and for a
    path that is a symbolic link or not a file.
    """
    try:
        if path.is_symlink():
            raise InvalidParameter(f"'{path}' is a symbolic link: use the path of the file itself")
        if path.exists() and not path.is_file():
            raise InvalidParameter(f"cannot write '{path}': use a file in an existing folder")
        temporary = path.with_name(f".{secrets.token_hex(8)}.share")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidParameter(f"cannot write '{path}' ({reason}): use a file in an existing folder") from error
    try:
        yield ProfileFile(path, temporary, descriptor)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
