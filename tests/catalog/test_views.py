"""Views in the catalog: made and gone as a whole, never without the request that somebody's rows need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.view_partitions import AT_ONCE
from deltaic.catalog.items import ViewPartition, now
from deltaic.errors import AlreadyExists, Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import audience

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.items import View

SQL = "SELECT id FROM source WHERE site = current_recipient('site')"
PLACE = "s3://bucket/orders-views/mine"


def fill(admin: CatalogAdmin) -> None:
    """Make a share with a table to look at, and somebody who holds it."""
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    admin.tables.create("s", "d", "orders", "s3://bucket/orders")
    admin.recipients.create("alice", properties={"site": "Porto"})


def make(admin: CatalogAdmin, name: str = "mine", **more: Any) -> View:
    told: dict[str, Any] = {"source": "s.d.orders", "sql": SQL, "properties": ["site"], **more}
    return admin.views.create("s", "d", name, told.pop("location", f"{PLACE}-{name}"), **told)


def put(admin: CatalogAdmin, view: View, *audiences: str, since: int = 0) -> None:
    made = [
        ViewPartition(
            table_id=view.table_id, audience=each, since_version=since, values={"site": each}, created_at=now()
        )
        for each in audiences
    ]
    admin.views.partitions.put(admin.views.get(view.share, view.schema_name, view.name), made)


def audiences(admin: CatalogAdmin, view: View) -> list[str]:
    return [each.audience for each in admin.views.partitions.list(view.share, view.table_id)]


def site(name: str) -> str:
    found = audience(["site"], {"site": name})
    assert found is not None
    return found


def requested(admin: CatalogAdmin, name: str = "mine") -> bool:
    return admin.views.get("s", "d", name).requested_at is not None


def test_a_view_is_a_table_with_a_hidden_policy_and_what_it_is_made_of(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    made = make(admin, key=["id", "id"], refresh="rate(1 hour)", max_staleness=3600, history=True)
    assert admin.views.get("S", "D", "MINE") == made
    assert (made.source, made.sql, made.key, made.max_staleness) == ("s.d.orders", SQL, ("id",), 3600)
    assert (made.requested_at, made.refreshed_at, made.last_refresh) == (None, None, {})
    table = admin.views.table(made)
    assert (table.id, table.view_properties, table.hidden_columns) == (made.table_id, ("site",), ("_deltaic_policy",))
    assert (table.access_modes, table.history, table.location) == (("url",), True, f"{PLACE}-mine")
    assert [each.name for each in admin.tables.list("s")] == ["mine", "orders"]
    with pytest.raises(Conflict, match=r"2 table\(s\)"):
        admin.schemas.delete("s", "d")


@pytest.mark.parametrize(
    ("more", "refusal", "words"),
    [
        ({"name": "orders"}, AlreadyExists, "'s.d.orders' already"),
        ({"source": "s.d.nothing"}, NotFound, "'s.d.nothing' not found"),
        ({"source": "s.d.first"}, InvalidParameter, "a view itself"),
        ({"source": "s.d.stored"}, InvalidParameter, "storage 'minio', which jobs do not reach"),
        ({"location": "s3://bucket/orders/views"}, InvalidParameter, "choose a folder beside it"),
        ({"location": "s3://bucket"}, InvalidParameter, "choose a folder beside it"),
        ({"sql": " "}, InvalidParameter, "a view has SQL"),
        ({"key": [""]}, InvalidParameter, "key column is empty"),
        ({"max_staleness": -1}, InvalidParameter, "is -1"),
        ({"max_staleness": 10**14}, InvalidParameter, "ten years"),
        ({"name": "a.b"}, InvalidParameter, "a.b"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_what_cannot_be_a_view_is_refused_and_leaves_nothing(
    catalog: Catalog, more: dict[str, Any], refusal: type[Exception], words: str
) -> None:
    admin = catalog.admin
    fill(admin)
    admin.storages.create("minio", endpoint="http://minio:9000")
    admin.tables.create("s", "d", "stored", "s3://bucket/stored", storage="minio")
    make(admin, "first")
    before = catalog.items()
    with pytest.raises(refusal, match=words):
        make(admin, **more)
    assert catalog.items() == before


@pytest.mark.parametrize("by", ["view", "table", "schema", "share"])
def test_a_view_goes_with_all_that_belongs_to_it(catalog: Catalog, by: str) -> None:
    admin = catalog.admin
    fill(admin)
    before = catalog.items()
    made = make(admin)
    put(admin, made, *(f"p{number:03}" for number in range(AT_ONCE + 5)))
    assert len(audiences(admin, made)) == AT_ONCE + 5
    if by == "view":
        assert admin.views.delete("s", "d", "mine").id == made.table_id
    elif by == "table":
        admin.tables.delete("s", "d", "Mine")
    elif by == "schema":
        admin.schemas.delete("s", "d", force=True)
    else:
        admin.shares.delete("s", force=True)
    left = [item for item in catalog.items() if item["sk"]["S"].startswith(("view/", "variant/", "table/d/mine"))]
    assert left == []
    if by in {"view", "table"}:
        assert sorted(map(str, catalog.items())) == sorted(map(str, before))
        assert make(admin).table_id != made.table_id


def test_a_table_is_no_view(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    with pytest.raises(NotFound, match="deltaic table delete"):
        admin.views.delete("s", "d", "orders")
    with pytest.raises(NotFound):
        admin.views.get("s", "d", "orders")
    assert list(admin.views.list("s")) == []


@pytest.mark.parametrize(
    "change",
    [
        {"location": "s3://bucket/elsewhere"},
        {"auxiliary_locations": ["s3://bucket/more"]},
        {"access_modes": ["url", "dir"]},
        {"storage": ""},
        {"partition_filter": ""},
        {"hidden_columns": []},
    ],
    ids=lambda change: next(iter(change)),
)
def test_nothing_that_bounds_a_view_is_changed_of_its_entry(catalog: Catalog, change: dict[str, Any]) -> None:
    admin = catalog.admin
    fill(admin)
    make(admin)
    with pytest.raises(InvalidParameter, match="deltaic view update"):
        admin.tables.update("s", "d", "mine", **change)
    assert admin.tables.update("s", "d", "mine", history=True).history is True


def test_another_sql_takes_all_rights_until_the_refresh(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    made = make(admin)
    put(admin, made, *(f"p{number:03}" for number in range(AT_ONCE + 5)))
    admin.views.update("s", "d", "mine", sql=SQL, properties=["site"], max_staleness=60)
    assert (len(audiences(admin, made)), requested(admin)) == (AT_ONCE + 5, False)
    changed = admin.views.update("s", "d", "mine", sql="SELECT id FROM source", properties=[])
    assert (changed.sql, changed.max_staleness) == ("SELECT id FROM source", 60)
    assert (audiences(admin, made), requested(admin)) == ([], True)
    assert admin.views.table(changed).view_properties == ()
    with pytest.raises(Conflict, match="refresh it again"):
        admin.views.partitions.put(
            made, [ViewPartition(table_id=made.table_id, audience="p", since_version=0, values={}, created_at=now())]
        )
    with pytest.raises(InvalidParameter, match="comes with the properties"):
        admin.views.update("s", "d", "mine", sql=SQL)


def test_a_grant_asks_for_rows_that_are_not_there(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    made = make(admin)
    make(admin, "other", properties=["team"])
    admin.grants.create("alice", "s")
    assert (requested(admin), requested(admin, "other")) == (True, False), "who lacks a property sees no rows anyway"
    put(admin, made, site("Porto"))
    admin.views.record_refresh(admin.views.get("s", "d", "mine"), {"version": 0}, keep_request=False)
    assert not requested(admin)
    admin.recipients.create("bob", properties={"site": "Porto"})
    admin.grants.create("bob", "s")
    assert not requested(admin), "equal properties share rows"


def test_a_property_asks_for_rows_that_are_not_there(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    made = make(admin)
    put(admin, made, site("Porto"))
    admin.grants.create("alice", "s")
    admin.recipients.update("alice", comment="c", add_properties={"team": "x"})
    assert not requested(admin)
    admin.recipients.update("alice", add_properties={"site": "Turku"})
    assert requested(admin)
    admin.views.record_refresh(admin.views.get("s", "d", "mine"), {}, keep_request=False)
    admin.recipients.update("alice", remove_properties=("site",))
    assert not requested(admin)


def test_a_refresh_ends_only_the_request_that_it_saw(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    make(admin)
    read = admin.views.request_refresh("s", "d", "mine")
    again = admin.views.request_refresh("s", "d", "mine")
    assert read.requested_at is not None
    assert again.requested_at is not None
    assert again.requested_at > read.requested_at
    done = admin.views.record_refresh(read, {"version": 3, "sources": {"s.d.orders": 7}}, keep_request=False)
    assert (done.requested_at, done.last_refresh["sources"]) == (again.requested_at, {"s.d.orders": 7})
    done = admin.views.record_refresh(again, {"version": 3}, keep_request=False)
    assert done.requested_at is None
    assert done.refreshed_at is not None
    assert admin.views.record_refresh(done, {}, keep_request=True).requested_at is not None
    changed = admin.views.get("s", "d", "mine")
    admin.views.update("s", "d", "mine", sql="SELECT 1 AS one FROM source", properties=[])
    assert admin.views.record_refresh(changed, {}, keep_request=False).requested_at is not None
    admin.views.delete("s", "d", "mine")
    make(admin)
    with pytest.raises(Conflict, match="made anew"):
        admin.views.record_refresh(read, {}, keep_request=False)
    with pytest.raises(Conflict, match="refresh it again"):
        admin.views.partitions.put(
            read, [ViewPartition(table_id=read.table_id, audience="p", since_version=0, values={}, created_at=now())]
        )


def test_a_failure_is_kept_beside_what_was_done(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    made = make(admin)
    admin.views.record_refresh(made, {"version": 3}, keep_request=False)
    told = admin.views.record_failure(made, "no such column").last_refresh
    assert (told["version"], told["failure"]) == (3, "no such column")
