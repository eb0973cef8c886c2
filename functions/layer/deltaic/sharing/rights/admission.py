"""Check a recipient's restrictions before a request is processed: expiry, IP addresses and limits.

The catalog reader calls the checks with the recipient's record, which it reads together with the grant. So the result
does not depend on the requested table, and only recipients with limits need further requests to DynamoDB.
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
"""Message of API Gateway if the authorizer rejects a token (template.yaml), also for an expired recipient."""


def check_admitted(restrictions: Restrictions, source_ip: str, now: datetime) -> None:
    """Raise Unauthenticated for an expired recipient, PermissionDenied for an IP address that is not allowed."""
    if restrictions.has_ended(now):
        raise Unauthenticated(NO_KEY)
    if restrictions.addresses and not _is_among(source_ip, restrictions.addresses):
        raise PermissionDenied("your IP address is not allowed to use this server; ask your share provider to allow it")


class Admission:
    """Check of a request against its recipient's restrictions; also counts the request for limits."""

    def __init__(self, caller: Caller, counters: LimitCounters, now: Callable[[], float], *, fail_closed: bool) -> None:
        self._caller = caller
        self._counters = counters
        self._now = now
        self._fail_closed = fail_closed

    def __call__(self, restrictions: Restrictions) -> None:
        """Check expiry, IP address and limits; raises the first error, or Unavailable if required counters fail."""
        now = self._now()
        check_admitted(restrictions, self._caller.source_ip, datetime.fromtimestamp(now, UTC))
        try:
            self._check_limits(restrictions, now)
        except _OverLimit:
            raise
        except DeltaicError as failure:
            self._caller.audit.add(limits="not counted")
            if self._fail_closed:
                raise Unavailable("the server cannot count your requests at the moment: try again later") from failure

    def _check_limits(self, restrictions: Restrictions, now: float) -> None:
        recipient, requests = self._caller.recipient_id, restrictions.requests_per_minute
        full = False
        if restrictions.bytes_per_day:
            used = self._counters.usage(recipient, now)
            if used.bytes >= restrictions.bytes_per_day:
                raise _OverLimit("you have read as many bytes as your share provider allows in a day (UTC)", now, DAY)
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
            self._caller.audit.add(limits="not counted")  # the response was already sent


class _OverLimit(TooManyRequests):
    """Error for a reached limit; the message says after how many seconds to retry."""

    def __init__(self, message: str, now: float, period: int) -> None:
        seconds = period - int(now) % period
        super().__init__(f"{message}: try again in {seconds} seconds", retry_after=seconds)


def _is_among(address: str, networks: Sequence[str]) -> bool:
    # Imported here, because few recipients have allowed addresses.
    from ipaddress import IPv6Address, ip_address, ip_network

    try:
        client = ip_address(address)
    except ValueError:
        return False
    if isinstance(client, IPv6Address) and client.ipv4_mapped is not None:
        client = client.ipv4_mapped
    return any(client in ip_network(network) for network in networks)
