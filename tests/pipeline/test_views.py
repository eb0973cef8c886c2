"""Test that partitions in the catalog have their rows, also after kills and with new recipients."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import View, ViewPartition
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN, audience
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.lease import acquire
from deltaic_pipeline.view_refresh.catalog_session import definition_of, start_task, why_due
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_pipeline.views import ViewRefreshResult, refresh_view, refresh_views
from deltalake import write_deltalake
from pipeline.place import Place, StoredTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SQL = "SELECT id, dose FROM source WHERE site = current_recipient('site')"
SITES = ("Porto", "Turku", "Leuven")


@dataclass
class SharedView:
    """A share with a table of visits and a view of it."""

    spark: "SparkSession"
    catalog: JobCatalog
    admin: CatalogAdmin
    place: Place
    share: str

    @property
    def view(self) -> View:
        return self.admin.views.get(self.share, "d", "mine")

    def add_visits(self, first: int, count: int) -> None:
        """Append rows for each site in turn."""
        visits = [{"id": key, "dose": key % 4, "site": SITES[key % 3]} for key in range(first, first + count)]
        table, feed = self.place.table("/visits"), {"delta.enableChangeDataFeed": "true"}
        write_deltalake(
            table.location,
            pa.Table.from_pylist(visits),
            mode="append",
            configuration=None if table.exists() else feed,
            storage_options=dict(table.options),
        )

    def add_recipient(self, name: str, site: str) -> None:
        self.admin.recipients.create(f"{self.share}-{name}", properties={"site": site})
        self.admin.grants.create(f"{self.share}-{name}", self.share)

    def refresh(self) -> ViewRefreshResult:
        return refresh_view(self.spark, self.view, self.catalog, "r")

    def partitions(self) -> dict[str, int]:
        """Return the first version with each site's rows."""
        partitions: list[ViewPartition] = self.admin.views.partitions.list(self.share, self.view.table_id)
        return {str(partition.values["site"]): partition.since_version for partition in partitions}

    def rows(self, site: str) -> list[int]:
        table = StoredTable(self.admin.views.table(self.view).location, self.place.options)
        site_audience = audience(["site"], {"site": site})
        return [row_id for row_id, name in sorted(table.rows("id", AUDIENCE_COLUMN)) if name == site_audience]


@pytest.fixture
def shared(spark: "SparkSession", catalog: JobCatalog, admin: CatalogAdmin, place: Place) -> SharedView:
    share = f"s-{place.prefix[:40]}"
    shared_view = SharedView(spark, catalog, admin, place, share)
    shared_view.add_visits(0, 30)
    admin.shares.create(share)
    admin.schemas.create(share, "d")
    admin.tables.create(share, "d", "visits", f"{place.location}/visits")
    location = f"{place.location}/visits-views/mine"
    admin.views.create(share, "d", "mine", location, source=f"{share}.d.visits", sql=SQL, properties=["site"])
    return shared_view


def ids_of(site: str, below: int) -> list[int]:
    return [number for number in range(below) if number % 3 == SITES.index(site)]


def test_partitions_follow_rows_and_rights_precede_their_removal(shared: SharedView) -> None:
    assert why_due(shared.admin, shared.view) == "never refreshed"
    shared.add_recipient("alice", "Porto")
    shared.add_recipient("bob", "Turku")
    shared.admin.recipients.create(f"{shared.share}-nobody")
    shared.admin.grants.create(f"{shared.share}-nobody", shared.share)
    first = shared.refresh()
    assert (first.refreshed.version, first.recipients, first.audiences) == (0, 2, 2)
    assert shared.partitions() == {"Porto": 0, "Turku": 0}
    assert (shared.rows("Porto"), shared.rows("Turku"), shared.rows("Leuven")) == (
        ids_of("Porto", 30),
        ids_of("Turku", 30),
        [],
    )
    last_refresh = shared.view.last_refresh
    assert (last_refresh["rows"], last_refresh["recipients"], last_refresh["sources"]) == (
        20,
        2,
        {f"{shared.share}.d.visits": 0},
    )
    assert (shared.view.requested_at, why_due(shared.admin, shared.view)) == (None, "")

    shared.add_visits(30, 30)
    shared.admin.recipients.update(f"{shared.share}-bob", add_properties={"site": "Leuven"})
    assert why_due(shared.admin, shared.view).startswith("requested at")
    second = shared.refresh()
    # No recipient has a right to Turku's rows any more; Porto's history is unchanged.
    assert shared.partitions() == {"Porto": 0, "Leuven": second.refreshed.version}
    assert (shared.rows("Porto"), shared.rows("Turku"), shared.rows("Leuven")) == (
        ids_of("Porto", 60),
        [],
        ids_of("Leuven", 60),
    )
    versions = [(version["version"], version["sources"]) for version in shared.view.last_refresh["versions"]]
    assert versions == [
        (second.refreshed.version, {f"{shared.share}.d.visits": 1}),
        (0, {f"{shared.share}.d.visits": 0}),
    ]
    again = shared.refresh()
    assert (again.refreshed.inserted, again.refreshed.deleted) == (0, 0)
    assert shared.partitions() == {"Porto": 0, "Leuven": second.refreshed.version}


