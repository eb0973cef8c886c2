"""AWS credentials, and where the function's own come from."""

import os
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from deltaic.errors import Unavailable

_MAKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that sign requests; never shown by `repr`, so that no log line can hold them."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_at_ms: int | None = None
    """When they end, milliseconds since the epoch; None when that cannot be known or is never."""


def default_credentials() -> Credentials:
    """Return the function's own credentials.

    On Lambda they stand in the environment, without an expiry that could be read. Elsewhere, and after a SnapStart
    restore (where the environment names an endpoint instead of keys), botocore finds and renews them. Raises
    Unavailable when there are none.
    """
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, token = (os.environ.get(name, "").strip() for name in names)  # files of variables leave line ends
    if key and secret:
        return Credentials(key, secret, token)
    keys = _botocore_session().get_credentials()
    if keys is None:
        raise Unavailable(
            "the server cannot read the table's storage at the moment; try again later",
            "there are no AWS credentials of its own: give its function a role",
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


def make_client(service: str, region: str, config: Any, **more: str | None) -> Any:
    """Return a botocore client with the process's one session: another would read botocore's data again.

    `more` are keys and an endpoint, where they are not the process's own.

    Clients are thread-safe; making them is not, so one is made at a time.
    """
    with _MAKING:
        return _botocore_session().create_client(service, region_name=region, config=config, **more)
