"""Filters and hidden columns: validation, both items of a grant, and conflicts with directory access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog import keys
from deltaic.catalog.items import Grant, Table
from deltaic.errors import InvalidParameter, NotFound
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

LOCATION = "s3://bucket/some/table"
ROWS = "region = current_recipient('region') AND year >= 2024"


@pytest.fixture
def admin(catalog: Catalog) -> CatalogAdmin:
    """Return a catalog with a share, a schema and a recipient with a grant."""
    admin = catalog.admin
    admin.shares.create("Sales")
    admin.schemas.create("sales", "europe")
    admin.recipients.create("Alice")
    admin.grants.create("alice", "sales")
    return admin


def sides(catalog: Catalog, recipient_id: str, share: str) -> list[dict[str, Any]]:
    """Return both items of a grant, by recipient and by share, without their keys."""
    both = [keys.recipient_entry("grant", recipient_id, share), keys.share_entry("grant", share, recipient_id)]
    items = catalog.dynamo.batch_get(catalog.catalog_table, both)
    return [{name: value for name, value in items[key].items() if name not in {"pk", "sk"}} for key in both]


def test_table_keeps_its_filter_and_hidden_columns(admin: CatalogAdmin) -> None:
    table = admin.tables.create(
        "sales", "europe", "orders", LOCATION, partition_filter=ROWS, hidden_columns=["Region", "team", "REGION"]
    )
    assert (table.partition_filter, table.hidden_columns) == (ROWS, ("Region", "team"))
    assert admin.tables.get("sales", "europe", "orders") == table
    assert admin.tables.update("sales", "europe", "orders", history=True) == replace(table, history=True)
    changed = admin.tables.update("sales", "europe", "orders", partition_filter="year = 1", hidden_columns=["year"])
    assert (changed.partition_filter, changed.hidden_columns) == ("year = 1", ("year",))
    cleared = admin.tables.update("sales", "europe", "orders", partition_filter=" ", hidden_columns=[])
    assert (cleared.partition_filter, cleared.hidden_columns) == ("", ())
    assert admin.tables.get("sales", "europe", "orders") == cleared


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"access_modes": ["url", "dir"], "partition_filter": ROWS}, "'url' only", id="filter and dir"),
        pytest.param({"access_modes": ["dir"], "hidden_columns": ["region"]}, "'url' only", id="hidden and dir"),
        pytest.param({"partition_filter": "region ="}, "at character 9", id="what is no filter"),
        pytest.param({"hidden_columns": ["region", ""]}, "empty", id="a column without a name"),
    ],
)
def test_invalid_settings_are_refused_and_leave_no_items(
    catalog: Catalog, admin: CatalogAdmin, change: dict[str, Any], message: str
) -> None:
    admin.tables.create("sales", "europe", "there", LOCATION)
    before = catalog.items()
    with pytest.raises(InvalidParameter, match=message):
        admin.tables.create("sales", "europe", "orders", LOCATION, **change)
    with pytest.raises(InvalidParameter, match=message):
        admin.tables.update("sales", "europe", "there", **change)
    assert catalog.items() == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"partition_filter": ROWS}, {"access_modes": ["url", "dir"]}),
        ({"hidden_columns": ["region"]}, {"access_modes": ["dir"]}),
        ({"access_modes": ["url", "dir"]}, {"partition_filter": ROWS}),
        ({"access_modes": ["dir"]}, {"hidden_columns": ["region"]}),
    ],
)
def test_directory_access_and_filters_exclude_each_other(
    admin: CatalogAdmin, first: dict[str, Any], then: dict[str, Any]
) -> None:
    table = admin.tables.create("sales", "europe", "orders", LOCATION, **first)
    with pytest.raises(InvalidParameter, match="whole folder"):
        admin.tables.update("sales", "europe", "orders", **then)
    assert admin.tables.get("sales", "europe", "orders") == table
    both: dict[str, Any] = {"partition_filter": "", "hidden_columns": (), "access_modes": ["url"]} | then
    assert admin.tables.update("sales", "europe", "orders", **both).id == table.id


def test_filters_of_a_view_cannot_be_changed(catalog: Catalog, admin: CatalogAdmin) -> None:
    table = admin.tables.create("sales", "europe", "view", LOCATION, hidden_columns=["_deltaic_policy"])
    key = keys.asset("table", "sales", "europe", "view")
    catalog.dynamo.client.update_item(
        TableName=catalog.catalog_table,
        Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
        UpdateExpression="SET view_properties = :none",
        ExpressionAttributeValues={":none": {"L": []}},
    )
    elsewhere = "s3://bucket/elsewhere"
    changes: list[dict[str, Any]] = [{"partition_filter": ""}, {"hidden_columns": []}, {"location": elsewhere}]
    for change in changes:
        with pytest.raises(InvalidParameter, match="is a view"):
            admin.tables.update("sales", "europe", "view", **change)
    changed = admin.tables.update("sales", "europe", "view", history=True)
    assert changed == replace(table, view_properties=(), history=True)


def test_validated_table_is_stored_or_refused(catalog: Catalog, admin: CatalogAdmin) -> None:
    calls: list[tuple[Table, Table | None]] = []

    def validate(new: Table, before: Table | None) -> Table:
        calls.append((new, before))
        if new.location == "s3://bucket/other":
            raise InvalidParameter("it does not fit")
        return replace(new, hidden_columns=tuple(name.upper() for name in new.hidden_columns))

    table = admin.tables.create("sales", "europe", "t", f"{LOCATION}/", hidden_columns=["a"], validate=validate)
    assert (table.hidden_columns, table.location) == (("A",), LOCATION)
    assert calls == [(replace(table, hidden_columns=("a",)), None)]
    changed = admin.tables.update("sales", "europe", "t", hidden_columns=["b"], validate=validate)
    assert changed.hidden_columns == ("B",)
    assert calls[1:] == [(replace(table, hidden_columns=("b",)), table)]
    before = catalog.items()
    with pytest.raises(InvalidParameter, match="does not fit"):
        admin.tables.create("sales", "europe", "u", "s3://bucket/other", validate=validate)
    with pytest.raises(InvalidParameter, match="does not fit"):
        admin.tables.update("sales", "europe", "t", location="s3://bucket/other", validate=validate)
    assert catalog.items() == before


def test_filter_of_a_grant_is_stored_in_both_items(catalog: Catalog, admin: CatalogAdmin) -> None:
    bob = admin.recipients.create("bob")
    new_grant = admin.grants.create("BOB", "SALES", partition_filter=ROWS)
    assert new_grant.partition_filter == ROWS
    for filter_ in ("region = 'EU'", "", "year BETWEEN 1 AND 2"):
        changed = admin.grants.update("Bob", "Sales", partition_filter=filter_)
        assert changed == replace(new_grant, partition_filter=filter_)
        with_recipient, with_share = sides(catalog, bob.id, "sales")
        assert with_recipient == with_share
        assert Grant.read(with_share) == changed
    assert [grant.partition_filter for grant in admin.grants.of_share("sales")].count("year BETWEEN 1 AND 2") == 1
    assert admin.grants.get("alice", "sales").partition_filter == ""
    admin.grants.revoke("bob", "sales")
    assert admin.grants.create("bob", "sales").partition_filter == ""


@pytest.mark.parametrize(
    ("act", "refusal"),
    [
        pytest.param(
            lambda admin: admin.grants.create("bob", "sales", partition_filter="a ="), InvalidParameter, id="create"
        ),
        pytest.param(
            lambda admin: admin.grants.update("alice", "sales", partition_filter="a ="), InvalidParameter, id="update"
        ),
        pytest.param(lambda admin: admin.grants.update("bob", "sales", partition_filter=ROWS), NotFound, id="no grant"),
        pytest.param(lambda admin: admin.grants.update("eve", "sales", partition_filter=ROWS), NotFound, id="nobody"),
    ],
)
def test_refused_filter_leaves_the_grant_unchanged(
    catalog: Catalog, admin: CatalogAdmin, act: Callable[[CatalogAdmin], object], refusal: type[Exception]
) -> None:
    admin.recipients.create("bob")
    before = catalog.items()
    with pytest.raises(refusal):
        act(admin)
    assert catalog.items() == before


def test_properties_are_stored_with_the_id_too(catalog: Catalog, admin: CatalogAdmin) -> None:
    recipient = admin.recipients.create("bob", properties={"region": "EU"})
    by_id = keys.recipient_id(recipient.id)

    def stored_properties() -> Any:
        return catalog.dynamo.batch_get(catalog.catalog_table, [by_id])[by_id]["properties"]

    assert stored_properties() == {"region": "EU"}
    admin.recipients.update("BOB", add_properties={"teams": '["a","b"]'}, remove_properties=("region",))
    assert stored_properties() == {"teams": '["a","b"]'}
    admin.recipients.update("bob", comment="nothing else")
    assert stored_properties() == admin.recipients.get("bob").properties == {"teams": '["a","b"]'}


UNFILTERED: dict[str, Any] = {"access_modes": ["dir"], "history": True}
FILTERED: dict[str, Any] = {"partition_filter": ROWS}
LAKE = "s3://lake/all"


def create_other_share(admin: CatalogAdmin) -> None:
    """Create a share `raw` without grants, and storages: one store twice, another store, another role."""
    admin.shares.create("raw")
    admin.schemas.create("raw", "d")
    admin.storages.create("one", endpoint="http://minio:9000")
    admin.storages.create("same", endpoint="http://inner:9000", public_endpoint="http://MINIO:9000/")
    admin.storages.create("other", endpoint="http://elsewhere:9000")
    admin.storages.create("partner", role_arn="arn:aws:iam::123456789012:role/shares")
    admin.storages.create("Named", endpoint="https://s3.eu-west-1.amazonaws.com")


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        pytest.param({"location": LAKE}, {"location": f"{LAKE}/orders"}, id="below"),
        pytest.param({"location": f"{LAKE}/orders/x"}, {"location": f"{LAKE}/orders"}, id="above"),
        pytest.param({"location": "s3a://lake"}, {"location": f"{LAKE}/orders"}, id="a whole bucket"),
        pytest.param(
            {"location": "s3://clones/x", "auxiliary_locations": [LAKE]},
            {"location": LAKE},
            id="by an auxiliary location",
        ),
        pytest.param(
            {"location": LAKE},
            {"location": "s3://clones/x", "auxiliary_locations": [f"{LAKE}/sources"]},
            id="its auxiliary location",
        ),
        pytest.param(
            {"location": LAKE, "storage": "one"}, {"location": f"{LAKE}/t", "storage": "same"}, id="one store twice"
        ),
        pytest.param({"location": LAKE, "storage": "partner"}, {"location": f"{LAKE}/t"}, id="by another role"),
        pytest.param({"location": LAKE}, {"location": f"{LAKE}/t", "storage": "named"}, id="AWS by its name"),
        pytest.param({"location": LAKE}, {"location": f"{LAKE}/t", "hidden_columns": ["a"]}, id="hidden columns"),
    ],
)
def test_folder_that_exposes_a_filtered_table_is_refused_in_either_order(
    catalog: Catalog, admin: CatalogAdmin, wide: dict[str, Any], narrow: dict[str, Any]
) -> None:
    create_other_share(admin)
    narrow = narrow if "hidden_columns" in narrow else FILTERED | narrow
    both: list[tuple[tuple[str, str, str], dict[str, Any], dict[str, Any]]] = [
        (("raw", "d", "wide"), UNFILTERED | wide, {"access_modes": ["url"]}),
        (("sales", "europe", "part"), narrow, {"partition_filter": "", "hidden_columns": []}),
    ]
    for first, second in (both, both[::-1]):
        admin.tables.create(*first[0], **first[1])
        before = catalog.items()
        with pytest.raises(
            InvalidParameter, match=r"'raw\.d\.wide' has access mode 'dir'.* 'Sales\.europe\.part'"
        ) as refused:
            admin.tables.create(*second[0], **second[1])
        assert "share 'raw.d.wide' by access mode 'url' only, or move one of them" in refused.value.message
        assert catalog.items() == before
        admin.tables.create(*second[0], **{**second[1], **second[2]})
        with pytest.raises(InvalidParameter, match=r"'raw\.d\.wide' has access mode 'dir'"):
            admin.tables.update(*second[0], **{name: second[1][name] for name in second[2] if name in second[1]})
        assert list(admin.tables.overlaps.conflicts()) == []
        admin.tables.delete(*first[0])
        admin.tables.delete(*second[0])


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        pytest.param({"location": LAKE}, {"location": f"{LAKE}ways"}, id="a sibling that begins alike"),
        pytest.param({"location": LAKE}, {"location": "s3://bucket/all/t"}, id="another bucket"),
        pytest.param({"location": LAKE}, {"location": f"{LAKE}/t", "storage": "other"}, id="another store"),
        pytest.param({"location": LAKE}, {"location": LAKE}, id="the very table, on purpose"),
        pytest.param({"location": LAKE, "access_modes": ["url"]}, {"location": f"{LAKE}/t"}, id="not by its folder"),
        pytest.param({"location": LAKE}, {"location": f"{LAKE}/t", "partition_filter": ""}, id="all of it is shared"),
    ],
)
def test_separate_folders_are_allowed(admin: CatalogAdmin, wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    create_other_share(admin)
    admin.tables.create("raw", "d", "wide", **UNFILTERED | wide)
    admin.tables.create("sales", "europe", "part", **FILTERED | narrow)
    assert list(admin.tables.overlaps.conflicts()) == []


def test_folder_that_exposes_a_view_or_a_filtered_grant_is_refused(admin: CatalogAdmin) -> None:
    create_other_share(admin)
    admin.tables.create("sales", "europe", "orders", f"{LAKE}/orders")
    admin.tables.create("raw", "d", "wide", **UNFILTERED, location=LAKE)
    admin.tables.create("sales", "europe", "source", "s3://elsewhere/t")
    for location in (LAKE, f"{LAKE}/views/x"):
        with pytest.raises(InvalidParameter, match=r"'raw\.d\.wide' has access mode 'dir'.* 'Sales\.europe\.mine'"):
            admin.views.create(
                "sales", "europe", "mine", location, source="sales.europe.source", sql="SELECT 1", properties=[]
            )
    admin.recipients.create("bob")
    grants: tuple[Callable[[], object], ...] = (
        lambda: admin.grants.create("bob", "sales", partition_filter=ROWS),
        lambda: admin.grants.update("alice", "sales", partition_filter=ROWS),
    )
    for grant in grants:
        with pytest.raises(InvalidParameter, match=r"'raw\.d\.wide' has access mode 'dir'.* 'Sales\.europe\.orders'"):
            grant()
    admin.tables.update("raw", "d", "wide", access_modes=["url"])
    admin.grants.create("bob", "sales", partition_filter=ROWS)
    changes: tuple[Callable[[], object], ...] = (
        lambda: admin.tables.update("raw", "d", "wide", access_modes=["dir"]),
        lambda: admin.tables.create("raw", "d", "more", **UNFILTERED, location=LAKE),
    )
    for change in changes:
        with pytest.raises(InvalidParameter, match=r"has access mode 'dir'.* 'Sales\.europe\.orders'"):
            change()
    admin.tables.delete("sales", "europe", "orders")
    admin.tables.update("raw", "d", "wide", access_modes=["dir"])
    with pytest.raises(InvalidParameter, match=r"has access mode 'dir'.* 'Sales\.europe\.orders'"):
        admin.tables.create("sales", "europe", "orders", f"{LAKE}/orders")


def test_folder_of_an_unfiltered_table_is_compared_only_with_tables(catalog: Catalog, admin: CatalogAdmin) -> None:
    operations: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def count(request: Any, **_: Any) -> None:
        operations.append(request.headers["X-Amz-Target"].decode().rpartition(".")[2])

    for share in ("second", "third"):
        admin.shares.create(share)
    events.register("before-send.dynamodb", count)
    try:
        admin.tables.create("sales", "europe", "orders", LOCATION, access_modes=["dir"])
    finally:
        events.unregister("before-send.dynamodb", count)
    # The grants of the table's share, all shares, and the tables of each of the three.
    assert operations.count("Query") == 1 + 1 + 3
