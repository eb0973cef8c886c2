"""Recipients see granted entries in order, and no difference between ungranted and absent ones."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog import keys
from deltaic.catalog.writes import update
from deltaic.errors import NotFound, TableUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog
    from deltaic.catalog.reader import CatalogReader

LOCATION = "s3://bucket/some/table"
UNKNOWN = "does not exist, please contact your share provider for further information."


@pytest.fixture
def alice(catalog: Catalog) -> str:
    """Return the id of a recipient that holds share `Mine`, with two schemas; `Other` is not granted to it."""
    admin = catalog.admin
    for share in ("Mine", "Other"):
        admin.shares.create(share)
        for schema in ("B", "a"):
            admin.schemas.create(share, schema)
            for table in ("t2", "T1"):
                admin.tables.create(share, schema, table, LOCATION)
    recipient = admin.recipients.create("alice")
    admin.grants.create("alice", "mine")
    return recipient.id


def test_listings_contain_granted_entries_in_the_order_of_keys(catalog: Catalog, alice: str) -> None:
    reader = catalog.reader
    assert [share.name for share in reader.list_shares(alice, None, 501)] == ["Mine"]
    assert [schema.name for schema in reader.list_schemas(alice, "MINE", None, 501)] == ["a", "B"]
    assert [table.name for table in reader.list_tables(alice, "mine", "A", None, 501)] == ["T1", "t2"]
    everything = reader.list_tables(alice, "mine", None, None, 501)
    assert [f"{table.schema_name}.{table.name}" for table in everything] == ["a.T1", "a.t2", "B.T1", "B.t2"]
    assert {(table.share, table.location) for table in everything} == {("Mine", LOCATION)}


@pytest.mark.parametrize(("reason", "expected"), [("", ["T1", "t2"]), ("its log has a gap", ["T1"])])
def test_table_with_a_hidden_reason_is_not_listed(
    catalog: Catalog, alice: str, reason: str, expected: list[str]
) -> None:
    key = keys.asset("table", "mine", "a", "t2")
    catalog.dynamo.transact([update(catalog.catalog_table, key, assign={"unlisted": reason})])
    assert [table.name for table in catalog.reader.list_tables(alice, "mine", "a", None, 501)] == expected
    with nullcontext() if "t2" in expected else pytest.raises(NotFound):
        assert catalog.reader.get_table(alice, "mine", "a", "t2").table.name == "t2"


def test_unknown_recipient_sees_no_shares(catalog: Catalog, alice: str) -> None:
    assert catalog.reader.list_shares(f"{alice}x", None, 501) == []


def test_look_ups_ignore_case_and_return_the_original_spelling(catalog: Catalog, alice: str) -> None:
    table = catalog.reader.get_table(alice, "mINE", "b", "t1").table
    assert (table.share, table.schema_name, table.name) == ("Mine", "B", "T1")
    assert catalog.reader.get_share(alice, "mine").name == "Mine"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(lambda r, a, s: r.get_share(a, s), "share '{share}' not found", id="share"),
        pytest.param(lambda r, a, s: r.list_schemas(a, s, None, 9), "share '{share}' not found", id="schemas"),
        pytest.param(lambda r, a, s: r.list_tables(a, s, "A", None, 9), "share '{share}' not found", id="tables"),
        pytest.param(lambda r, a, s: r.list_tables(a, s, None, None, 9), "share '{share}' not found", id="all-tables"),
        pytest.param(
            lambda r, a, s: r.get_table(a, s, "A", "T1"), f"[Share/Schema/Table] '{{share}}/A/T1' {UNKNOWN}", id="table"
        ),
    ],
)
def test_ungranted_entry_looks_like_an_absent_one(
    catalog: Catalog, alice: str, ask: Callable[[CatalogReader, str, str], object], message: str
) -> None:
    requests: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def count(request: Any, **_: Any) -> None:
        requests.append(request.headers["X-Amz-Target"])

    events.register("before-send.dynamodb", count)
    costs = []
    try:
        for share in ("OTHER", "Nowhere"):
            requests.clear()
            with pytest.raises(NotFound) as refusal:
                ask(catalog.reader, alice, share)
            assert refusal.value.message == message.format(share=share)
            costs.append(list(requests))
    finally:
        events.unregister("before-send.dynamodb", count)
    assert costs[0] == costs[1]
    assert len(costs[0]) == 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(lambda r, a: r.list_tables(a, "mine", "No", None, 9), "schema 'No' not found", id="schema"),
        pytest.param(lambda r, a: r.get_table(a, "mine", "No", "t1"), f"'mine/No/t1' {UNKNOWN}", id="table-schema"),
        pytest.param(lambda r, a: r.get_table(a, "mine", "a", "No"), f"'mine/a/No' {UNKNOWN}", id="table"),
    ],
)
def test_missing_entry_of_a_granted_share_is_named(
    catalog: Catalog, alice: str, ask: Callable[[CatalogReader, str], object], message: str
) -> None:
    with pytest.raises(NotFound) as refusal:
        ask(catalog.reader, alice)
    assert refusal.value.message.endswith(message)


@pytest.mark.parametrize(
    "name",
    ["", " ", "mine/a", "/", "mine\0", "\ud800", "x" * 5000, "\U0001f600" * 600, "mine0", "ßß", "mine/../mine"],
    ids=ascii,
)
def test_any_unknown_name_is_not_found(catalog: Catalog, alice: str, name: str) -> None:
    reader = catalog.reader
    for ask in (
        lambda: reader.get_share(alice, name),
        lambda: reader.list_schemas(alice, name, None, 9),
        lambda: reader.list_tables(alice, "mine", name, None, 9),
        lambda: reader.get_table(alice, "mine", "a", name),
        lambda: reader.get_table(alice, "mine", name, "t1"),
        lambda: reader.get_table(alice, name, "a", "t1"),
        lambda: reader.get_share(name, "mine"),
    ):
        with pytest.raises(NotFound):
            ask()
    assert reader.list_shares(name, None, 9) == []


def test_grant_of_a_deleted_share_does_not_end_the_listing(catalog: Catalog, alice: str) -> None:
    for name in ("m1", "m2", "m3", "m4"):
        catalog.admin.shares.create(name)
        catalog.admin.grants.create("alice", name)
    for name in ("m1", "m2"):
        catalog.dynamo.client.delete_item(
            TableName=catalog.catalog_table, Key={"pk": {"S": "shares"}, "sk": {"S": f"share/{name}"}}
        )
    assert [share.name for share in catalog.reader.list_shares(alice, None, 3)] == ["m3", "m4", "Mine"]
    assert [share.name for share in catalog.reader.list_shares(alice, "m1", 1)] == ["m3"]


def test_listing_continues_beyond_one_megabyte(catalog: Catalog, alice: str) -> None:
    comment = "\U0001f600" * 65_000
    for number in range(6):
        catalog.admin.schemas.create("mine", f"wide{number}", comment=comment)
    assert len(catalog.reader.list_schemas(alice, "mine", None, 501)) == 8


@pytest.mark.slow
def test_listing_has_more_shares_than_one_batch(catalog: Catalog) -> None:
    alice = catalog.admin.recipients.create("alice").id
    for number in range(101):
        catalog.admin.shares.create(f"s{number:03}")
        catalog.admin.grants.create("alice", f"s{number:03}")
    names = [share.name for share in catalog.reader.list_shares(alice, None, 501)]
    assert names == [f"s{number:03}" for number in range(101)]


def test_table_without_its_storage_is_unreadable(catalog: Catalog) -> None:
    storage = catalog.admin.storages.create("MinIO", endpoint="http://minio:9000")
    assert catalog.reader.get_storage("minio") == storage
    with pytest.raises(TableUnreadable):
        catalog.reader.get_storage("other")
