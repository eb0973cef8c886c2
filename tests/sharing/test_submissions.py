"""The recorded body of a submitted query is equivalent to the request."""

import json

from deltaic.protocol.query_request import QueryRequest
from deltaic.sharing.submissions import body_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LONG = st.integers(0, 2**63 - 1)
TIME_TRAVEL = st.fixed_dictionaries({}, optional={"version": LONG}) | st.fixed_dictionaries({"timestamp": TEXT})
RANGE = st.fixed_dictionaries(
    {"startingVersion": LONG}, optional={"endingVersion": LONG, "includeHistoricalProtocol": st.booleans()}
)
LATEST = st.fixed_dictionaries({}, optional={"includeRefreshToken": st.booleans(), "refreshToken": TEXT})
HINTS = st.fixed_dictionaries(
    {"idempotencyKey": st.text("k", min_size=1)},
    optional={
        "predicateHints": st.lists(TEXT, max_size=3),
        "jsonPredicateHints": TEXT,
        "limitHint": st.integers(-(2**63), 2**63 - 1),
        "maxFiles": st.integers(1, 2**31 - 1),
    },
)


@given(st.builds(dict[str, object].__or__, HINTS, TIME_TRAVEL | RANGE | LATEST))
def test_recorded_body_is_equivalent(body: dict[str, object]) -> None:
    request = QueryRequest.parse(json.dumps(body).encode(), async_query=True)
    recorded = json.dumps(body_of(request))
    assert recorded.isascii()
    assert QueryRequest.parse(recorded.encode()) == replace(request, idempotency_key=None, refresh_token=None)
