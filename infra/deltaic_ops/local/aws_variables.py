"""Check whether variables name an AWS, and one that answers; nothing of the embedded one is imported to find out."""

import socket
from collections.abc import Mapping
from typing import Final

from deltaic.errors import Unavailable
from deltaic.urls import DEFAULT_PORTS, parse_endpoint

from deltaic_ops.deploy.emulated_account import REGION

THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_NAMING = (
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def administrator(endpoint: str, key_id: str, secret: str) -> dict[str, str]:
    """Return the ordinary AWS variables with which any tool reaches an AWS of this machine as its administrator."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }


def names_aws(variables: Mapping[str, str]) -> bool:
    """Tell whether the ordinary AWS variables name an AWS to use."""
    return any(variables.get(name) for name in _NAMING)


def check_answered(endpoint: str, remedy: str) -> None:
    """Raise Unavailable where variables lead to a port of this machine at which nobody listens (any more)."""
    place = parse_endpoint(endpoint)
    if place.hostname not in THIS_MACHINE:
        return
    try:
        socket.create_connection((place.hostname, place.port or DEFAULT_PORTS[place.scheme])).close()
    except ConnectionRefusedError:
        raise Unavailable(f"nothing answers at {endpoint}, which AWS_ENDPOINT_URL names: {remedy}") from None
