"""Decides whether a recipient's request is answered at all: by its restrictions, before anything is told.

It is asked by the catalog's reader, with the recipient's record that came with the grant: an unrestricted recipient
pays nothing for it, and what it says does not depend on what was asked for.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from deltaic.catalog.items import Restrictions
from deltaic.catalog.limit_counters import DAY, MINUTE, LimitCounters
from deltaic.errors import DeltaicError, PermissionDenied, TooManyRequests, Unauthenticated, Unavailable
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.caller import Caller

NO_KEY = "the bearer token is missing, unknown, expired or revoked; ask your share provider for a new profile"
"""What API Gateway says where the authorizer refuses (template.yaml): an end looks like any other."""


def check_admitted(restrictions: Restrictions, source_ip: str, now: datetime) -> None:
    """Refuse a recipient that has ended (Unauthenticated), or that asks from elsewhere (PermissionDenied)."""
    if restrictions.has_ended(now):
        raise Unauthenticated(NO_KEY)
    if restrictions.addresses and not _is_among(source_ip, restrictions.addresses):
        raise PermissionDenied("requests from your address are not answered; ask your share provider")


class Admission:
    """Admits one request of a recipient, or raises why not; counts it where the recipient has limits."""

    def __init__(self, caller: Caller, counters: LimitCounters, now: Callable[[], float], *, fail_closed: bool) -> None:
        self._caller = caller
        self._counters = counters
        self._now = now
        self._fail_closed = fail_closed

    def __call__(self, restrictions: Restrictions) -> None:
        """Raise Unauthenticated, PermissionDenied or TooManyRequests; Unavailable where counters fail and must not."""
        now = self._now()
        check_admitted(restrictions, self._caller.source_ip, datetime.fromtimestamp(now, UTC))
        try:
            self._check_limits(restrictions, now)
        except _OverLimit:
            raise
        except DeltaicError as failure:
            self._caller.audit.add(limits="not counted")
            if self._fail_closed:
                raise Unavailable("the server cannot count requests at the moment: try again later") from failure

    def _check_limits(self, restrictions: Restrictions, now: float) -> None:
        recipient, requests = self._caller.recipient_id, restrictions.requests_per_minute
        full = False
        if restrictions.bytes_per_day:
            used = self._counters.usage(recipient, now)
            if used.bytes >= restrictions.bytes_per_day:
                raise _OverLimit(
                    "you have asked for as many bytes as your share provider allows in a day (UTC)", now, DAY
                )
            full = bool(requests) and used.requests >= requests
            if not full:
                self._caller.audit.at_end(partial(self._count, request=bool(requests)))
        elif requests:
            full = not self._counters.count_request(recipient, requests, now)
        if full:
            raise _OverLimit(f"your share provider allows {requests} requests a minute", now, MINUTE)

    def _count(self, metrics: ResponseMetrics, *, request: bool) -> None:
        if not (metrics.bytes or request):
            return
        try:
            self._counters.add(self._caller.recipient_id, metrics.bytes, self._now(), request=request)
        except DeltaicError:
            self._caller.audit.add(limits="not counted")  # the answer has left


class _OverLimit(TooManyRequests):
    """A window is full; the answer says when the next one begins."""

    def __init__(self, told: str, now: float, window: int) -> None:
        left = window - int(now) % window
        super().__init__(f"{told}: try again in {left} seconds", retry_after=left)


def _is_among(address: str, networks: Sequence[str]) -> bool:
    # Imported here: few recipients have a list.
    from ipaddress import IPv6Address, ip_address, ip_network

    try:
        asked = ip_address(address)
    except ValueError:
        return False  # whoever is nowhere is not there
    if isinstance(asked, IPv6Address) and asked.ipv4_mapped is not None:
        asked = asked.ipv4_mapped
    return any(asked in ip_network(network) for network in networks)
