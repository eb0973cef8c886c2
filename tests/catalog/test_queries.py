"""Submitted queries: look-ups by recipient and table, repeated submissions, expiry and limits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from catalog import schema
from deltaic.catalog.live_queries import MOST_BYTES
from deltaic.catalog.submitted_queries import LIFE, PARAMETERS_BYTES, Query, QueryStore
from deltaic.errors import InvalidParameter, NotFound, TooManyRequests
from msgspec.structs import replace

if TYPE_CHECKING:
    from catalog.conftest import Catalog

RACERS = 8
GONE = "The query is unknown or has expired: submit it again."


def query(store: QueryStore, **changed: object) -> Query:
    fields: dict[str, object] = {
        "id": "aB-9_",
        "recipient_id": "alice",
        "table_id": "table-1",
        "parameters": '{"predicateHints":["a = \\u00e9"]}',
        "version": 4,
        "latest_version": 5,
        "response_format": "delta",
        "log_id": "log-1",
        "expires_at": store.expiry(),
    }
    return Query(**{**fields, **changed})  # type: ignore[arg-type]


def in_seconds(seconds: float) -> float:
    return time.time() + seconds


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="snapshot"),
        pytest.param({"end_version": 9, "file_id_hash": "parquet", "response_format": "parquet"}, id="range"),
        pytest.param({"parameters": "x" * PARAMETERS_BYTES, "log_id": "y" * 10_000}, id="largest"),
    ],
)
def test_submitted_query_is_found(catalog: Catalog, changed: dict[str, object]) -> None:
    submitted = query(catalog.queries(), **changed)
    assert catalog.queries().submit(submitted) == submitted
    assert catalog.queries().get("alice", "table-1", "aB-9_") == submitted
    assert catalog.queries().find("alice", "table-1", "aB-9_") == submitted


def test_query_expires_after_a_day(catalog: Catalog) -> None:
    store = QueryStore(catalog.catalog_table, catalog.dynamo, lambda: 1_700_000_000.7)
    assert store.expiry() == datetime.fromtimestamp(1_700_000_000, UTC) + LIFE


def test_second_submission_returns_the_first(catalog: Catalog) -> None:
    store = catalog.queries()
    first = store.submit(query(store))
    assert store.submit(query(store, version=5, log_id="other")) == first
    assert store.get("alice", "table-1", "aB-9_") == first
    assert len(catalog.items()) == 2, "the query, and the count of its recipient's"


def test_concurrent_submissions_return_the_same_query(catalog: Catalog) -> None:
    store = catalog.queries()
    with ThreadPoolExecutor(RACERS) as pool:
        results = list(pool.map(store.submit, [query(store, version=number) for number in range(RACERS)]))
    assert len(set(results)) == 1
    assert store.get("alice", "table-1", "aB-9_") == results[0]


@pytest.mark.parametrize(
    ("recipient_id", "table_id", "query_id"),
    [
        pytest.param("bob", "table-1", "aB-9_", id="of another recipient"),
        pytest.param("alice", "table-2", "aB-9_", id="on another table"),
        pytest.param("alice", "table-1", "ab-9_", id="another case"),
        pytest.param("alice", "table-1", "", id="empty"),
        pytest.param("alice", "table-1", "x" * 5000, id="long"),
        pytest.param("alice", "table-1", "\ud800/\0", id="no text"),
    ],
)
def test_query_of_another_recipient_or_table_is_not_found(
    catalog: Catalog, recipient_id: str, table_id: str, query_id: str
) -> None:
    catalog.queries().submit(query(catalog.queries()))
    assert catalog.queries().find(recipient_id, table_id, query_id) is None
    with pytest.raises(NotFound) as refusal:
        catalog.queries().get(recipient_id, table_id, query_id)
    assert refusal.value.message == GONE


def test_expired_query_is_not_found_and_can_be_submitted_again(catalog: Catalog) -> None:
    first = catalog.queries().submit(query(catalog.queries()))
    almost = catalog.queries(lambda: in_seconds(LIFE.total_seconds() - 5))
    assert almost.find("alice", "table-1", "aB-9_") == first
    later = catalog.queries(lambda: in_seconds(LIFE.total_seconds() + 1))
    with pytest.raises(NotFound) as refusal:
        later.get("alice", "table-1", "aB-9_")
    assert refusal.value.message == GONE
    second = replace(first, version=7, expires_at=later.expiry())
    assert later.submit(second) == second
    assert later.get("alice", "table-1", "aB-9_") == second


def test_too_large_parameters_are_refused_with_a_remedy(catalog: Catalog) -> None:
    store = catalog.queries()
    with pytest.raises(InvalidParameter, match=r"have 393217 bytes, .* allows 393216: .* without asyncquery=true"):
        store.submit(query(store, parameters="x" * (PARAMETERS_BYTES + 1)))
    assert catalog.items() == []


def test_expiry_is_the_time_to_live_attribute(catalog: Catalog) -> None:
    """The attribute has epoch seconds. Leases in the same table do not have it, so they never expire."""
    store = catalog.queries()
    submitted = store.submit(query(store))
    query_and_count = catalog.items()
    assert [item[schema.CATALOG_EXPIRY] for item in query_and_count] == [
        {"N": str(int(submitted.expires_at.timestamp()))}
    ] * 2
    description = catalog.dynamo.client.describe_time_to_live(TableName=catalog.catalog_table)["TimeToLiveDescription"]
    assert description == {"TimeToLiveStatus": "ENABLED", "AttributeName": schema.CATALOG_EXPIRY}
    catalog.leases().acquire("s3://bucket/table", "one", LIFE)
    assert [schema.CATALOG_EXPIRY in item for item in catalog.items()].count(True) == 2


def numbered(store: QueryStore, number: int, **changed: object) -> Query:
    return query(store, id=f"q-{number}", **changed)


def test_live_queries_of_a_recipient_are_limited(catalog: Catalog) -> None:
    store = catalog.queries(lambda: 1_700_000_000.0, most=3)
    queries = [store.submit(numbered(store, number)) for number in range(3)]
    with pytest.raises(TooManyRequests) as refusal:
        store.submit(numbered(store, 3))
    assert (refusal.value.status, refusal.value.code) == (429, "RESOURCE_EXHAUSTED")
    assert refusal.value.message.startswith("You have 3 submitted queries ")
    assert (
        "Send the request without asyncquery=true, or later. The first of them expires at 2023-11-15T"
        in refusal.value.message
    )
    assert store.find("alice", "table-1", "q-3") is None
    # A repeated submission does not count. Each recipient has one count for all tables.
    assert [store.submit(numbered(store, number, version=9)) for number in range(3)] == queries
    assert store.submit(numbered(store, 3, recipient_id="bob")).recipient_id == "bob"
    with pytest.raises(TooManyRequests):
        store.submit(numbered(store, 3, table_id="table-2"))


def test_expired_queries_do_not_count(catalog: Catalog) -> None:
    store = catalog.queries(most=2)
    for number in range(2):
        store.submit(numbered(store, number))
    later = catalog.queries(lambda: in_seconds(LIFE.total_seconds() + 1), most=2)
    for number in range(1, 3):
        later.submit(numbered(later, number))
    with pytest.raises(TooManyRequests):
        later.submit(numbered(later, 3))


def test_total_size_of_queries_is_limited(catalog: Catalog) -> None:
    store = catalog.queries()
    room = MOST_BYTES // PARAMETERS_BYTES
    for number in range(room):
        store.submit(numbered(store, number, parameters="x" * PARAMETERS_BYTES))
    with pytest.raises(TooManyRequests, match=f"{room} submitted queries"):
        store.submit(numbered(store, room, parameters="x" * PARAMETERS_BYTES))
    assert store.submit(numbered(store, room, parameters="x" * 1000)).id == f"q-{room}"


def test_concurrent_submissions_respect_the_limit(catalog: Catalog) -> None:
    store = catalog.queries(most=5)

    def submit(number: int) -> Query | TooManyRequests:
        try:
            return store.submit(numbered(store, number))
        except TooManyRequests as refusal:
            return refusal

    with ThreadPoolExecutor(RACERS) as pool:
        results = list(pool.map(submit, range(RACERS)))
    recorded = [number for number in range(RACERS) if store.find("alice", "table-1", f"q-{number}")]
    assert len(recorded) == 5
    assert [number for number, result in enumerate(results) if isinstance(result, Query)] == recorded
    assert {result.message[:10] for result in results if isinstance(result, TooManyRequests)} == {"You have 5"}
