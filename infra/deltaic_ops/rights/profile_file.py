"""The profile file: the one thing that a recipient gets (PROTOCOL.md, "Profile File Format")."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from delta_sharing_conformance import profile as profile_file
from deltaic.catalog.credentials.token_admin import IssuedToken
from deltaic.catalog.items import Token
from deltaic.errors import InvalidParameter, Unavailable
from deltaic.sign_in.activation import iceberg_field, profile

_ROOM_BYTES = 8192
"""More than any profile: an endpoint is a URL, and a secret has some fifty letters."""


class ProfilePlace:
    """A file beside the profile-to-be, with room for it on the disk."""

    def __init__(self, path: Path, fresh: Path, descriptor: int) -> None:
        self.path = path
        self._fresh = fresh
        self._descriptor = descriptor

    def write_profile(self, endpoint: str, issued: IssuedToken, *, serves_iceberg: bool = False) -> None:
        """Put the profile in its place at once; the rest is as with `write`."""
        self.write(profile(endpoint, issued, serves_iceberg=serves_iceberg), unusable(issued.token))

    def write(self, content: str, otherwise: str) -> None:
        """Put the text in its place at once; replaces one that is there.

        Raises Unavailable if it cannot be written after all; `otherwise` ends its message: what is to be done then.
        """
        text = content.encode()
        try:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            _write(self._descriptor, text)
            os.ftruncate(self._descriptor, len(text))
            os.fsync(self._descriptor)
            self._fresh.replace(self.path)
        except OSError as error:
            raise Unavailable(f"'{self.path}' could not be written ({error.strerror}){otherwise}") from error


def client_profile(  # noqa: PLR0913 -- its fields
    endpoint: str,
    token_endpoint: str,
    client_id: str,
    client_secret: str,
    scope: str = "",
    *,
    serves_iceberg: bool = False,
) -> str:
    """Return a profile of version 2 for a client that gets its tokens by id and secret; it holds the secret."""
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


def private_key_profile(endpoint: str, auth: Mapping[str, object]) -> str:
    """Return a profile of version 2 for a client that gets its tokens by a key of its own, which lies elsewhere."""
    kind = "oauth_jwt_bearer_private_key_jwt"
    fields = {"shareCredentialsVersion": 2, "type": kind, "endpoint": endpoint, "auth": auth}
    return json.dumps(fields, indent=2) + "\n"


def read_profile(path: Path) -> tuple[str, str]:
    """Return a profile's endpoint, without a slash at its end, and its token; raises InvalidParameter."""
    try:
        found = profile_file.read_profile(path)
    except profile_file.ProfileError as error:
        raise InvalidParameter(str(error)) from None
    return found.endpoint, found.token


def unusable(token: Token) -> str:
    """Return the end of an error message about a token that was created, but could not be handed over."""
    return (
        f", but token {token.id} was created: revoke it with `deltaic token revoke {token.recipient} {token.id}`, and "
        "create another"
    )


@contextmanager
def profile_place(path: Path) -> Iterator[ProfilePlace]:
    """Take a place for a profile before its token exists, readable by its owner only; what is left is taken away.

    Raises InvalidParameter where no file can be written, where the disk is full, and for a path that leads elsewhere
    (a link, which is never followed) or is no file.
    """
    try:
        if path.is_symlink():
            raise InvalidParameter(f"'{path}' is a symbolic link, which is not followed: use the file itself")
        if path.exists() and not path.is_file():
            raise InvalidParameter(f"'{path}' cannot be written: use a file in an existing folder")
        fresh = path.with_name(f".{secrets.token_hex(8)}.share")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error
    try:
        try:
            _write(descriptor, b" " * _ROOM_BYTES)
        except OSError as error:
            raise _unwritable(path, error) from error
        yield ProfilePlace(path, fresh, descriptor)
    finally:
        os.close(descriptor)
        fresh.unlink(missing_ok=True)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _unwritable(path: Path, error: Exception) -> InvalidParameter:
    why = getattr(error, "strerror", None) or str(error)
    return InvalidParameter(f"'{path}' cannot be written ({why}): use a file in an existing folder")
