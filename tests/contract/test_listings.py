"""Listings: shares, schemas and tables of a recipient, in name order, in pages of any size."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from contract.recipient import Recipient, Reply
from contract.server import Server
from deltaic.protocol.sealed_tokens import TokenSigner

SHARES = ["share1", "share2", "share5", "share6", "share7", "share8", "share9"]
LISTINGS = {
    "shares": "/shares",
    "schemas": "/shares/share7/schemas",
    "tables": "/shares/share8/schemas/default/tables",
    "all-tables": "/shares/share7/all-tables",
}
listings = pytest.mark.parametrize("path", LISTINGS.values(), ids=LISTINGS)
INVALID = (400, "INVALID_PARAMETER_VALUE")


def names(reply: Reply) -> list[str]:
    assert reply.status == 200
    return [item["name"] for item in reply.json["items"]]


def pages(recipient: Recipient, path: str, size: int) -> list[list[dict[str, Any]]]:
    """Follow the tokens from the first page to the last."""
    pages_: list[list[dict[str, Any]]] = []
    token = None
    while token or not pages_:
        reply = recipient.get(f"{path}?maxResults={size}" + (f"&pageToken={quote(token)}" if token else ""))
        pages_.append(reply.json["items"])
        token = reply.json.get("nextPageToken")
    return pages_


def token_of(recipient: Recipient, path: str) -> str:
    token = recipient.get(f"{path}?maxResults=1").json["nextPageToken"]
    assert isinstance(token, str)
    return token


def test_granted_shares_are_listed_in_name_order(alice: Recipient) -> None:
    reply = alice.get("/shares")
    assert names(reply) == SHARES
    assert list(reply.json) == ["items"]


def test_a_share_has_the_providers_comment(alice: Recipient, server: Server) -> None:
    items = {item["name"]: item for item in alice.get("/shares").json["items"]}
    shares = {share.name: share for share in server.admin.shares.list()}
    assert items["share1"] == {"name": "share1", "id": shares["share1"].id}
    assert items["share6"] == {
        "name": "share6",
        "id": shares["share6"].id,
        "displayName": "Six",
        "comment": "no schemas",
        "properties": {"kind": "empty"},
    }
    for name, item in items.items():
        assert alice.get(f"/shares/{name}").json == {"share": item}


def test_a_recipient_without_grants_sees_an_empty_list(server: Server) -> None:
    reply = server.recipient("carol").get("/shares")
    assert (reply.status, reply.json) == (200, {"items": []})


def test_schemas_of_a_share_are_listed(alice: Recipient) -> None:
    assert alice.get("/shares/share1/schemas").json == {"items": [{"name": "default", "share": "share1"}]}
    assert names(alice.get("/shares/share7/schemas")) == ["schema1", "schema2"]
    assert alice.get("/shares/share6/schemas").json == {"items": []}


def test_tables_of_a_schema_are_listed(alice: Recipient, server: Server) -> None:
    share = next(share for share in server.admin.shares.list() if share.name == "share1")
    ids = {table.name: table.id for table in server.admin.tables.list("share1")}
    assert alice.get("/shares/share1/schemas/default/tables").json == {
        "items": [
            {
                "name": name,
                "schema": "default",
                "share": "share1",
                "shareId": share.id,
                "id": ids[name],
                "accessModes": ["url"],
            }
            for name in ("table1", "table3")
        ]
    }
    assert alice.get("/shares/share5/schemas/default/tables").json == {"items": []}


def test_a_table_with_directory_access_has_its_location(alice: Recipient) -> None:
    tables = alice.get("/shares/share8/all-tables").json["items"]
    (entry,) = [table for table in tables if table["name"] == "directory_only"]
    assert entry["location"] == "s3://deltaic-lake/table1"
    assert entry["auxiliaryLocations"] == ["s3://elsewhere/more"]
    assert entry["accessModes"] == ["dir"]
    assert not any("location" in table for table in tables if table is not entry)


def test_all_tables_of_a_share_are_listed(alice: Recipient) -> None:
    reply = alice.get("/shares/share7/all-tables")
    assert [(item["name"], item["schema"], item["share"]) for item in reply.json["items"]] == [
        ("table8", "schema1", "share7"),
        ("table9", "schema2", "share7"),
    ]
    assert alice.get("/shares/share5/all-tables").json == {"items": []}
    assert alice.get("/shares/share6/all-tables").json == {"items": []}


@listings
def test_pages_of_any_size_join_to_the_complete_result(alice: Recipient, path: str) -> None:
    items = alice.get(path).json["items"]
    for size in range(1, len(items) + 2):
        pages_ = pages(alice, path, size)
        assert [item for page in pages_ for item in page] == items
        assert len(pages_) == -(-len(items) // size)


@listings
def test_an_empty_page_continues_at_the_same_position(alice: Recipient, path: str) -> None:
    empty = alice.get(f"{path}?maxResults=0").json
    assert empty["items"] == []
    repeated = alice.get(f"{path}?maxResults=0&pageToken={empty['nextPageToken']}").json
    assert repeated["items"] == []
    following = alice.get(f"{path}?pageToken={repeated['nextPageToken']}").json
    assert following == alice.get(path).json


@listings
@pytest.mark.parametrize("size", ["-1", "501", "2147483647"])
def test_page_sizes_out_of_range_are_refused(alice: Recipient, path: str, size: str) -> None:
    alice.get(f"{path}?maxResults={size}").refused(*INVALID, "maxResults", "0 to 500")


@listings
@pytest.mark.parametrize("size", ["abc", "", "1.5", "2147483648", "%31%20", "1e2", "%D9%A1"])
def test_page_sizes_that_are_not_numbers_are_refused(alice: Recipient, path: str, size: str) -> None:
    text = "expected a number but the string didn't have the appropriate format"
    alice.get(f"{path}?maxResults={size}").refused(*INVALID, text)


@pytest.mark.parametrize("size", [1, 500])
def test_page_sizes_in_range_are_accepted(alice: Recipient, size: int) -> None:
    assert names(alice.get(f"/shares?maxResults={size}")) == SHARES[:size]


@listings
@pytest.mark.parametrize("token", [":", "a1b", "%00", "%2B%2F%3D%3D", "x" * 20_000], ids=lambda text: text[:9])
def test_texts_that_are_not_tokens_are_refused(alice: Recipient, path: str, token: str) -> None:
    alice.get(f"{path}?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")


@pytest.mark.parametrize("issued", LISTINGS)
@pytest.mark.parametrize("used", LISTINGS)
def test_a_page_token_is_valid_only_for_its_listing(alice: Recipient, issued: str, used: str) -> None:
    reply = alice.get(f"{LISTINGS[used]}?pageToken={token_of(alice, LISTINGS[issued])}")
    if issued == used:
        assert reply.status == 200
    else:
        reply.refused(*INVALID, "invalid 'nextPageToken'")


def test_a_token_of_another_share_is_refused(alice: Recipient) -> None:
    token = token_of(alice, "/shares/share7/all-tables")
    alice.get(f"/shares/share8/all-tables?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")


def test_a_token_of_another_recipient_is_refused(alice: Recipient, server: Server) -> None:
    token = token_of(alice, "/shares")
    server.recipient("bob").get(f"/shares?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")


@listings
def test_a_truncated_or_edited_token_is_refused(alice: Recipient, path: str) -> None:
    token = token_of(alice, path)
    edited = [token[:-1], token[1:], token + "A", token + "="]
    edited += [token[:at] + ("B" if token[at] == "A" else "A") + token[at + 1 :] for at in (0, 20, 43, 60, -1)]
    for text in edited:
        alice.get(f"{path}?pageToken={text}").refused(*INVALID, "invalid 'nextPageToken'")


@listings
def test_an_expired_token_is_refused(alice: Recipient, path: str, reseal: Callable[[str, str, timedelta], str]) -> None:
    token = token_of(alice, path)
    assert alice.get(f"{path}?pageToken={reseal('list', token, timedelta(hours=1))}").status == 200
    expired = reseal("list", token, timedelta(seconds=-1))
    alice.get(f"{path}?pageToken={expired}").refused(*INVALID, "invalid 'nextPageToken'")


def test_a_page_token_with_another_key_is_refused(alice: Recipient) -> None:
    foreign = TokenSigner(b"0" * 64).seal("list", {"listing": {}, "after": None}, ttl=timedelta(days=1), now=2e9)
    alice.get(f"/shares?pageToken={foreign}").refused(*INVALID, "invalid 'nextPageToken'")


def test_an_empty_page_token_is_ignored(alice: Recipient) -> None:
    assert alice.get("/shares?pageToken=").json == alice.get("/shares").json


def test_names_are_case_insensitive_and_returned_as_stored(alice: Recipient) -> None:
    assert alice.get("/shares/sHare1").json == alice.get("/shares/share1").json
    assert alice.get("/shares/SHARE7/schemas").json == alice.get("/shares/share7/schemas").json
    assert (
        alice.get("/shares/sHare1/schemas/deFault/tables").json
        == alice.get("/shares/share1/schemas/default/tables").json
    )
    token = token_of(alice, "/shares/share7/all-tables")
    assert names(alice.get(f"/shares/Share7/all-tables?pageToken={token}")) == ["table9"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/shares/nope", "share 'nope' not found"),
        ("/shares/nope/schemas", "share 'nope' not found"),
        ("/shares/nope/all-tables", "share 'nope' not found"),
        ("/shares/nope/schemas/default/tables", "share 'nope' not found"),
        ("/shares/share1/schemas/nope/tables", "schema 'nope' not found"),
        ("/shares/NoPe", "share 'NoPe' not found"),
    ],
)
def test_missing_entries_are_404_with_their_name(alice: Recipient, path: str, message: str) -> None:
    reply = alice.get(path)
    reply.refused(404, "RESOURCE_DOES_NOT_EXIST")
    assert json.loads(reply.body)["message"] == message
