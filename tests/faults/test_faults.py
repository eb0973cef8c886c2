"""Every row of the table of faults, for every call that needs the part which fails."""

from collections.abc import Callable, Mapping

import pytest
from faults.place import Outcome
from faults.table import CALLS, FAULTS, Fault

pytestmark = pytest.mark.slow

CASES = [
    pytest.param(fault, call, id=f"{fault.part}: {fault.name}: {call}")
    for fault in FAULTS
    for call in CALLS[fault.part]
]


@pytest.mark.parametrize(("fault", "call"), CASES)
def test_what_is_promised_holds(
    outcome: Callable[[Fault, str], Outcome], healthy: Mapping[str, str], fault: Fault, call: str
) -> None:
    seen, promise = outcome(fault, call), fault.promise
    assert seen.played > 0
    assert seen.reply is not None, "the answer broke off"
    if promise.status == 200:
        assert seen.content == healthy[call]
    else:
        seen.reply.refused(promise.status, promise.code)
    assert seen.seconds < promise.seconds
    assert seen.afterwards == healthy[call]


def test_the_table_is_as_wide_as_it_says() -> None:
    assert len({(fault.part, fault.name) for fault in FAULTS}) == len(FAULTS) >= 25
    assert min(len(set(calls)) for calls in CALLS.values()) >= 5
