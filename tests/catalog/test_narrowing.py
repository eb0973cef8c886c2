"""Filters and hidden columns: what parses is kept, on both sides of a grant, and not beside directory access."""

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
    from deltaic.catalog.admin import CatalogAdmin

LOCATION = "s3://bucket/some/table"
ROWS = "region = current_recipient('region') AND year >= 2024"


@pytest.fixture
def admin(catalog: Catalog) -> CatalogAdmin:
    """Return a catalog with a share, a schema and a recipient who holds the share."""
    admin = catalog.admin
    admin.shares.create("Sales")
    admin.schemas.create("sales", "europe")
    admin.recipients.create("Alice")
    admin.grants.create("alice", "sales")
    return admin


def sides(catalog: Catalog, recipient_id: str, share: str) -> list[dict[str, Any]]:
    """Return a grant as it lies with its recipient and with its share, without its keys."""
    both = [keys.grant(recipient_id, share), keys.grantee(share, recipient_id)]
    found = catalog.dynamo.batch_get(catalog.catalog_table, both)
    return [{name: value for name, value in found[key].items() if name not in {"pk", "sk"}} for key in both]


def test_a_table_keeps_its_filter_and_its_hidden_columns(admin: CatalogAdmin) -> None:
    made = admin.tables.create(
        "sales", "europe", "orders", LOCATION, partition_filter=ROWS, hidden_columns=["Region", "team", "REGION"]
    )
    assert (made.partition_filter, made.hidden_columns) == (ROWS, ("Region", "team"))
    assert admin.tables.get("sales", "europe", "orders") == made
    assert admin.tables.update("sales", "europe", "orders", history=True) == replace(made, history=True)
    changed = admin.tables.update("sales", "europe", "orders", partition_filter="year = 1", hidden_columns=["year"])
    assert (changed.partition_filter, changed.hidden_columns) == ("year = 1", ("year",))
    opened = admin.tables.update("sales", "europe", "orders", partition_filter=" ", hidden_columns=[])
    assert (opened.partition_filter, opened.hidden_columns) == ("", ())
    assert admin.tables.get("sales", "europe", "orders") == opened


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"access_modes": ["url", "dir"], "partition_filter": ROWS}, "'url' alone", id="filter and dir"),
        pytest.param({"access_modes": ["dir"], "hidden_columns": ["region"]}, "'url' alone", id="hidden and dir"),
        pytest.param({"partition_filter": "region ="}, "at character 9", id="what is no filter"),
        pytest.param({"hidden_columns": ["region", ""]}, "empty", id="a column without a name"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
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
def test_directory_access_and_what_keeps_back_exclude_each_other_whichever_was_first(
    admin: CatalogAdmin, first: dict[str, Any], then: dict[str, Any]
) -> None:
    made = admin.tables.create("sales", "europe", "orders", LOCATION, **first)
    with pytest.raises(InvalidParameter, match="whole folder"):
        admin.tables.update("sales", "europe", "orders", **then)
    assert admin.tables.get("sales", "europe", "orders") == made
    both: dict[str, Any] = {"partition_filter": "", "hidden_columns": (), "access_modes": ["url"]} | then
    assert admin.tables.update("sales", "europe", "orders", **both).id == made.id


def test_what_a_view_shares_is_its_sqls_to_say(catalog: Catalog, admin: CatalogAdmin) -> None:
    made = admin.tables.create("sales", "europe", "view", LOCATION, hidden_columns=["_deltaic_policy"])
    key = keys.table("sales", "europe", "view")
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
    assert changed == replace(made, view_properties=(), history=True)


def test_what_is_fitted_is_stored_as_it_fits_or_not_at_all(catalog: Catalog, admin: CatalogAdmin) -> None:
    seen: list[tuple[Table, Table | None]] = []

    def fit(wanted: Table, before: Table | None) -> Table:
        seen.append((wanted, before))
        if wanted.location == "s3://bucket/other":
            raise InvalidParameter("it does not fit")
        return replace(wanted, hidden_columns=tuple(name.upper() for name in wanted.hidden_columns))

    made = admin.tables.create("sales", "europe", "t", f"{LOCATION}/", hidden_columns=["a"], fit=fit)
    assert (made.hidden_columns, made.location) == (("A",), LOCATION)
    assert seen == [(replace(made, hidden_columns=("a",)), None)]
    changed = admin.tables.update("sales", "europe", "t", hidden_columns=["b"], fit=fit)
    assert changed.hidden_columns == ("B",)
    assert seen[1:] == [(replace(made, hidden_columns=("b",)), made)]
    before = catalog.items()
    with pytest.raises(InvalidParameter, match="does not fit"):
        admin.tables.create("sales", "europe", "u", "s3://bucket/other", fit=fit)
    with pytest.raises(InvalidParameter, match="does not fit"):
        admin.tables.update("sales", "europe", "t", location="s3://bucket/other", fit=fit)
    assert catalog.items() == before


def test_a_grants_filter_is_the_same_on_both_sides(catalog: Catalog, admin: CatalogAdmin) -> None:
    bob = admin.recipients.create("bob")
    made = admin.grants.create("BOB", "SALES", partition_filter=ROWS)
    assert made.partition_filter == ROWS
    for filter_ in ("region = 'EU'", "", "year BETWEEN 1 AND 2"):
        changed = admin.grants.update("Bob", "Sales", partition_filter=filter_)
        assert changed == replace(made, partition_filter=filter_)
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
def test_a_grant_that_cannot_be_narrowed_stays_as_it_is(
    catalog: Catalog, admin: CatalogAdmin, act: Callable[[CatalogAdmin], object], refusal: type[Exception]
) -> None:
    admin.recipients.create("bob")
    before = catalog.items()
    with pytest.raises(refusal):
        act(admin)
    assert catalog.items() == before


def test_properties_lie_with_the_id_too(catalog: Catalog, admin: CatalogAdmin) -> None:
    made = admin.recipients.create("bob", properties={"region": "EU"})
    by_id = keys.recipient_id(made.id)

    def there() -> Any:
        return catalog.dynamo.batch_get(catalog.catalog_table, [by_id])[by_id]["properties"]

    assert there() == {"region": "EU"}
    admin.recipients.update("BOB", add_properties={"teams": '["a","b"]'}, remove_properties=("region",))
    assert there() == {"teams": '["a","b"]'}
    admin.recipients.update("bob", comment="nothing else")
    assert there() == admin.recipients.get("bob").properties == {"teams": '["a","b"]'}
