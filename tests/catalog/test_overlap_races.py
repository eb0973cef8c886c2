"""Two administrators at once: whoever shares a folder whole and whoever restricts a table in it never both succeed."""

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
    """A client of DynamoDB that runs a function before each of some requests."""

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
    """Return an administrator of a catalog, before each of whose requests a function is run."""
    client: Any = InterruptedClient(catalog.dynamo.client, requests, before)
    return CatalogAdmin(catalog.catalog_table, catalog.tokens_table, Dynamo(lambda: client))


def interrupted_once(catalog: Catalog, operation: Operation) -> CatalogAdmin:
    """Return an administrator, before whose first write another one makes a change that must succeed."""
    waiting = [operation]

    def act() -> None:
        if waiting:
            waiting.pop()(catalog.admin)

    return interrupted(catalog, WRITE, act)


def fill(admin: CatalogAdmin) -> None:
    """Create two shares, each with a schema, and a recipient."""
    for share in ("whole", "part"):
        admin.shares.create(share)
        admin.schemas.create(share, "d")
    admin.recipients.create("ann")


def in_another_store(admin: CatalogAdmin) -> None:
    admin.storages.create("far", endpoint="http://far:9000")
    admin.volumes.create("whole", "d", "v", LAKE, storage="far")


def versions(admin: CatalogAdmin) -> None:
    admin.models.create("whole", "d", "m")
    admin.models.add_version("whole", "d", "m", 9, "s3://elsewhere")


WIDE: Changes = {
    "volume": (
        lambda _: None,
        lambda admin: admin.volumes.create("whole", "d", "v", LAKE),
    ),
    "skill": (
        lambda _: None,
        lambda admin: admin.skills.create("whole", "d", "a", f"{LAKE}/a", facts={"description": "a skill"}),
    ),
    "model version": (
        versions,
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
        versions,
        lambda admin: admin.models.update_version("whole", "d", "m", 9, location=LAKE),
    ),
    "table that gets 'dir'": (
        lambda admin: admin.tables.create("whole", "d", "t", LAKE),
        lambda admin: admin.tables.update("whole", "d", "t", access_modes=["dir"]),
    ),
    "volume that gets another storage": (
        in_another_store,
        lambda admin: admin.volumes.update("whole", "d", "v", storage=""),
    ),
    "storage that moves": (
        in_another_store,
        lambda admin: admin.storages.update("far", endpoint="https://s3.amazonaws.com"),
    ),
}
"""By what it is: what goes before, and a change that shares a folder whole."""

