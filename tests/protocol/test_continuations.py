"""Test that each token continues only its own request, and the errors for others."""

from datetime import timedelta
from typing import Any

import pytest
from deltaic.errors import InvalidParameter
from deltaic.protocol.continuations import (
    ListingBinding,
    PageBinding,
    PageClaims,
    RefreshClaims,
    check_log,
    open_list_token,
    open_page_token,
    open_refresh_token,
    seal_list_token,
    seal_page_token,
    seal_refresh_token,
)
from deltaic.protocol.sealed_tokens import TokenSigner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

NOW = 1_700_000_000.0
DAY = 86_400
SIGNER = TokenSigner(b"k" * 32)
LISTING = ListingBinding("alice", "tables", "Share7", "Schema1")
BINDING = PageBinding("alice", "table-1", "query", "checksum", ("delta",), None)
PAGE = PageClaims(version=3, end_version=None, latest_version=5, response_format="delta", log_id="m", position=("p", 7))
PINNED = RefreshClaims("alice", "table-1", 3, "m")
INVALID = r"^invalid 'nextPageToken'$"


@pytest.mark.parametrize("after", ["table8", "", None])
def test_a_list_token_returns_the_last_key_for_any_spelling_of_the_path(after: str | None) -> None:
    token = seal_list_token(SIGNER, LISTING, after, now=NOW)
    assert open_list_token(SIGNER, token, replace(LISTING, share="sHARE7", schema="schema1"), now=NOW + 1) == after


@pytest.mark.parametrize(
    "changes",
    [{"recipient": "bob"}, {"call": "all-tables"}, {"call": "schemas"}, {"share": "share8"}, {"schema": "schema2"}],
    ids=str,
)
def test_a_list_token_is_valid_for_one_listing_of_one_recipient(changes: dict[str, str]) -> None:
    token = seal_list_token(SIGNER, LISTING, "table8", now=NOW)
    with pytest.raises(InvalidParameter, match=INVALID):
        open_list_token(SIGNER, token, replace(LISTING, **changes), now=NOW)


@pytest.mark.parametrize("token", [":", "a1b", "", "x" * 20_000])
def test_invalid_list_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidParameter, match=INVALID):
        open_list_token(SIGNER, token, LISTING, now=NOW)


def test_a_list_token_expires_after_one_day_and_is_not_a_page_token() -> None:
    token = seal_list_token(SIGNER, LISTING, "table8", now=NOW)
    assert open_list_token(SIGNER, token, LISTING, now=NOW + DAY - 1) == "table8"
    with pytest.raises(InvalidParameter, match=INVALID):
        open_list_token(SIGNER, token, LISTING, now=NOW + DAY)
    with pytest.raises(InvalidParameter, match=INVALID):
        open_list_token(SIGNER, seal_page_token(SIGNER, BINDING, PAGE, now=NOW), LISTING, now=NOW)
    with pytest.raises(InvalidParameter, match=r"^Error decoding the page token: "):
        open_page_token(SIGNER, token, BINDING, now=NOW)


def test_a_page_token_is_valid_for_three_days() -> None:
    token = seal_page_token(SIGNER, BINDING, PAGE, now=NOW)
    assert open_page_token(SIGNER, token, BINDING, now=NOW + 3 * DAY - 1) == PAGE


def _page_refusal(token: str, binding: PageBinding, now: float = NOW) -> str:
    with pytest.raises(InvalidParameter) as refusal:
        open_page_token(SIGNER, token, binding, now=now)
    return refusal.value.message


EXPIRED = "The page token has expired. Please restart the query."
OTHER_TABLE = "The table specified in the page token does not match the table being queried."
MISMATCH = (
    "Query parameter mismatch detected for the next page query. The query parameter cannot change when querying the "
    "next page results."
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table_id": "table-2"}, OTHER_TABLE),
        ({"table_id": "table-2", "parameters": "other"}, OTHER_TABLE),
        ({"parameters": "other"}, MISMATCH),
        ({"call": "changes"}, MISMATCH),
        ({"response_formats": ("parquet",)}, MISMATCH),
        ({"file_id_hash": "delta"}, MISMATCH),
    ],
    ids=str,
)
def test_a_page_token_is_valid_for_one_request(changes: dict[str, Any], message: str) -> None:
    token = seal_page_token(SIGNER, BINDING, PAGE, now=NOW)
    assert _page_refusal(token, replace(BINDING, **changes)) == message


def test_checks_have_the_order_of_the_reference() -> None:
    token = seal_page_token(SIGNER, BINDING, PAGE, now=NOW, ttl=timedelta(0))
    assert _page_refusal(token, BINDING) == EXPIRED
    assert _page_refusal(token, replace(BINDING, table_id="table-2")) == EXPIRED
    message_for_bob = _page_refusal(token, replace(BINDING, recipient="bob"))
    assert message_for_bob == f"Error decoding the page token: {token[:100]}...."


def test_an_invalid_page_token_is_quoted_and_shortened() -> None:
    assert _page_refusal("randomPageToken", BINDING) == "Error decoding the page token: randomPageToken."
    assert len(_page_refusal("x" * 10_000, BINDING)) < 150


def test_a_token_with_other_claims_is_invalid() -> None:
    token = SIGNER.seal("page", {"binding": {}, "page": 1}, ttl=timedelta(1), now=NOW)
    assert _page_refusal(token, BINDING).startswith("Error decoding the page token: ")


def test_a_refresh_token_pins_its_version_for_an_hour() -> None:
    token = seal_refresh_token(SIGNER, PINNED, now=NOW)
    assert open_refresh_token(SIGNER, token, "alice", "table-1", now=NOW + 3599) == PINNED
    for recipient, table_id, now, message in [
        ("alice", "table-1", NOW + 3600, "The refresh token has expired. Please restart the query."),
        ("alice", "table-2", NOW + 3600, "The refresh token has expired. Please restart the query."),
        ("alice", "table-2", NOW, "The table specified in the refresh token does not match the table being queried."),
    ]:
        with pytest.raises(InvalidParameter) as refusal:
            open_refresh_token(SIGNER, token, recipient, table_id, now=now)
        assert refusal.value.message == message
    with pytest.raises(InvalidParameter, match=r"^Error decoding refresh token: "):
        open_refresh_token(SIGNER, token, "bob", "table-1", now=NOW)
    with pytest.raises(InvalidParameter, match=r"^Error decoding refresh token: foo\.$"):
        open_refresh_token(SIGNER, "foo", "alice", "table-1", now=NOW)


@pytest.mark.parametrize("pinned", [PAGE, PINNED], ids=["page", "refresh"])
def test_a_token_is_valid_for_one_log(pinned: PageClaims | RefreshClaims) -> None:
    check_log(pinned.log_id, "m")
    with pytest.raises(InvalidParameter, match=r"rewritten since this query began\. Please restart the query"):
        check_log(pinned.log_id, "n")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


VERSIONS = st.integers(0, 2**63 - 1)
FORMATS = st.sampled_from(["parquet", "delta"])
POSITIONS = st.lists(st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=4).map(tuple)


@given(st.builds(PageClaims, VERSIONS, st.none() | VERSIONS, VERSIONS, FORMATS, TEXT, POSITIONS))
def test_every_page_round_trips(page: PageClaims) -> None:
    assert open_page_token(SIGNER, seal_page_token(SIGNER, BINDING, page, now=NOW), BINDING, now=NOW) == page
