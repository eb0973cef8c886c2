"""Queries that are submitted first and fetched later: one id for one submission, for its recipient, at one version."""

from collections.abc import Callable

import pytest
from contract.recipient import CAPABILITIES, Table

ASYNC = "responseformat=parquet;asyncquery=true"


@pytest.mark.parametrize("key", ["idempotencyKey", "idempotency_key"])
def test_a_submission_is_answered_by_one_line(table: Callable[[str], Table], key: str) -> None:
    reply = table("table1").asking(ASYNC).query({key: "x"})
    assert reply.kinds == ["queryStatus"]
    [status] = reply.only("queryStatus")
    assert status == {"queryId": status["queryId"], "status": "pending"}
    assert reply.headers[CAPABILITIES] == "responseformat=parquet;asyncquery=true"
    assert reply.version == 2
