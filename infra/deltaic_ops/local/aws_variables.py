"""Check which AWS the environment variables select, without importing the embedded AWS."""

import socket
from collections.abc import Mapping
from typing import Final

from deltaic.errors import Unavailable
from deltaic.urls import DEFAULT_PORTS, parse_endpoint

from deltaic_ops.deploy.emulated_account import REGION

THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_SELECTING = (
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def administrator(endpoint: str, key_id: str, secret: str) -> dict[str, str]:
    """Return the AWS variables that connect tools to an emulator on this machine, as its administrator."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }


def selects_aws(variables: Mapping[str, str]) -> bool:
    """Return whether the standard AWS variables select an AWS account or endpoint."""
    return any(variables.get(name) for name in _SELECTING)


def check_reachable(endpoint: str, remedy: str) -> None:
    """Raise Unavailable if the endpoint is on this machine and no program listens on its port."""
    address = parse_endpoint(endpoint)
    if address.hostname not in THIS_MACHINE:
        return
    try:
        socket.create_connection((address.hostname, address.port or DEFAULT_PORTS[address.scheme])).close()
    except ConnectionRefusedError:
        raise Unavailable(f"no response from {endpoint} (from AWS_ENDPOINT_URL): {remedy}") from None
