"""Decides which restrictions of a recipient can be kept, and keeps them where endpoints read them.

Endpoints check nothing of what they read: every value is checked here, on its way in.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, Final, TypedDict

from deltaic.catalog.items import Recipient, Restrictions
from deltaic.errors import InvalidParameter

MOST_ADDRESSES: Final = 100
MOST_REQUESTS: Final = 1_000_000
"""A minute; more than a stage takes."""
MOST_BYTES: Final = 1 << 60
NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""As an end: there is none."""


class Limits(TypedDict, total=False):
    """Restrictions as an administrator gives them; None is not given, 0 and NEVER take one away."""

    add_addresses: Sequence[str]
    remove_addresses: Sequence[str]
    requests_per_minute: int | None
    bytes_per_day: int | None
    ends_at: datetime | None


def changed(before: Recipient, limits: Limits) -> dict[str, Any]:
    """Return the attributes that change, as they are stored.

    Raises InvalidParameter, also for an address to be removed that is not there: who shuts somebody out must not
    believe that it is done.
    """
    assign: dict[str, Any] = {}
    add, remove = limits.get("add_addresses", ()), limits.get("remove_addresses", ())
    if add or remove:
        assign["addresses"] = _addresses(before.addresses, add, remove)
    if (requests := limits.get("requests_per_minute")) is not None:
        assign["requests_per_minute"] = _number("requests a minute", requests, MOST_REQUESTS)
    if (size := limits.get("bytes_per_day")) is not None:
        assign["bytes_per_day"] = _number("bytes a day", size, MOST_BYTES)
    if (ends_at := limits.get("ends_at")) is not None:
        assign["ends_at"] = end(ends_at)
    return assign


def end(ends_at: datetime) -> datetime | None:
    """Return an end as it is stored; None where there is none."""
    return None if ends_at >= NEVER else ends_at


def of_record(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a recipient's attributes that its record has for endpoints."""
    names = {"properties", *Restrictions.__struct_fields__}
    return {name: value for name, value in attributes.items() if name in names}


def checked_addresses(networks: Iterable[str]) -> list[str]:
    """Return networks once each in their one spelling, MOST_ADDRESSES at most; raises InvalidParameter."""
    kept = list(dict.fromkeys(map(_network, networks)))
    if len(kept) > MOST_ADDRESSES:
        raise InvalidParameter(f"{len(kept)} addresses are too many: {MOST_ADDRESSES} at most; join networks")
    return kept


def _addresses(before: Iterable[str], add: Sequence[str], remove: Sequence[str]) -> list[str]:
    kept = list(before)
    for network in map(_network, remove):
        if network not in kept:
            raise InvalidParameter(f"{network} is not in the list (there is: {', '.join(kept) or 'none'})")
        kept.remove(network)
    return checked_addresses([*kept, *add])


def _network(text: str) -> str:
    """Return a network in its one spelling; an address alone is a network of one."""
    try:
        return str(ip_network(text.strip()))
    except ValueError as wrong:
        raise InvalidParameter(f"'{text}' is no network ({wrong}): write 203.0.113.0/24 or 2001:db8::/32") from None


def _number(what: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidParameter(f"{value} {what}: say 1 to {most}, or 0 for no limit")
    return value
