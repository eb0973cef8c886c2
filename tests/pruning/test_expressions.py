"""Test that expression trees are comparable, hashable and immutable."""

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
from msgspec.structs import replace

LEAF = Comparison("=", Column(("a", "b")), Literal("1", "integer"))
NODES: list[Expression] = [
    LEAF,
    Column(("a",), "boolean"),
    Literal(None, "date"),
    In(Column(("a",)), (Literal("1", "integer"),)),
    StartsWith(Column(("a",)), "x"),
    IsNull(Column(("a",))),
    And((LEAF, Unknown())),
    Or((LEAF, Unknown())),
    Not(LEAF),
    Unknown(),
]


def test_equal_trees_have_equal_hashes() -> None:
    copies = [replace(node) for node in NODES]
    assert copies == NODES
    assert len(set(NODES + copies)) == len(NODES)


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_tree_is_immutable(node: Expression) -> None:
    for name in node.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(node, name, None)
    assert not hasattr(node, "__dict__")
