"""The job of views: what the catalog says is there is there, whatever was killed and whoever came meanwhile."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import View, ViewPartition
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.partition_filters.audiences import audience
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.table.lease import acquire
from deltaic_pipeline.view_refresh.catalog_session import begin, definition_of, due
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_pipeline.views import Outcome, refresh_view, refresh_views
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SQL = "SELECT id, dose FROM source WHERE site = current_recipient('site')"
SITES = ("Porto", "Turku", "Leuven")


@dataclass
class Kept:
    """A share with a table of visits, a view of them, and the job on it."""

    spark: "SparkSession"
    catalog: Catalog
    admin: CatalogAdmin
    place: Place
    share: str

    @property
    def view(self) -> View:
        return self.admin.views.get(self.share, "d", "mine")

    def visits(self, first: int, count: int) -> None:
        """Append rows: each third one is of a site."""
        site = f"element_at(array{SITES}, int(id % 3) + 1) AS site"
        rows = self.spark.range(first, first + count, numPartitions=1).selectExpr("id", "id % 4 AS dose", site)
        where = rows.write.format("delta").mode("append").option("delta.enableChangeDataFeed", "true")
        where.save(f"{self.place.spark_location}/visits")

    def holder(self, name: str, site: str) -> None:
        self.admin.recipients.create(f"{self.share}-{name}", properties={"site": site})
        self.admin.grants.create(f"{self.share}-{name}", self.share)

    def refresh(self) -> Outcome:
        return refresh_view(self.spark, self.view, self.catalog, "r")

    def partitions(self) -> dict[str, int]:
        """Return the version from which on each site's rows are there."""
        found: list[ViewPartition] = self.admin.views.partitions.list(self.share, self.view.table_id)
        return {str(each.values["site"]): each.since_version for each in found}

    def rows(self, site: str) -> list[int]:
        table = self.spark.read.format("delta").load(self.location)
        named = audience(["site"], {"site": site})
        return sorted(row["id"] for row in table.where(f"_deltaic_policy = '{named}'").select("id").collect())

    @property
    def location(self) -> str:
        return self.admin.views.table(self.view).location.replace("s3://", "s3a://", 1)


@pytest.fixture
def kept(spark: "SparkSession", catalog: Catalog, admin: CatalogAdmin, place: Place) -> Kept:
    share = f"s-{place.prefix[:40]}"
    made = Kept(spark, catalog, admin, place, share)
    made.visits(0, 30)
    admin.shares.create(share)
    admin.schemas.create(share, "d")
    admin.tables.create(share, "d", "visits", f"{place.location}/visits")
    where = f"{place.location}/visits-views/mine"
    admin.views.create(share, "d", "mine", where, source=f"{share}.d.visits", sql=SQL, properties=["site"])
    return made


def of(site: str, below: int) -> list[int]:
    return [number for number in range(below) if number % 3 == SITES.index(site)]


def test_rows_and_rights_come_and_go_in_this_order(kept: Kept) -> None:
    assert due(kept.admin, kept.view) == "never refreshed"
    kept.holder("alice", "Porto")
    kept.holder("bob", "Turku")
    kept.admin.recipients.create(f"{kept.share}-nobody")
    kept.admin.grants.create(f"{kept.share}-nobody", kept.share)
    first = kept.refresh()
    assert (first.refreshed.version, first.recipients, first.audiences) == (0, 2, 2)
    assert kept.partitions() == {"Porto": 0, "Turku": 0}
    assert (kept.rows("Porto"), kept.rows("Turku"), kept.rows("Leuven")) == (of("Porto", 30), of("Turku", 30), [])
    told = kept.view.last_refresh
    assert (told["rows"], told["recipients"], told["sources"]) == (20, 2, {f"{kept.share}.d.visits": 0})
    assert (kept.view.requested_at, due(kept.admin, kept.view)) == (None, "")

    kept.visits(30, 30)
    kept.admin.recipients.update(f"{kept.share}-bob", add_properties={"site": "Leuven"})
    assert due(kept.admin, kept.view).startswith("asked for since")
    second = kept.refresh()
    # Nobody has a right to Turku's rows any more, and Porto's history is what it was.
    assert kept.partitions() == {"Porto": 0, "Leuven": second.refreshed.version}
    assert (kept.rows("Porto"), kept.rows("Turku"), kept.rows("Leuven")) == (of("Porto", 60), [], of("Leuven", 60))
    versions = [(each["version"], each["sources"]) for each in kept.view.last_refresh["versions"]]
    assert versions == [
        (second.refreshed.version, {f"{kept.share}.d.visits": 1}),
        (0, {f"{kept.share}.d.visits": 0}),
    ]
    again = kept.refresh()
    assert (again.refreshed.inserted, again.refreshed.deleted) == (0, 0)
    assert kept.partitions() == {"Porto": 0, "Leuven": second.refreshed.version}


