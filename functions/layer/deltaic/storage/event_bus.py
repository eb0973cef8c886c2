"""Put events on an EventBridge bus."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import CONTROL, AwsClient

_MAX_ENTRIES: Final = 10
"""Largest number of events in one PutEvents request."""


class BusEvent(NamedTuple):
    """Event to send to an EventBridge bus."""

    detail_type: str
    detail: Mapping[str, Any]


class EventBus:
    """Sender of events from one source to one EventBridge bus."""

    def __init__(self, name: str, source: str, region: str, endpoint: str = "") -> None:
        self._name = name
        self._source = source
        self._client = AwsClient("events", region, endpoint, timeouts=CONTROL)

    def put(self, events: Sequence[BusEvent]) -> None:
        """Send events; raises Unavailable if the bus rejects some of them, although it may have accepted others."""
        for start in range(0, len(events), _MAX_ENTRIES):
            entries = [
                {
                    "EventBusName": self._name,
                    "Source": self._source,
                    "DetailType": event.detail_type,
                    "Detail": json.dumps(event.detail),
                }
                for event in events[start : start + _MAX_ENTRIES]
            ]
            try:
                answer = self._client.put_events(Entries=entries)
                codes = sorted({entry["ErrorCode"] for entry in answer["Entries"] if "ErrorCode" in entry})
                failed = answer["FailedEntryCount"]
            except Exception as error:
                raise Unavailable("EventBridge did not accept events", f"bus {self._name}: {error}") from error
            if failed:
                detail = f"bus {self._name}: {failed} rejected ({', '.join(codes)})"
                raise Unavailable("EventBridge did not accept all events; try again", detail)
