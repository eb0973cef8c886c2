"""Concurrent changes by two operators: an unfiltered folder and a filtered table in it never both succeed."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog import keys
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import DeltaicError, InvalidParameter
from deltaic_ops.checks.doctor.filters import check_folder_access
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import USUAL, tries

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog

    Operation = Callable[[CatalogAdmin], Any]
    Changes = dict[str, tuple[Operation, Operation]]

pytestmark = pytest.mark.slow

LAKE = "s3://lake"
ROWS = "region = 'EU'"
REQUESTS = {"get_item", "batch_get_item", "query", "transact_write_items"}
WRITE = {"transact_write_items"}


class InterruptedClient:
    """DynamoDB client that runs a function before each request of some kinds."""

    def __init__(self, client: Any, requests: set[str], before: Callable[[], None]) -> None:
        self._client = client
        self._requests = requests
        self._before = before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in self._requests:
            return method

        def call(**arguments: Any) -> Any:
            self._before()
            return method(**arguments)

        return call


def interrupted(catalog: Catalog, requests: set[str], before: Callable[[], None]) -> CatalogAdmin:
    """Return an admin object that runs a function before each of its requests."""
    client: Any = InterruptedClient(catalog.dynamo.client, requests, before)
    return CatalogAdmin(catalog.catalog_table, catalog.tokens_table, Dynamo(lambda: client))


def interrupted_once(catalog: Catalog, operation: Operation) -> CatalogAdmin:
    """Return an admin object before whose first write another one makes a successful change."""
    pending = [operation]

    def act() -> None:
        if pending:
            pending.pop()(catalog.admin)

    return interrupted(catalog, WRITE, act)


def fill(admin: CatalogAdmin) -> None:
    """Create two shares, each with a schema, and a recipient."""
    for share in ("whole", "part"):
        admin.shares.create(share)
        admin.schemas.create(share, "d")
    admin.recipients.create("ann")


def create_volume_in_another_store(admin: CatalogAdmin) -> None:
    admin.storages.create("far", endpoint="http://far:9000")
    admin.volumes.create("whole", "d", "v", LAKE, storage="far")


def create_versions(admin: CatalogAdmin) -> None:
    admin.models.create("whole", "d", "m")
    admin.models.add_version("whole", "d", "m", 9, "s3://elsewhere")


UNFILTERED_CHANGES: Changes = {
    "volume": (
        lambda _: None,
        lambda admin: admin.volumes.create("whole", "d", "v", LAKE),
    ),
    "skill": (
        lambda _: None,
        lambda admin: admin.skills.create("whole", "d", "a", f"{LAKE}/a", facts={"description": "a skill"}),
    ),
    "model version": (
        create_versions,
        lambda admin: admin.models.add_version("whole", "d", "m", 1, LAKE),
    ),
    "table by its folder": (
        lambda _: None,
        lambda admin: admin.tables.create("whole", "d", "t", LAKE, access_modes=["dir"]),
    ),
    "moved volume": (
        lambda admin: admin.volumes.create("whole", "d", "v", "s3://elsewhere"),
        lambda admin: admin.volumes.update("whole", "d", "v", location=LAKE),
    ),
    "moved model version": (
        create_versions,
        lambda admin: admin.models.update_version("whole", "d", "m", 9, location=LAKE),
    ),
    "table that gets 'dir'": (
        lambda admin: admin.tables.create("whole", "d", "t", LAKE),
        lambda admin: admin.tables.update("whole", "d", "t", access_modes=["dir"]),
    ),
    "volume that gets another storage": (
        create_volume_in_another_store,
        lambda admin: admin.volumes.update("whole", "d", "v", storage=""),
    ),
    "storage that moves": (
        create_volume_in_another_store,
        lambda admin: admin.storages.update("far", endpoint="https://s3.amazonaws.com"),
    ),
}
"""By name: a preparation, and a change that shares all files of a folder."""

FILTERED_CHANGES: Changes = {
    "filter": (
        lambda _: None,
        lambda admin: admin.tables.create("part", "d", "t", f"{LAKE}/a", partition_filter=ROWS),
    ),
    "hidden columns": (
        lambda admin: admin.tables.create("part", "d", "t", f"{LAKE}/a"),
        lambda admin: admin.tables.update("part", "d", "t", hidden_columns=["a"]),
    ),
    "view": (
        lambda admin: admin.tables.create("whole", "d", "source", "s3://source/t"),
        lambda admin: admin.views.create(
            "part", "d", "mine", f"{LAKE}/a", source="whole.d.source", sql="SELECT 1", properties=[]
        ),
    ),
    "grant's filter": (
        lambda admin: admin.tables.create("part", "d", "t", f"{LAKE}/a"),
        lambda admin: admin.grants.create("ann", "part", partition_filter=ROWS),
    ),
    "grant's new filter": (
        lambda admin: (admin.tables.create("part", "d", "t", f"{LAKE}/a"), admin.grants.create("ann", "part")),
        lambda admin: admin.grants.update("ann", "part", partition_filter=ROWS),
    ),
}
"""By name: a preparation, and a change that filters a table in that folder."""


@pytest.mark.parametrize(
    ("unfiltered", "filtered"),
    [
        *((unfiltered, "filter") for unfiltered in UNFILTERED_CHANGES),
        *(("volume", filtered) for filtered in FILTERED_CHANGES),
    ],
)
def test_second_of_two_conflicting_changes_is_refused(catalog: Catalog, unfiltered: str, filtered: str) -> None:
    for outer, inner in (
        (UNFILTERED_CHANGES[unfiltered], FILTERED_CHANGES[filtered]),
        (FILTERED_CHANGES[filtered], UNFILTERED_CHANGES[unfiltered]),
    ):
        catalog.clear()
        fill(catalog.admin)
        for before, _ in (outer, inner):
            before(catalog.admin)
        with pytest.raises(InvalidParameter, match=r"shares all files in|has access mode 'dir'"):
            outer[1](interrupted_once(catalog, inner[1]))
        assert list(catalog.admin.tables.overlaps.conflicts()) == []


TABLE_CHANGES: dict[str, Operation] = {
    "new table": lambda admin: admin.tables.create("part", "d", "t", f"{LAKE}/a"),
    "moved table": lambda admin: admin.tables.update("part", "d", "outside", location=f"{LAKE}/a"),
}  # fmt: skip


@pytest.mark.parametrize("change", TABLE_CHANGES)
def test_table_and_filter_for_the_same_folder_exclude_each_other(catalog: Catalog, change: str) -> None:
    def grant_filter(admin: CatalogAdmin) -> Any:
        return admin.grants.create("ann", "part", partition_filter=ROWS)

    for outer, inner in ((TABLE_CHANGES[change], grant_filter), (grant_filter, TABLE_CHANGES[change])):
        fill(catalog.admin)
        catalog.admin.volumes.create("whole", "d", "v", LAKE)
        catalog.admin.tables.create("part", "d", "outside", "s3://outside/t")
        with pytest.raises(InvalidParameter, match=r"'whole\.d\.v' shares all files in"):
            outer(interrupted_once(catalog, inner))
        assert list(catalog.admin.tables.overlaps.conflicts()) == []
        catalog.clear()


def test_unfiltered_tables_and_other_changes_need_no_revision(catalog: Catalog) -> None:
    fill(catalog.admin)
    create_volume_in_another_store(catalog.admin)
    before = revisions(catalog)
    for change in (
        lambda: catalog.admin.tables.create("part", "d", "t", f"{LAKE}/b"),
        lambda: catalog.admin.tables.update("part", "d", "t", location=f"{LAKE}/c"),
        lambda: catalog.admin.shares.update("part", comment="hello"),
        lambda: catalog.admin.grants.create("ann", "part"),
        lambda: catalog.admin.volumes.update("whole", "d", "v", comment="hello"),
        lambda: catalog.admin.storages.update("far", region="eu-west-1"),
    ):
        change()
        assert revisions(catalog) == before
    catalog.admin.grants.update("ann", "part", partition_filter=ROWS)
    assert revisions(catalog) == before + 1


def revisions(catalog: Catalog) -> int:
    """Return the number of changes of unfiltered folders and filtered tables."""
    item = catalog.dynamo.get(catalog.catalog_table, keys.OVERLAPS)
    return 0 if item is None else int(item["revision"])


SHARES = st.sampled_from(["whole", "part"])
LOCATIONS = st.sampled_from([LAKE, f"{LAKE}/a", f"{LAKE}/a/below", f"{LAKE}/b", "s3://elsewhere"])
STORAGES = st.sampled_from(["", "", "near", "far"])
ENDPOINTS = st.sampled_from(["http://127.0.0.1:9000", "http://far:9000", "", "https://s3.eu-west-1.amazonaws.com"])
TABLES = st.sampled_from(["t", "u"])
FILTERS = st.sampled_from(["", ROWS])
RIGHTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([
    {"access_modes": ["url"]},
    {"access_modes": ["url", "dir"]},
    {"access_modes": ["url"], "partition_filter": ROWS},
    {"access_modes": ["url"], "hidden_columns": ["a"]},
    {"access_modes": ["url", "dir"], "partition_filter": "", "hidden_columns": []},
])  # fmt: skip


@st.composite
def operations(draw: st.DrawFn) -> tuple[str, Operation]:
    """Return an operation of an operator, with its description."""
    share, name, location, storage, rights = draw(SHARES), draw(TABLES), draw(LOCATIONS), draw(STORAGES), draw(RIGHTS)
    rows, endpoint = draw(FILTERS), draw(ENDPOINTS)
    kind, run = draw(st.sampled_from(_operations(share, name, location, storage, rights, rows, endpoint)))
    return f"{kind}: {share} {name} {location} {storage} {rights} {rows} {endpoint}", run


def _operations(  # noqa: PLR0917 -- what an operation is drawn from
    share: str, name: str, location: str, storage: str, rights: dict[str, Any], rows: str, endpoint: str
) -> list[tuple[str, Operation]]:
    changes = {**rights, "location": location, "storage": storage}
    folder = {"location": location, "storage": storage}

    def recreate(admin: CatalogAdmin) -> None:
        admin.shares.delete(share, force=True)
        admin.shares.create(share)
        admin.schemas.create(share, "d")
        admin.models.create(share, "d", "m")
        admin.tables.create("whole", "d", "source", "s3://source/t")

    return [
        ("create table", lambda admin: admin.tables.create(share, "d", name, location, storage=storage, **rights)),
        ("repeat table", lambda admin: admin.tables.create(share, "d", name, location, storage=storage, **rights)),
        ("restrict table", lambda admin: admin.tables.update(share, "d", name, **rights)),
        ("move table", lambda admin: admin.tables.update(share, "d", name, location=location, storage=storage)),
        ("change table", lambda admin: admin.tables.update(share, "d", name, **changes)),
        ("delete table", lambda admin: admin.tables.delete(share, "d", name)),
        ("create volume", lambda admin: admin.volumes.create(share, "d", "v", location, storage=storage)),
        ("move volume", lambda admin: admin.volumes.update(share, "d", "v", **folder)),
        ("delete volume", lambda admin: admin.volumes.delete(share, "d", "v")),
        ("add version", lambda admin: admin.models.add_version(share, "d", "m", 1, location, storage=storage)),
        ("move version", lambda admin: admin.models.update_version(share, "d", "m", 1, **folder)),
        ("remove version", lambda admin: admin.models.remove_version(share, "d", "m", 1)),
        ("create grant", lambda admin: admin.grants.create("ann", share, partition_filter=rows)),
        ("update grant", lambda admin: admin.grants.update("ann", share, partition_filter=rows)),
        ("revoke grant", lambda admin: admin.grants.revoke("ann", share)),
        ("update storage", lambda admin: admin.storages.update(storage or "far", endpoint=endpoint)),
        ("update share", lambda admin: admin.shares.update(share, comment=location)),
        ("share anew", recreate),
        ("create view", lambda admin: admin.views.create(
            share, "d", "view", location, source="whole.d.source", sql="SELECT 1", properties=[]
        )),
        ("delete view", lambda admin: admin.views.delete(share, "d", "view")),
    ]  # fmt: skip


AT = st.integers(0, 12)
"""Index of the first operator's request before which the second operator acts."""

