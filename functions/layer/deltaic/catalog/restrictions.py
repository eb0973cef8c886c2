"""Validate changes of a recipient's restrictions before they are stored."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, Final, TypedDict

from deltaic.catalog.items import Recipient, Restrictions
from deltaic.errors import InvalidParameter

MOST_ADDRESSES: Final = 100
MOST_REQUESTS: Final = 1_000_000
"""Highest limit of requests per minute that can be set; more than an API Gateway stage allows."""
MOST_BYTES: Final = 1 << 60
NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""Value of `ends_at` that means: remove the expiry of the grant or the recipient."""


class Limits(TypedDict, total=False):
    """Changes of a recipient's restrictions: None keeps a limit or an expiry, 0 removes a limit, NEVER an expiry."""

    add_addresses: Sequence[str]
    remove_addresses: Sequence[str]
    requests_per_minute: int | None
    bytes_per_day: int | None
    ends_at: datetime | None


def changed_attributes(before: Recipient, limits: Limits) -> dict[str, Any]:
    """Return the attributes of the recipient that `limits` changes, as they are stored.

    Raises InvalidParameter, also for an address in `remove_addresses` that the recipient does not have: a typing error
    must not let the operator believe that access was removed.
    """
    assign: dict[str, Any] = {}
    add, remove = limits.get("add_addresses", ()), limits.get("remove_addresses", ())
    if add or remove:
        assign["addresses"] = _addresses(before.addresses, add, remove)
    if (requests := limits.get("requests_per_minute")) is not None:
        assign["requests_per_minute"] = _checked_number("requests per minute", requests, MOST_REQUESTS)
    if (size := limits.get("bytes_per_day")) is not None:
        assign["bytes_per_day"] = _checked_number("bytes per day", size, MOST_BYTES)
    if (ends_at := limits.get("ends_at")) is not None:
        assign["ends_at"] = stored_end(ends_at)
    return assign


def stored_end(ends_at: datetime) -> datetime | None:
    """Convert an expiry to its stored form: None for NEVER."""
    return None if ends_at >= NEVER else ends_at


def copied_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a recipient that are also stored in its copy for the API functions."""
    names = {"properties", *Restrictions.__struct_fields__}
    return {name: value for name, value in attributes.items() if name in names}


def checked_addresses(networks: Iterable[str]) -> list[str]:
    """Return CIDR networks in canonical form without duplicates; raises InvalidParameter for more than 100."""
    unique = list(dict.fromkeys(map(_network, networks)))
    if len(unique) > MOST_ADDRESSES:
        raise InvalidParameter(
            f"{len(unique)} addresses are too many: give at most {MOST_ADDRESSES}, or combine them into networks"
        )
    return unique


def _addresses(before: Iterable[str], add: Sequence[str], remove: Sequence[str]) -> list[str]:
    remaining = list(before)
    for network in map(_network, remove):
        if network not in remaining:
            existing = ", ".join(remaining) or "none"
            raise InvalidParameter(f"{network} is not one of the recipient's networks: choose from {existing}")
        remaining.remove(network)
    return checked_addresses([*remaining, *add])


def _network(text: str) -> str:
    """Return a CIDR network in canonical form; a single address becomes a /32 or /128 network."""
    try:
        return str(ip_network(text.strip()))
    except ValueError as error:
        raise InvalidParameter(f"'{text}' is not a network ({error}): write, for example, 203.0.113.0/24") from None


def _checked_number(unit: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidParameter(f"{value} {unit} is out of range: choose 1 to {most}, or 0 for no limit")
    return value
