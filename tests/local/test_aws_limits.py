"""The local limits equal those of AWS: no byte is sent too early, and none is lost."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from deltaic.platform_limits import BYTES_PER_SECOND, FREE_BURST_BYTES, STREAMED_BYTES
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.aws_limits import Limits, PacedResponse
from deltaic_ops.local.exchange import ClientDisconnected
from deltaic_ops.local.functions import Functions
from deltaic_ops.local.gateway import Gateway
from hypothesis import given
from hypothesis import strategies as st

TEMPLATE = Path(__file__).parent / "small" / "template.yaml"
MB = 1024 * 1024
SLACK_SECONDS = 0.25


@dataclass
class Reader:
    """Received bytes with their times, by a clock that only waiting advances."""

    now: float = 100.0
    arrived: list[tuple[float, int]] = field(default_factory=list)

    def answer(self) -> PacedResponse:
        return PacedResponse(self._take, now=lambda: self.now, wait=self._pass)

    @property
    def total(self) -> int:
        return sum(size for _, size in self.arrived)

    def _take(self, data: bytes) -> None:
        self.arrived.append((self.now, len(data)))

    def _pass(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@given(pieces=st.lists(st.tuples(st.integers(0, 5 * MB), st.floats(0, 3)), max_size=8))
def test_after_the_burst_a_response_has_lambdas_rate(pieces: list[tuple[int, float]]) -> None:
    reader = Reader()
    answer = reader.answer()
    working = 0.0
    for size, seconds in pieces:
        reader.now += seconds  # the function makes the next piece
        working += seconds
        answer.send(bytes(size))
    assert reader.total == sum(size for size, _ in pieces)
    before = paced = 0
    began = None
    for instant, size in reader.arrived:
        beyond = max(before + size - max(before, FREE_BURST_BYTES), 0)
        before, paced = before + size, paced + beyond
        if beyond:
            began = instant if began is None else began
            assert paced - beyond <= (instant - began + SLACK_SECONDS) * BYTES_PER_SECOND + 1
    # Nor does it wait longer than its own work and the pace make it.
    assert reader.now - 100.0 <= working + paced / BYTES_PER_SECOND + 1e-6


def test_a_response_within_the_burst_is_sent_at_once() -> None:
    reader = Reader()
    reader.answer().send(bytes(FREE_BURST_BYTES))
    assert (reader.now, reader.total) == (100.0, FREE_BURST_BYTES)


def test_a_response_over_the_maximum_size_is_cut() -> None:
    reader = Reader()
    answer = reader.answer()
    for _ in range(STREAMED_BYTES // 10_000_000 - 1):
        answer.send(bytes(10_000_000))
    with pytest.raises(ClientDisconnected):
        answer.send(bytes(10_000_001))
    assert reader.total == STREAMED_BYTES


@pytest.mark.parametrize(("limits", "status"), [("none", 200), ("aws", 504)])
def test_a_function_over_its_timeout_is_not_waited_for(limits: Limits, status: int) -> None:
    template = load_template(TEMPLATE, {})
    functions = {**template.functions, "Echo": replace(template.functions["Echo"], timeout=0)}
    with Gateway(template, Functions(functions, template.environment), limits=limits) as gateway:
        headers = {"Authorization": "Bearer alice"}
        with httpx.Client(base_url=gateway.endpoint, headers=headers, trust_env=False) as client:
            body = {"statusCode": 200, "body": "late", "seconds": 0.2}
            assert client.post("/answer", json=body).status_code == status