NARROW: Changes = {
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
"""By what it is: what goes before, and a change by which a table in that folder is shared in part."""


@pytest.mark.parametrize(
    ("wide", "narrow"), [*((wide, "filter") for wide in WIDE), *(("volume", narrow) for narrow in NARROW)]
)
def test_of_two_operators_who_share_and_restrict_the_same_folder_the_second_is_refused(
    catalog: Catalog, wide: str, narrow: str
) -> None:
    for outer, inner in ((WIDE[wide], NARROW[narrow]), (NARROW[narrow], WIDE[wide])):
        catalog.clear()
        fill(catalog.admin)
        for before, _ in (outer, inner):
            before(catalog.admin)
        with pytest.raises(InvalidParameter, match=r"all that lies in|is shared by the access mode 'dir'"):
            outer[1](interrupted_once(catalog, inner[1]))
        assert list(catalog.admin.tables.overlaps.conflicts()) == []


PLAIN: dict[str, Operation] = {
    "new table": lambda admin: admin.tables.create("part", "d", "t", f"{LAKE}/a"),
    "moved table": lambda admin: admin.tables.update("part", "d", "outside", location=f"{LAKE}/a"),
}  # fmt: skip


@pytest.mark.parametrize("plain", PLAIN)
def test_a_table_enters_no_shared_folder_while_its_share_gets_a_filter(catalog: Catalog, plain: str) -> None:
    def narrow(admin: CatalogAdmin) -> Any:
        return admin.grants.create("ann", "part", partition_filter=ROWS)

    for outer, inner in ((PLAIN[plain], narrow), (narrow, PLAIN[plain])):
        fill(catalog.admin)
        catalog.admin.volumes.create("whole", "d", "v", LAKE)
        catalog.admin.tables.create("part", "d", "outside", "s3://outside/t")
        with pytest.raises(InvalidParameter, match=r"'whole\.d\.v' shares all that lies in"):
            outer(interrupted_once(catalog, inner))
        assert list(catalog.admin.tables.overlaps.conflicts()) == []
        catalog.clear()


def test_plain_tables_and_other_changes_do_not_wait_for_each_other(catalog: Catalog) -> None:
    fill(catalog.admin)
    in_another_store(catalog.admin)
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
    """Return how many changes of wide and restricted entries there were."""
    item = catalog.dynamo.get(catalog.catalog_table, keys.OVERLAPS)
    return 0 if item is None else int(item["revision"])


SHARES = st.sampled_from(["whole", "part"])
PLACES = st.sampled_from([LAKE, f"{LAKE}/a", f"{LAKE}/a/below", f"{LAKE}/b", "s3://elsewhere"])
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
    """Return an operation of an administrator, with what it says of itself."""
    share, name, place, storage, rights = draw(SHARES), draw(TABLES), draw(PLACES), draw(STORAGES), draw(RIGHTS)
    rows, endpoint = draw(FILTERS), draw(ENDPOINTS)
    kind, run = draw(st.sampled_from(_operations(share, name, place, storage, rights, rows, endpoint)))
    return f"{kind}: {share} {name} {place} {storage} {rights} {rows} {endpoint}", run


def _operations(  # noqa: PLR0917 -- what an operation is drawn from
    share: str, name: str, place: str, storage: str, rights: dict[str, Any], rows: str, endpoint: str
) -> list[tuple[str, Operation]]:
    changes = {**rights, "location": place, "storage": storage}
    of_folder = {"location": place, "storage": storage}

    def anew(admin: CatalogAdmin) -> None:
        admin.shares.delete(share, force=True)
        admin.shares.create(share)
        admin.schemas.create(share, "d")
        admin.models.create(share, "d", "m")
        admin.tables.create("whole", "d", "source", "s3://source/t")

    return [
        ("create table", lambda admin: admin.tables.create(share, "d", name, place, storage=storage, **rights)),
        ("create table again", lambda admin: admin.tables.create(share, "d", name, place, storage=storage, **rights)),
        ("restrict table", lambda admin: admin.tables.update(share, "d", name, **rights)),
        ("move table", lambda admin: admin.tables.update(share, "d", name, location=place, storage=storage)),
        ("change table", lambda admin: admin.tables.update(share, "d", name, **changes)),
        ("delete table", lambda admin: admin.tables.delete(share, "d", name)),
        ("create volume", lambda admin: admin.volumes.create(share, "d", "v", place, storage=storage)),
        ("move volume", lambda admin: admin.volumes.update(share, "d", "v", **of_folder)),
        ("delete volume", lambda admin: admin.volumes.delete(share, "d", "v")),
        ("add version", lambda admin: admin.models.add_version(share, "d", "m", 1, place, storage=storage)),
        ("move version", lambda admin: admin.models.update_version(share, "d", "m", 1, **of_folder)),
        ("remove version", lambda admin: admin.models.remove_version(share, "d", "m", 1)),
        ("create grant", lambda admin: admin.grants.create("ann", share, partition_filter=rows)),
        ("update grant", lambda admin: admin.grants.update("ann", share, partition_filter=rows)),
        ("revoke grant", lambda admin: admin.grants.revoke("ann", share)),
        ("update storage", lambda admin: admin.storages.update(storage or "far", endpoint=endpoint)),
        ("update share", lambda admin: admin.shares.update(share, comment=place)),
        ("share anew", anew),
        ("create view", lambda admin: admin.views.create(
            share, "d", "view", place, source="whole.d.source", sql="SELECT 1", properties=[]
        )),
        ("delete view", lambda admin: admin.views.delete(share, "d", "view")),
    ]  # fmt: skip


AT = st.integers(0, 12)
"""Before which request of the first administrator the second one acts."""

TURNS = st.lists(
    st.tuples(operations(), st.lists(st.tuples(AT, operations()), min_size=1, max_size=2)), min_size=20, max_size=20
)
OF_A_STORY = 40
"""Operations in a story, at least."""

STORIES = 10_000 // OF_A_STORY if settings().max_examples > USUAL else tries(4)


@pytest.mark.timeout(7200)  # as many stories as the long profile asks for take half an hour
@settings(
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(turns=TURNS)
def test_whatever_two_administrators_do_doctor_has_nothing_to_report(catalog: Catalog, turns: Any) -> None:
    catalog.clear()
    fill(catalog.admin)
    catalog.admin.models.create("whole", "d", "m")
    catalog.admin.tables.create("whole", "d", "source", "s3://source/t")
    catalog.admin.storages.create("near", endpoint="http://localhost:9000")
    catalog.admin.storages.create("far", endpoint="http://far:9000")
    for (said, outer), inner in turns:
        waiting = dict(inner)
        count = itertools.count()

        def act(count: Any = count, waiting: Any = waiting) -> None:
            if (other := waiting.pop(next(count), None)) is not None:
                with suppress(DeltaicError):
                    other[1](catalog.admin)

        with suppress(DeltaicError):
            outer(interrupted(catalog, REQUESTS, act))
        wrong = [
            finding.said
            for finding in check_folder_access(catalog.admin.tables.overlaps.conflicts(), [])
            if not finding.holds
        ]
        assert not wrong, (said, [(at, other) for at, (other, _) in inner])
        filtered = {grant.share for grant in catalog.admin.grants.list_all() if grant.partition_filter}
        assert not [view.title for view in catalog.admin.views.list_all() if view.share in filtered], said