def test_refresh_killed_after_its_commit_is_completed_by_the_next_run(shared: SharedView) -> None:
    shared.add_recipient("alice", "Porto")
    task = start_task(shared.admin, shared.view)
    definition = definition_of(shared.admin, task.view, task.table)
    killed = refresh(shared.spark.newSession(), definition, task.audiences, task.existing, "killed")
    assert (shared.partitions(), shared.view.requested_at is not None) == ({}, True)
    shared.add_recipient("bob", "Turku")
    result = shared.refresh()
    assert shared.partitions() == dict.fromkeys(("Porto", "Turku"), result.refreshed.version)
    assert result.refreshed.version > killed.version
    assert (shared.rows("Porto"), shared.rows("Turku")) == (ids_of("Porto", 30), ids_of("Turku", 30))


def test_error_for_an_unreadable_source_has_a_remedy(shared: SharedView) -> None:
    shared.admin.tables.delete(shared.share, "d", "visits")
    with pytest.raises(NotFound, match="share it under that name again"):
        shared.refresh()
    shared.admin.tables.create(shared.share, "d", "visits", f"{shared.place.location}/nothing")
    with pytest.raises(PipelineError, match="nothing"):
        shared.refresh()
    shared.admin.tables.update(shared.share, "d", "visits", location=f"{shared.place.location}/visits")
    shared.admin.storages.create(shared.share[:90], endpoint="http://127.0.0.1:1")
    shared.admin.tables.update(shared.share, "d", "visits", storage=shared.share[:90])
    with pytest.raises(InvalidParameter, match="which jobs cannot read"):
        shared.refresh()


def test_views_are_refreshed_despite_failures_of_others(shared: SharedView) -> None:
    shared.add_recipient("alice", "Porto")
    wrong = "SELECT nothing FROM source WHERE site = current_recipient('site')"
    location = f"{shared.place.location}/visits-views/wrong"
    source = f"{shared.share}.d.visits"
    broken = shared.admin.views.create(
        shared.share, "d", "a_wrong", location, source=source, sql=wrong, properties=["site"]
    )
    events: list[dict[str, Any]] = []
    with pytest.raises(PipelineError, match=f"1 of 2 views were not refreshed\n{shared.share}.d.a_wrong: .*nothing"):
        refresh_views(
            shared.spark, [broken, shared.view], shared.catalog, "r", report=lambda _, event: events.append(event)
        )
    assert [(event["event"], event["view"].rpartition(".")[2]) for event in events] == [
        ("notRefreshed", "a_wrong"),
        ("refreshed", "mine"),
    ]
    assert (shared.rows("Porto"), shared.partitions()) == (ids_of("Porto", 30), {"Porto": 0})
    failed = shared.admin.views.get(shared.share, "d", "a_wrong")
    assert "nothing" in failed.last_refresh["failure"]
    assert (failed.refreshed_at, why_due(shared.admin, failed)[:5]) == (None, "never")
    location = shared.admin.views.table(shared.view).location
    with acquire(shared.catalog.leases, location, "somebody else"), pytest.raises(Conflict, match="somebody else"):
        refresh_views(shared.spark, [shared.view], shared.catalog, "r", report=lambda *_: None)