TURNS = st.lists(
    st.tuples(operations(), st.lists(st.tuples(AT, operations()), min_size=1, max_size=2)), min_size=20, max_size=20
)
STORY_LENGTH = 40
"""Minimal number of operations in a story."""

STORIES = 10_000 // STORY_LENGTH if settings().max_examples > USUAL else tries(4)


@pytest.mark.timeout(7200)  # the number of stories in the long profile takes half an hour
@settings(
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(turns=TURNS)
def test_concurrent_changes_leave_no_conflicts(catalog: Catalog, turns: Any) -> None:
    catalog.clear()
    fill(catalog.admin)
    catalog.admin.models.create("whole", "d", "m")
    catalog.admin.tables.create("whole", "d", "source", "s3://source/t")
    catalog.admin.storages.create("near", endpoint="http://localhost:9000")
    catalog.admin.storages.create("far", endpoint="http://far:9000")
    for (title, outer), inner in turns:
        pending = dict(inner)
        count = itertools.count()

        def act(count: Any = count, pending: Any = pending) -> None:
            if (operation := pending.pop(next(count), None)) is not None:
                with suppress(DeltaicError):
                    operation[1](catalog.admin)

        with suppress(DeltaicError):
            outer(interrupted(catalog, REQUESTS, act))
        wrong = [
            finding.message
            for finding in check_folder_access(catalog.admin.tables.overlaps.conflicts(), [])
            if not finding.holds
        ]
        assert not wrong, (title, [(at, title) for at, (title, _) in inner])
        filtered_shares = {grant.share for grant in catalog.admin.grants.list_all() if grant.partition_filter}
        assert not [view.title for view in catalog.admin.views.list_all() if view.share in filtered_shares], title
