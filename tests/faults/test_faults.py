"""Test every fault of the table with two of the calls that use the failing part, and with all of them in long tests."""

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from faults.place import FaultResult
from faults.table import CALLS, FAULTS, Fault

pytestmark = pytest.mark.slow


def calls_in_ci(number: int, fault: Fault) -> set[str]:
    """Return two calls that use the failing part, in turn: each fault meets two, and each call many faults."""
    calls = CALLS[fault.part]
    return {calls[number % len(calls)], calls[(number + 2) % len(calls)]}


CASES = [
    pytest.param(
        fault,
        call,
        id=f"{fault.part}: {fault.name}: {call}",
        marks=() if call in calls_in_ci(number, fault) else pytest.mark.long,
    )
    for number, fault in enumerate(FAULTS)
    for call in CALLS[fault.part]
]


@pytest.mark.parametrize(("fault", "call"), CASES)
def test_recipient_gets_the_promised_response(
    fault_results: Callable[[Fault, str], FaultResult],
    healthy_content: Mapping[str, Mapping[str, str]],
    fault: Fault,
    call: str,
) -> None:
    result, promise, expected = fault_results(fault, call), fault.promise, healthy_content[fault.part][call]
    assert result.played > 0
    assert result.reply is not None, "the response was incomplete"
    if promise.status == 200:
        assert result.content == expected
    else:
        result.reply.refused(promise.status, promise.code)
    assert result.seconds < promise.seconds
    assert result.next_content == expected


def test_every_call_meets_many_faults_in_ci() -> None:
    met = Counter((fault.part, call) for number, fault in enumerate(FAULTS) for call in calls_in_ci(number, fault))
    assert met.keys() == {(part, call) for part, calls in CALLS.items() for call in calls}
    assert min(met.values()) >= 3


def test_table_has_enough_faults_and_calls() -> None:
    assert len({(fault.part, fault.name) for fault in FAULTS}) == len(FAULTS) >= 25
    assert min(len(set(calls)) for calls in CALLS.values()) >= 5
