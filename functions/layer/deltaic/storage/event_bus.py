"""A bus of EventBridge, on which events are put."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import CONTROL, AwsClient

_ENTRIES: Final = 10
"""PutEvents takes no more."""


class BusEvent(NamedTuple):
    """An event that is to be put."""

    detail_type: str
    detail: Mapping[str, Any]


class EventBus:
    """One bus, by its name, and the source that its events name."""

    def __init__(self, name: str, source: str, region: str, endpoint: str = "") -> None:
        self._name = name
        self._source = source
        self._client = AwsClient("events", region, endpoint, timeouts=CONTROL)

    def put(self, events: Sequence[BusEvent]) -> None:
        """Put events; raises Unavailable if the bus did not take all of them, and some may be on it all the same."""
        for start in range(0, len(events), _ENTRIES):
            entries = [
                {
                    "EventBusName": self._name,
                    "Source": self._source,
                    "DetailType": event.detail_type,
                    "Detail": json.dumps(event.detail),
                }
                for event in events[start : start + _ENTRIES]
            ]
            try:
                answer = self._client.put_events(Entries=entries)
                codes = sorted({one["ErrorCode"] for one in answer["Entries"] if "ErrorCode" in one})
                failed = answer["FailedEntryCount"]
            except Exception as error:
                raise Unavailable("EventBridge took no notice", f"bus {self._name}: {error}") from error
            if failed:
                detail = f"bus {self._name}: {failed} refused ({', '.join(codes)})"
                raise Unavailable("EventBridge did not take every notice", detail)
