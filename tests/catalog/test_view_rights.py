"""Views against a model: a variant always stands for rows, and whoever lacks rows has asked for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.errors import Conflict, NotFound
from deltaic_pipeline.view_job import Task, begin, due, holders_by_policy, settle
from deltaic_pipeline.view_refresh.refreshing import Refreshed
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from laws import tries

if TYPE_CHECKING:
    from catalog.conftest import Catalog

pytestmark = pytest.mark.slow

PEOPLE = st.sampled_from(["alice", "bob"])
SITES = st.sampled_from(["Porto", "Turku"])
VIEWS = st.sampled_from(["v", "w"])
SQLS = {"SELECT 1": ["site"], "SELECT 2": ["site"], "SELECT 3": ["site", "team"], "SELECT 4": []}


@dataclass
class Run:
    """A refresh that is under way."""

    task: Task
    committed: bool = False


class Rights(RuleBasedStateMachine):
    """Operators who change rights and views, and a job that may die between any two of its steps."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.admin = catalog.admin
        self.rows: dict[str, tuple[str, frozenset[str]]] = {}
        """By what SQL each view's table was written last, and for which policies."""
        self.runs: dict[str, Run] = {}
        self.version = 0

    def teardown(self) -> None:
        self.catalog.clear()

    @initialize()
    def something_is_shared(self) -> None:
        self.admin.shares.create("s")
        self.admin.schemas.create("s", "d")
        self.admin.tables.create("s", "d", "t", "s3://bucket/t")
        self.admin.recipients.create("alice", properties={"site": "Porto"})
        self.admin.recipients.create("bob", properties={"team": "x"})
        self.admin.grants.create("alice", "s")
        self.make("v", "SELECT 1")

    @rule(name=VIEWS, sql=st.sampled_from(sorted(SQLS)))
    def make(self, name: str, sql: str) -> None:
        if not self.is_there(name):
            place = f"s3://bucket/{name}"
            self.admin.views.create("s", "d", name, place, source="s.d.t", sql=sql, properties=SQLS[sql])

    @rule(name=VIEWS, by_view=st.booleans())
    def delete(self, name: str, by_view: bool) -> None:
        if self.is_there(name):
            kind: Any = self.admin.views if by_view else self.admin.tables
            kind.delete("s", "d", name)

    @rule(name=VIEWS, sql=st.sampled_from(sorted(SQLS)))
    def change_sql(self, name: str, sql: str) -> None:
        if self.is_there(name):
            self.admin.views.update("s", "d", name, sql=sql, properties=SQLS[sql])

    @rule(who=PEOPLE)
    def grant_or_revoke(self, who: str) -> None:
        if any(grant.recipient == who for grant in self.admin.grants.of_share("s")):
            self.admin.grants.revoke(who, "s")
        else:
            self.admin.grants.create(who, "s")

    @rule(who=PEOPLE, site=SITES)
    def move(self, who: str, site: str) -> None:
        self.admin.recipients.update(who, add_properties={"site": site})

    @rule(who=PEOPLE)
    def join_or_leave(self, who: str) -> None:
        if "team" in self.admin.recipients.get(who).properties:
            self.admin.recipients.update(who, remove_properties=("team",))
        else:
            self.admin.recipients.update(who, add_properties={"team": "x"})

    @rule(name=VIEWS)
    def job_begins(self, name: str) -> None:
        """Begin a refresh; one that was under way is dead."""
        if self.is_there(name):
            self.runs[name] = Run(begin(self.admin, self.admin.views.get("s", "d", name)))

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def job_commits(self, data: st.DataObject) -> None:
        run = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        self.version += 1
        policies = frozenset(each.policy for each in run.task.wanted)
        self.rows[run.task.view.table_id] = (run.task.view.sql, policies)
        run.committed = True

    @precondition(lambda self: any(run.committed for run in self.runs.values()))
    @rule(data=st.data())
    def job_ends(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, run in self.runs.items() if run.committed)))
        run = self.runs.pop(name)
        done = Refreshed(self.version, {"s.d.t": 0}, "", 0, 0, 0, {}, 0, repeated=False)
        try:
            settle(self.admin, run.task, done, "r", 0.1)
        except (Conflict, NotFound):
            found = self.admin.views.get("s", "d", name) if self.is_there(name) else None
            assert found is None or (found.table_id, found.sql) != (run.task.view.table_id, run.task.view.sql)

    @invariant()
    def a_variant_stands_for_rows_of_the_sql_that_is_shown(self) -> None:
        for view in self.views():
            sql, policies = self.rows.get(view.table_id, ("", frozenset()))
            for variant in self.admin.views.variants.list("s", view.table_id):
                assert variant.policy in policies
                assert sql == view.sql

    @invariant()
    def whoever_lacks_rows_has_asked_for_them(self) -> None:
        for view in self.views():
            there = {variant.policy for variant in self.admin.views.variants.list("s", view.table_id)}
            if set(holders_by_policy(self.admin, self.admin.views.table(view))) - there:
                assert view.requested_at is not None or view.refreshed_at is None
                assert due(self.admin, view)

    @invariant()
    def nothing_is_left_of_what_was_deleted(self) -> None:
        ids = {view.table_id for view in self.views()}
        found = [item for item in self.catalog.items() if item["sk"]["S"].startswith(("view/", "variant/"))]
        assert {item["table_id"]["S"] for item in found} <= ids
        shared = {table.name for table in self.admin.tables.list("s") if table.view_properties is not None}
        assert shared == {view.name for view in self.views()}

    def views(self) -> list[Any]:
        return list(self.admin.views.list("s"))

    def is_there(self, name: str) -> bool:
        return any(view.name == name for view in self.views())


def test_rows_rights_and_requests_agree_after_every_step(catalog: Catalog) -> None:
    class OverThisCatalog(Rights):
        def __init__(self) -> None:
            super().__init__(catalog)

    run_state_machine_as_test(
        OverThisCatalog,
        settings=settings(
            max_examples=tries(5),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
