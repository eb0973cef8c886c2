"""Plans of files: their order, wider access, and the effects for recipients."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cli.test_declared_stories import declarations
from deltaic.errors import InvalidParameter
from deltaic_ops.declared.declaration import Declaration
from deltaic_ops.declared.differences import differences
from deltaic_ops.declared.plan import CatalogPlan, plan
from hypothesis import HealthCheck, given, settings
from laws import tries

T = {"location": "s3://lake/t"}
MORE = re.compile("gains |can sign in |can read |sees earlier versions |sees more rows |sees [0-9]+ columns? more ")
"""How that begins by which somebody sees more."""


def declared(table: dict[str, Any] | None = None, grant: dict[str, Any] | None = None, **more: Any) -> Declaration:
    """Return files with a table of a share that alice holds, or of which some is left out."""
    schema = {"tables": {} if table is None else {"t": T | table}, **more.pop("schema", {})}
    alice = {"grants": {} if grant is None else {"s": grant}, **more.pop("alice", {})}
    content = {"shares": {"s": {"schemas": {"a": schema}}}, "recipients": {"alice": alice}, **more}
    return Declaration.model_validate(content)


def changes_of(before: Declaration, after: Declaration) -> list[str]:
    return [change for context in plan(after, before).effects for change in context.changes]


def order(plan_: CatalogPlan) -> list[tuple[str, str]]:
    return [(step.action, f"{step.difference.kind} {step.difference.name}") for step in plan_.steps]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (declared({"history": True, "start_version": 9}, {}), declared({"history": True}, {}),
         "sees versions of s.a.t from 0"),
        (declared({}, {"ends_at": "2037-01-01"}), declared({}, {}), "has access to s without expiry"),
        (declared({}, {"ends_at": "2037-01-01"}), declared({}, {"ends_at": "2038-01-01"}),
         "has access to s until 2038-01-01 00:00 UTC"),
        (declared({}, {}), declared({"auxiliary_locations": ["s3://other/secret"]}, {}),
         "reads s.a.t from another location"),
        (declared({"iceberg": "signed"}, {}),
         declared({"iceberg": "vended", "access_modes": ["url", "dir"], "history": True}, {}),
         "can read s.a.t with Iceberg clients (vended)"),
        (declared({"storage": "m"}, {}, storages={"m": {}}),
         declared({"storage": "m"}, {}, storages={"m": {"endpoint": "https://other.test"}}),
         "reads s.a.t from another location"),
        (declared({}, {}, schema={"follow": {"source": "s3://lake/", "exclude": ["hr_*"]}}),
         declared({}, {}, schema={"follow": {"source": "s3://lake/"}}),
         "sees other tables of the source that s.a follows"),
        (declared({"partition_filter": "p = 1"}, {}), declared({}, {}), "sees more rows of s.a.t"),
        (declared({}, {}), declared({"partition_filter": "p = 1"}, {}), "sees fewer rows of s.a.t"),
        (declared({"hidden_columns": ["P"]}, {}), declared({"hidden_columns": ["q"]}, {}),
         "sees 1 column more of s.a.t"),
        (declared({}, {}, alice={"ends_at": "2037-01-01"}), declared({}, {}), "has access without expiry"),
    ],
)  # fmt: skip
def test_effects_for_recipients_are_listed(before: Declaration, after: Declaration, message: str) -> None:
    assert message in changes_of(before, after)
    assert plan(after, before).widening_titles or message.startswith("sees fewer")


def test_recipients_who_lose_rows_for_lack_of_a_property_are_listed() -> None:
    rows = {"partition_filter": "c = current_recipient('c') AND d IN current_recipient('d')"}
    with_both = {"properties": {"c": "PL", "d": ["x", "y"]}}
    with_one, complete = declared(rows, {}, alice={"properties": {"d": "x"}}), declared(rows, {}, alice=with_both)
    assert "sees no rows of s.a.t: missing c" in changes_of(complete, with_one)
    assert not [message for message in changes_of(with_one, complete) if "missing" in message]
    # A list, where one value is compared.
    assert "sees no rows of s.a.t: missing c" in changes_of(
        complete, declared(rows, {}, alice={"properties": {"c": ["PL"], "d": "x"}})
    )


@pytest.mark.parametrize(
    ("limit", "message"), [(60, "is limited to 60 requests per minute"), (0, "has no limit of requests per minute")]
)
def test_a_changed_limit_is_listed(limit: int, message: str) -> None:
    before = declared({}, {}, alice={"requests_per_minute": 0 if limit else 5})
    assert changes_of(before, declared({}, {}, alice={"requests_per_minute": limit})) == [message]


def test_swapped_filters_never_show_other_rows_in_between() -> None:
    before = declared({"partition_filter": "p = 1"}, {"partition_filter": "q = 2"})
    after = declared({"partition_filter": "q = 2"}, {"partition_filter": "p = 1"})
    plan_ = plan(after, before)
    assert [(step.action, step.difference.kind, step.is_pause) for step in plan_.steps] == [
        ("delete", "grant", True), ("update", "table", False), ("create", "grant", True),
    ]  # fmt: skip
    assert (plan_.effects, plan_.deleted_titles) == ([], [])


def test_a_filter_and_its_property_change_while_the_table_is_not_readable() -> None:
    before = declared({"partition_filter": "p = 'EU'"}, {}, alice={"properties": {"region": "US"}})
    asks = {"partition_filter": "p = current_recipient('region')"}
    after = declared(asks, {}, alice={"properties": {"region": "EU"}})
    assert order(plan(after, before)) == [
        ("delete", "grant alice s"), ("update", "table s.a.t"),
        ("update", "recipient alice"), ("create", "grant alice s"),
    ]  # fmt: skip


def test_restrictions_are_applied_before_extensions() -> None:
    before = declared({"storage": "m"}, {}, storages={"m": {}}, schema={"follow": None})
    after = declared(
        {"storage": "m", "hidden_columns": ["p"]},
        {"partition_filter": "p = 1"},
        storages={"m": {"endpoint": "https://other.test"}},
        schema={"follow": {"source": "s3://lake/"}, "comment": "c"},
    )
    assert order(plan(after, before)) == [
        ("update", "table s.a.t"), ("update", "grant alice s"), ("update", "storage m"), ("update", "schema s.a"),
    ]  # fmt: skip
    new = plan(declared(None, {}, schema={"follow": {"source": "s3://lake/"}}), Declaration())
    assert [name for _, name in order(new)] == [
        "share s",
        "schema s.a",
        "schema s.a",
        "recipient alice",
        "grant alice s",
    ]


def test_a_storage_is_deleted_after_its_last_table() -> None:
    before = declared({"storage": "m"}, storages={"m": {}})
    assert order(plan(declared({}), before)) == [("update", "table s.a.t"), ("delete", "storage m")]


def test_entries_of_different_kinds_with_the_same_name_are_all_deleted() -> None:
    before = Declaration.model_validate({"storages": {"x": {}}, "shares": {"x": {}}, "recipients": {"x": {}}})
    assert sorted(order(plan(Declaration(), before))) == [
        ("delete", "recipient x"), ("delete", "share x"), ("delete", "storage x"),
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["s3://lake/", "glue:lake"])
def test_removing_a_filtered_table_of_a_followed_source_counts_as_wider(source: str) -> None:
    follow = {"follow": {"source": source}}
    before = declared({"hidden_columns": ["p"]}, {}, schema=follow)
    plan_ = plan(declared(None, {}, schema=follow), before)
    assert plan_.widening_titles == ["table s.a.t"]
    again = "which can share table s.a.t again, without its filter: add it to `exclude` there"
    assert plan_.remarks == [f"s.a follows {source.rstrip('/')}, {again}"]
    assert plan(declared(None, {}, schema=follow), declared({}, {}, schema=follow)).widening_titles == []


def test_a_view_can_read_declared_and_followed_tables() -> None:
    view = {"views": {"v": {"location": "s3://lake/v", "source": "s.a.other", "sql": "SELECT 1"}}}
    with pytest.raises(InvalidParameter, match=r"view s\.a\.v: its source s\.a\.other is not a table in these files"):
        plan(declared({}, schema=view), Declaration())
    followed = declared({}, schema=view | {"follow": {"source": "s3://lake/"}})
    assert ("create", "view s.a.v") in order(plan(followed, Declaration()))
    assert order(plan(declared({}, schema=view), declared({}, schema=view))) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (declared(alice={"ends_at": "9999-12-31T00:00:00Z"}), declared()),
        (declared({"hidden_columns": ["P", "p"]}), declared({"hidden_columns": ["p"]})),
        (declared(alice={"properties": {"k": '[ "ż",  "b" ]'}}), declared(alice={"properties": {"k": ["ż", "b"]}})),
        (declared(alice={"addresses": ["::1", "10.0.0.1"]}), declared(alice={"addresses": ["10.0.0.1/32", "::1/128"]})),
        (declared({"partition_filter": "p = 1\n"}), declared({"partition_filter": "p = 1"})),
        (declared({"access_modes": ["dir", "url"]}), declared({"access_modes": ["url", "dir"]})),
    ],
)
def test_equivalent_spellings_are_equal(first: Declaration, second: Declaration) -> None:
    assert differences(first, second) == []


def test_the_source_of_a_model_version_is_text() -> None:
    def version(source: str) -> Declaration:
        versions = {1: {"location": "s3://lake/m", "source": source}}
        return declared(schema={"models": {"m": {"versions": versions}}})

    assert len(differences(version("runs:/ABC"), version("runs:/abc"))) == 1


@pytest.mark.parametrize(
    "alice",
    [
        {"ends_at": 20270201},
        {"ends_at": "20270201"},
        {"ends_at": "0001-01-01T00:00:00+14:00"},
        {"ends_at": "9999-12-31T23:59:59-12:00"},
        {"requests_per_minute": True},
        {"properties": {"k": ["ż" * 1000]}},
    ],
)
def test_ambiguous_values_are_refused(alice: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Value error|valid integer"):
        declared(alice=alice)
    assert declared(alice={"properties": {"k": ["ż" * 900]}}).recipients["alice"].properties


@settings(max_examples=tries(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(before=declarations(), after=declarations())
def test_wider_access_is_listed_after_all_restrictions(before: Declaration, after: Declaration) -> None:
    try:
        plan_ = plan(after, before)
    except InvalidParameter:  # another source under a view's name
        return
    wider = [number for number, step in enumerate(plan_.steps) if step.widens and step.action != "delete"]
    narrower = [number for number, step in enumerate(plan_.steps) if step.action != "create" and not step.widens]
    assert not wider or max(narrower, default=-1) < min(wider)
    assert plan_.widening_titles or not [
        change for context in plan_.effects for change in context.changes if MORE.match(change)
    ]
