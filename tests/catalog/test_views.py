"""Views in the catalog: creation, deletion, and requests for refreshes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.view_partitions import BATCH_SIZE
from deltaic.catalog.items import ViewPartition, now
from deltaic.errors import AlreadyExists, Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import audience

if TYPE_CHECKING:
    from catalog.conftest import Catalog
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.items import View

SQL = "SELECT id FROM source WHERE site = current_recipient('site')"
LOCATION = "s3://bucket/orders-views/mine"


def fill(admin: CatalogAdmin) -> None:
    """Create a share with a source table, and a recipient."""
    admin.shares.create("s")
    admin.schemas.create("s", "d")
    admin.tables.create("s", "d", "orders", "s3://bucket/orders")
    admin.recipients.create("alice", properties={"site": "Porto"})


def create_view(admin: CatalogAdmin, name: str = "mine", **changes: Any) -> View:
    settings: dict[str, Any] = {"source": "s.d.orders", "sql": SQL, "properties": ["site"], **changes}
    return admin.views.create("s", "d", name, settings.pop("location", f"{LOCATION}-{name}"), **settings)


def put_partitions(admin: CatalogAdmin, view: View, *audiences: str, since: int = 0) -> None:
    partitions = [
        ViewPartition(
            table_id=view.table_id, audience=name, since_version=since, values={"site": name}, created_at=now()
        )
        for name in audiences
    ]
    admin.views.partitions.put(admin.views.get(view.share, view.schema_name, view.name), partitions)


def audiences(admin: CatalogAdmin, view: View) -> list[str]:
    return [partition.audience for partition in admin.views.partitions.list(view.share, view.table_id)]


def audience_of(name: str) -> str:
    result = audience(["site"], {"site": name})
    assert result is not None
    return result


def is_requested(admin: CatalogAdmin, name: str = "mine") -> bool:
    return admin.views.get("s", "d", name).requested_at is not None


def test_view_is_a_table_with_a_hidden_column(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    view = create_view(admin, key=["id", "id"], refresh="rate(1 hour)", max_staleness=3600, history=True)
    assert admin.views.get("S", "D", "MINE") == view
    assert (view.source, view.sql, view.key, view.max_staleness) == ("s.d.orders", SQL, ("id",), 3600)
    assert (view.requested_at, view.refreshed_at, view.last_refresh) == (None, None, {})
    table = admin.views.table(view)
    assert (table.id, table.view_properties, table.hidden_columns) == (view.table_id, ("site",), ("_deltaic_policy",))
    assert (table.access_modes, table.history, table.location) == (("url",), True, f"{LOCATION}-mine")
    assert [partition.name for partition in admin.tables.list("s")] == ["mine", "orders"]
    with pytest.raises(Conflict, match=r"2 table\(s\)"):
        admin.schemas.delete("s", "d")


@pytest.mark.parametrize(
    ("changes", "refusal", "message"),
    [
        ({"name": "orders"}, AlreadyExists, "'s.d.orders' exists already"),
        ({"source": "s.d.nothing"}, NotFound, "'s.d.nothing' not found"),
        ({"source": "s.d.first"}, InvalidParameter, "a view cannot read another view"),
        ({"source": "s.d.stored"}, InvalidParameter, "storage 'minio', which jobs cannot read"),
        ({"location": "s3://bucket/orders/views"}, InvalidParameter, "choose a separate folder"),
        ({"location": "s3://bucket"}, InvalidParameter, "choose a separate folder"),
        ({"sql": " "}, InvalidParameter, "the SQL of the view is empty"),
        ({"key": [""]}, InvalidParameter, "key column is empty"),
        ({"max_staleness": -1}, InvalidParameter, "staleness of -1 seconds"),
        ({"max_staleness": 10**14}, InvalidParameter, "ten years"),
        ({"name": "a.b"}, InvalidParameter, "a.b"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_invalid_view_is_refused_and_leaves_no_items(
    catalog: Catalog, changes: dict[str, Any], refusal: type[Exception], message: str
) -> None:
    admin = catalog.admin
    fill(admin)
    admin.storages.create("minio", endpoint="http://minio:9000")
    admin.tables.create("s", "d", "stored", "s3://bucket/stored", storage="minio")
    create_view(admin, "first")
    before = catalog.items()
    with pytest.raises(refusal, match=message):
        create_view(admin, **changes)
    assert catalog.items() == before


@pytest.mark.parametrize("method", ["view", "table", "schema", "share"])
def test_deleted_view_leaves_no_items(catalog: Catalog, method: str) -> None:
    admin = catalog.admin
    fill(admin)
    before = catalog.items()
    view = create_view(admin)
    put_partitions(admin, view, *(f"p{number:03}" for number in range(BATCH_SIZE + 5)))
    assert len(audiences(admin, view)) == BATCH_SIZE + 5
    if method == "view":
        assert admin.views.delete("s", "d", "mine").id == view.table_id
    elif method == "table":
        admin.tables.delete("s", "d", "Mine")
    elif method == "schema":
        admin.schemas.delete("s", "d", force=True)
    else:
        admin.shares.delete("s", force=True)
    remaining = [item for item in catalog.items() if item["sk"]["S"].startswith(("view/", "variant/", "table/d/mine"))]
    assert remaining == []
    if method in {"view", "table"}:
        assert sorted(map(str, catalog.items())) == sorted(map(str, before))
        assert create_view(admin).table_id != view.table_id


def test_table_is_not_found_as_a_view(catalog: Catalog) -> None:
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
def test_filters_and_location_of_a_view_cannot_be_changed(catalog: Catalog, change: dict[str, Any]) -> None:
    admin = catalog.admin
    fill(admin)
    create_view(admin)
    with pytest.raises(InvalidParameter, match="deltaic view update"):
        admin.tables.update("s", "d", "mine", **change)
    assert admin.tables.update("s", "d", "mine", history=True).history is True


def test_new_sql_removes_all_partitions_and_requests_a_refresh(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    view = create_view(admin)
    put_partitions(admin, view, *(f"p{number:03}" for number in range(BATCH_SIZE + 5)))
    admin.views.update("s", "d", "mine", sql=SQL, properties=["site"], max_staleness=60)
    assert (len(audiences(admin, view)), is_requested(admin)) == (BATCH_SIZE + 5, False)
    changed = admin.views.update("s", "d", "mine", sql="SELECT id FROM source", properties=[])
    assert (changed.sql, changed.max_staleness) == ("SELECT id FROM source", 60)
    assert (audiences(admin, view), is_requested(admin)) == ([], True)
    assert admin.views.table(changed).view_properties == ()
    with pytest.raises(Conflict, match="refresh it again"):
        admin.views.partitions.put(
            view, [ViewPartition(table_id=view.table_id, audience="p", since_version=0, values={}, created_at=now())]
        )
    with pytest.raises(InvalidParameter, match="SQL and properties belong together"):
        admin.views.update("s", "d", "mine", sql=SQL)


def test_grant_requests_missing_rows(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    view = create_view(admin)
    create_view(admin, "other", properties=["team"])
    admin.grants.create("alice", "s")
    assert (is_requested(admin), is_requested(admin, "other")) == (True, False), (
        "who lacks a property sees no rows anyway"
    )
    put_partitions(admin, view, audience_of("Porto"))
    admin.views.record_refresh(admin.views.get("s", "d", "mine"), {"version": 0}, keep_request=False)
    assert not is_requested(admin)
    admin.recipients.create("bob", properties={"site": "Porto"})
    admin.grants.create("bob", "s")
    assert not is_requested(admin), "equal properties share rows"


def test_property_requests_missing_rows(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    view = create_view(admin)
    put_partitions(admin, view, audience_of("Porto"))
    admin.grants.create("alice", "s")
    admin.recipients.update("alice", comment="c", add_properties={"team": "x"})
    assert not is_requested(admin)
    admin.recipients.update("alice", add_properties={"site": "Turku"})
    assert is_requested(admin)
    admin.views.record_refresh(admin.views.get("s", "d", "mine"), {}, keep_request=False)
    admin.recipients.update("alice", remove_properties=("site",))
    assert not is_requested(admin)


def test_refresh_removes_only_the_request_that_it_read(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    create_view(admin)
    admin.grants.create("alice", "s")
    requested = []
    for site in ("Turku", "Oulu"):
        admin.recipients.update("alice", add_properties={"site": site})
        requested.append(admin.views.get("s", "d", "mine"))
    first, second = requested
    assert first.requested_at is not None
    assert second.requested_at is not None
    assert second.requested_at > first.requested_at
    recorded = admin.views.record_refresh(first, {"version": 3, "sources": {"s.d.orders": 7}}, keep_request=False)
    assert (recorded.requested_at, recorded.last_refresh["sources"]) == (second.requested_at, {"s.d.orders": 7})
    recorded = admin.views.record_refresh(second, {"version": 3}, keep_request=False)
    assert recorded.requested_at is None
    assert recorded.refreshed_at is not None
    assert admin.views.record_refresh(recorded, {}, keep_request=True).requested_at is not None
    before = admin.views.get("s", "d", "mine")
    admin.views.update("s", "d", "mine", sql="SELECT 1 AS one FROM source", properties=[])
    assert admin.views.record_refresh(before, {}, keep_request=False).requested_at is not None
    admin.views.delete("s", "d", "mine")
    create_view(admin)
    with pytest.raises(Conflict, match="was deleted and created again"):
        admin.views.record_refresh(first, {}, keep_request=False)
    with pytest.raises(Conflict, match="refresh it again"):
        admin.views.partitions.put(
            first, [ViewPartition(table_id=first.table_id, audience="p", since_version=0, values={}, created_at=now())]
        )


def test_failure_keeps_the_result_of_the_last_refresh(catalog: Catalog) -> None:
    admin = catalog.admin
    fill(admin)
    view = create_view(admin)
    admin.views.record_refresh(view, {"version": 3}, keep_request=False)
    result = admin.views.record_failure(view, "no such column").last_refresh
    assert (result["version"], result["failure"]) == (3, "no such column")