def test_what_was_killed_after_its_commit_is_completed_by_the_next_run(kept: Kept) -> None:
    kept.holder("alice", "Porto")
    task = begin(kept.admin, kept.view)
    definition = definition_of(kept.admin, task.view, task.table)
    killed = refresh(kept.spark.newSession(), definition, task.wanted, task.known, "killed")
    assert (kept.partitions(), kept.view.requested_at is not None) == ({}, True)
    kept.holder("bob", "Turku")
    done = kept.refresh()
    assert kept.partitions() == dict.fromkeys(("Porto", "Turku"), done.refreshed.version)
    assert done.refreshed.version > killed.version
    assert (kept.rows("Porto"), kept.rows("Turku")) == (of("Porto", 30), of("Turku", 30))


def test_a_source_that_cannot_be_read_is_named_with_the_remedy(kept: Kept) -> None:
    kept.admin.tables.delete(kept.share, "d", "visits")
    with pytest.raises(NotFound, match="share it under that name again"):
        kept.refresh()
    kept.admin.tables.create(kept.share, "d", "visits", f"{kept.place.location}/nothing")
    with pytest.raises(PipelineError, match="nothing"):
        kept.refresh()
    kept.admin.tables.update(kept.share, "d", "visits", location=f"{kept.place.location}/visits")
    kept.admin.storages.create(kept.share[:90], endpoint="http://127.0.0.1:1")
    kept.admin.tables.update(kept.share, "d", "visits", storage=kept.share[:90])
    with pytest.raises(InvalidParameter, match="which jobs cannot read"):
        kept.refresh()


def test_views_are_refreshed_whatever_fails_beside_them(kept: Kept) -> None:
    kept.holder("alice", "Porto")
    wrong = "SELECT nothing FROM source WHERE site = current_recipient('site')"
    where = f"{kept.place.location}/visits-views/wrong"
    source = f"{kept.share}.d.visits"
    broken = kept.admin.views.create(kept.share, "d", "a_wrong", where, source=source, sql=wrong, properties=["site"])
    events: list[dict[str, Any]] = []
    with pytest.raises(PipelineError, match=f"1 of 2 views were not refreshed\n{kept.share}.d.a_wrong: .*nothing"):
        refresh_views(kept.spark, [broken, kept.view], kept.catalog, "r", tell=lambda _, event: events.append(event))
    assert [(each["event"], each["view"].rpartition(".")[2]) for each in events] == [
        ("notRefreshed", "a_wrong"),
        ("refreshed", "mine"),
    ]
    assert (kept.rows("Porto"), kept.partitions()) == (of("Porto", 30), {"Porto": 0})
    failed = kept.admin.views.get(kept.share, "d", "a_wrong")
    assert "nothing" in failed.last_refresh["failure"]
    assert (failed.refreshed_at, due(kept.admin, failed)[:5]) == (None, "never")
    where = kept.admin.views.table(kept.view).location
    with acquire(kept.catalog.leases, where, "somebody else"), pytest.raises(Conflict, match="somebody else"):
        refresh_views(kept.spark, [kept.view], kept.catalog, "r", tell=lambda *_: None)
