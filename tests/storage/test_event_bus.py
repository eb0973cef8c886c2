"""A bus takes all events or says that it did not, whatever EventBridge answers."""

import pytest
from deltaic.errors import Unavailable
from deltaic.storage.event_bus import BusEvent, EventBus
from storage.answers import answering

TAKEN = b'{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}'
ONE_REFUSED = b'{"FailedEntryCount": 1, "Entries": [{"EventId": "1"}, {"ErrorCode": "ThrottlingException"}]}'
DENIED = b'{"__type": "AccessDeniedException", "message": "not authorized"}'


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        pytest.param(ONE_REFUSED, 200, "1 refused (ThrottlingException)", id="one_of_several"),
        pytest.param(DENIED, 400, "AccessDeniedException", id="no_right"),
        pytest.param(b"{}", 200, "'Entries'", id="half_an_answer"),
    ],
)
def test_what_the_bus_does_not_take_is_a_failure_that_names_the_bus(body: bytes, status: int, why: str) -> None:
    with answering(body, status) as endpoint:
        bus = EventBus("own", "deltaic-dev", "us-east-1", endpoint)
        with pytest.raises(Unavailable) as failure:
            bus.put([BusEvent("deltaic.table.changed", {"id": "1"})] * 2)
    assert "bus own" in failure.value.detail
    assert why in failure.value.detail


def test_no_events_ask_nothing_and_many_are_taken_by_tens() -> None:
    EventBus("own", "deltaic-dev", "us-east-1", "http://127.0.0.1:1").put([])
    with answering(TAKEN) as endpoint:
        EventBus("own", "deltaic-dev", "us-east-1", endpoint).put([BusEvent("deltaic.table.changed", {})] * 21)
