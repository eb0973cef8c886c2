"""The event bus raises an error unless EventBridge accepts all events."""

import pytest
from deltaic.errors import Unavailable
from deltaic.storage.event_bus import BusEvent, EventBus
from storage.answers import answering

ACCEPTED = b'{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}'
ONE_REJECTED = b'{"FailedEntryCount": 1, "Entries": [{"EventId": "1"}, {"ErrorCode": "ThrottlingException"}]}'
DENIED = b'{"__type": "AccessDeniedException", "message": "not authorized"}'


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        pytest.param(ONE_REJECTED, 200, "1 rejected (ThrottlingException)", id="one_of_several"),
        pytest.param(DENIED, 400, "AccessDeniedException", id="no_right"),
        pytest.param(b"{}", 200, "'Entries'", id="half_an_answer"),
    ],
)
def test_rejected_events_raise_an_error_with_the_bus(body: bytes, status: int, reason: str) -> None:
    with answering(body, status) as endpoint:
        bus = EventBus("own", "deltaic-dev", "us-east-1", endpoint)
        with pytest.raises(Unavailable) as failure:
            bus.put([BusEvent("deltaic.table.changed", {"id": "1"})] * 2)
    assert "bus own" in failure.value.detail
    assert reason in failure.value.detail


def test_events_are_sent_in_requests_of_ten() -> None:
    EventBus("own", "deltaic-dev", "us-east-1", "http://127.0.0.1:1").put([])
    with answering(ACCEPTED) as endpoint:
        EventBus("own", "deltaic-dev", "us-east-1", endpoint).put([BusEvent("deltaic.table.changed", {})] * 21)
