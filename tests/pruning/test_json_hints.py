"""Test that JSON hints are parsed, and that malformed ones filter nothing."""

import json
from typing import Any

import pytest
from deltaic.pruning.expressions import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    Unknown,
)
from deltaic.pruning.json_hints import parse_json
from hypothesis import given
from hypothesis import strategies as st

HIRED = {"op": "column", "name": "hireDate", "valueType": "date"}
DAY = {"op": "literal", "value": "2021-04-29", "valueType": "date"}
COLUMN = Column(("hireDate",), "date")
LITERAL = Literal("2021-04-29", "date")


def node(op: str, *children: Any) -> dict[str, Any]:
    return {"op": op, "children": list(children)}


def parse(tree: Any) -> Expression | None:
    return parse_json(json.dumps(tree))


@pytest.mark.parametrize(
    ("op", "operator"),
    [
        ("equal", "="),
        ("lessThan", "<"),
        ("lessThanOrEqual", "<="),
        ("greaterThan", ">"),
        ("greaterThanOrEqual", ">="),
        ("notEqual", "<>"),
        ("equalNullSafe", "<=>"),
    ],
)
def test_comparisons_keep_their_operands_in_order(op: str, operator: Any) -> None:
    assert parse(node(op, HIRED, DAY)) == Comparison(operator, COLUMN, LITERAL)
    assert parse(node(op, DAY, HIRED)) == Comparison(operator, LITERAL, COLUMN)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (node("isNull", HIRED), IsNull(COLUMN)),
        (node("not", node("isNull", HIRED)), Not(IsNull(COLUMN))),
        (node("and", node("isNull", HIRED), HIRED), And((IsNull(COLUMN), COLUMN))),
        (node("or", node("isNull", HIRED), HIRED, HIRED), Or((IsNull(COLUMN), COLUMN, COLUMN))),
        (node("in", HIRED, DAY, DAY), In(COLUMN, (LITERAL, LITERAL))),
        (
            node("startsWith", {"op": "column", "name": "s"}, {"op": "literal", "value": "x", "valueType": "string"}),
            StartsWith(Column(("s",)), "x"),
        ),
        ({"op": "literal", "value": "true", "valueType": "bool"}, Literal("true", "boolean")),
        (
            node(
                "equal", {"op": "column", "name": "id", "valueType": "LONG"}, DAY | {"value": 25, "valueType": "long"}
            ),
            Comparison("=", Column(("id",), "long"), Literal("25", "long")),
        ),
    ],
    ids=["isNull", "not", "and", "or", "in", "startsWith", "literal", "lenient"],
)
def test_ops_are_parsed_to_nodes(tree: Any, expected: Expression) -> None:
    assert parse(tree) == expected


def leaf(op: str, kind: str, text: str) -> dict[str, Any]:
    return {"op": op, "value" if op == "literal" else "name": text, "valueType": kind}


NULL, EPOCH = leaf("literal", "string", "null"), leaf("literal", "timestamp", "1970-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            node(
                "lessThan", leaf("column", "timestamp", "t"), leaf("literal", "timestamp", "2026-01-01T10:20:30.123Z")
            ),
            Comparison("<", Column(("t",), "timestamp"), Literal("2026-01-01T10:20:30.123Z", "timestamp", 999)),
        ),
        (node("isNull", NULL), Unknown()),
        (node("isNull", EPOCH), Unknown()),
        (node("isNull", leaf("literal", "int", "null")), Unknown()),
        (node("isNull", leaf("literal", "string", "x")), IsNull(Literal("x", "string"))),
        (node("equalNullSafe", leaf("column", "string", "s"), NULL), Unknown()),
        (node("equalNullSafe", leaf("column", "timestamp", "t"), EPOCH), Unknown()),
        (
            node("equal", leaf("column", "string", "s"), NULL),
            Comparison("=", Column(("s",), "string"), Literal("null", "string")),
        ),
        (node("equal", leaf("column", "long", "d"), leaf("literal", "double", "5.0")), Unknown()),
        (node("in", leaf("column", "int", "d"), leaf("literal", "long", "5")), Unknown()),
        (node("equal", leaf("column", "string", "s"), leaf("literal", "string", "a\ufffd")), Unknown()),
    ],
    ids=[
        "a time cut to milliseconds",
        "null as text",
        "null as the epoch",
        "null as text of another type",
        "a literal that is not null",
        "null-safe equality with null",
        "null-safe equality with the epoch",
        "equal to what may be null",
        "an omitted cast",
        "an omitted cast of a list",
        "bytes that are not UTF-8",
    ],
)
def test_details_that_the_connector_loses_are_unknown(tree: Any, expected: Expression) -> None:
    assert parse(tree) == expected


@pytest.mark.parametrize(
    "hint",
    ["", "  ", "{", "\ud800", "[" * 100_000, json.dumps(node("not", HIRED)) + " " * (1 << 20), '"x', "{'op':1}"],
    ids=["empty", "blank", "cut", "surrogate", "deep", "over 1 MiB", "open string", "not JSON"],
)
def test_invalid_text_filters_nothing(hint: str) -> None:
    assert parse_json(hint) is None


@pytest.mark.parametrize(
    "tree",
    [
        None,
        5,
        "equal",
        [],
        {},
        {"op": 5},
        {"op": "mystery"},
        {"op": "equal"},
        node("equal", HIRED),
        node("equal", HIRED, DAY, DAY),
        node("equal", HIRED, node("not", HIRED)),
        node("isNull"),
        node("isNull", HIRED, HIRED),
        node("not"),
        node("and"),
        node("or"),
        node("in"),
        node("in", HIRED),
        node("in", HIRED, HIRED),
        node("startsWith", DAY, HIRED),
        {"op": "column", "valueType": "int"},
        {"op": "column", "name": "x", "valueType": "blob"},
        {"op": "literal", "valueType": "int"},
        {"op": "literal", "value": "1"},
        {"op": "literal", "value": None, "valueType": "int"},
        {"op": "literal", "value": [1], "valueType": "int"},
        {"op": "and", "children": {"op": "equal"}},
    ],
    ids=ascii,
)
def test_a_malformed_node_is_unknown_and_its_siblings_are_parsed(tree: Any) -> None:
    assert parse(tree) == Unknown()
    supported = node("equal", HIRED, DAY)
    assert parse(node("and", supported, tree)) == And((Comparison("=", COLUMN, LITERAL), Unknown()))


@pytest.mark.parametrize(("levels", "is_read"), [(99, True), (100, False)], ids=["100 levels", "101 levels"])
def test_depth_is_limited(levels: int, *, is_read: bool) -> None:
    tree: dict[str, Any] = node("isNull", HIRED)
    for _ in range(levels):
        tree = node("not", tree)
    assert (parse(tree) is not None) == is_read


NODES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.just(HIRED), st.just(DAY), st.none(), st.text(max_size=3)),
    lambda inner: st.fixed_dictionaries(
        {"op": st.sampled_from(["and", "or", "not", "equal", "isNull", "in", "startsWith", "column", "?"])},
        optional={"children": st.one_of(inner, st.lists(inner, max_size=3)), "name": inner, "value": inner},
    ),
)


@given(NODES)
def test_no_tree_raises(tree: Any) -> None:
    parse(tree)
