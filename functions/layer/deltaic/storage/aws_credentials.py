"""Represent AWS credentials, and find the default credentials of the process."""

import os
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from deltaic.errors import Unavailable

_CREATION_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Credentials:
    """AWS keys that sign requests. `repr` omits the secrets, so that logs never contain them."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_at_ms: int | None = None
    """Expiry in milliseconds since the epoch; None if unknown or never."""


def default_credentials() -> Credentials:
    """Return the default credentials of the process: on Lambda, the keys of the function's role.

    On Lambda they are environment variables and have no expiry. Elsewhere, and after a SnapStart restore (where the
    environment names an endpoint instead of keys), botocore finds and renews them. Raises Unavailable if none exist.
    """
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, token = (
        os.environ.get(name, "").strip() for name in names
    )  # variables from files can end with a newline
    if key and secret:
        return Credentials(key, secret, token)
    keys = _botocore_session().get_credentials()
    if keys is None:
        raise Unavailable(
            "the server cannot read the table's storage at the moment; try again later",
            "the function has no AWS credentials: give it a role",
        )
    frozen = keys.get_frozen_credentials()
    expiry = getattr(keys, "_expiry_time", None)
    return Credentials(
        frozen.access_key or "",
        frozen.secret_key or "",
        frozen.token or "",
        int(expiry.timestamp() * 1000) if expiry is not None else None,
    )


@cache
def _botocore_session() -> Any:
    import botocore.session

    return botocore.session.get_session()


def make_client(service: str, region: str, config: Any, **options: str | None) -> Any:
    """Create a botocore client in a session that the process shares, to load botocore's data only once.

    `options` can replace the default keys and endpoint. A lock is necessary, because only clients are thread-safe, not
    their creation.
    """
    with _CREATION_LOCK:
        return _botocore_session().create_client(service, region_name=region, config=config, **options)
