"""Combines tests of columns: a tree without NOT, flat, and reduced to what can be decided.

True stands for a part that excludes no file, False for one that excludes all.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from deltaic.pruning.column_tests import Compare, NoneOf, OneOf, Test
from deltaic.pruning.columns import TableColumn
from deltaic.pruning.intervals import Interval
from deltaic.pruning.values import Axis


class Leaf(msgspec.Struct, frozen=True):
    """One test of one column."""

    column: TableColumn
    test: Test


class AllOf(msgspec.Struct, frozen=True):
    """Every child."""

    children: tuple["Node", ...]


class AnyOf(msgspec.Struct, frozen=True):
    """At least one child."""

    children: tuple["Node", ...]


Node: TypeAlias = bool | Leaf | AllOf | AnyOf

MAX_LEAVES: Final = 256
"""Tests that are worth their time for every file; a predicate with more keeps what a part of it decides."""


def all_of(nodes: Iterator[Node] | list[Node]) -> Node:
    """Return the conjunction, flat and without what is always true."""
    flat: list[Node] = []
    for node in nodes:
        if node is False:
            return False
        flat.extend(node.children if isinstance(node, AllOf) else () if node is True else (node,))
    flat = _inequalities_joined(flat)
    if not flat:
        return True
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(nodes: Iterator[Node] | list[Node]) -> Node:
    """Return the disjunction, flat, with equalities of one column as one test."""
    flat: list[Node] = []
    for node in nodes:
        if node is True:
            return True
        flat.extend(node.children if isinstance(node, AnyOf) else () if node is False else (node,))
    flat = _equalities_joined(flat)
    if not flat:
        return False
    return flat[0] if len(flat) == 1 else AnyOf(tuple(flat))


def _equalities_joined(nodes: list[Node]) -> list[Node]:
    others, groups = _grouped(nodes, "=")
    for (column, _), found in groups.items():
        others.append(Leaf(column, OneOf.of(found) if len(found) > 1 else Compare("=", found[0])))
    return others


def _inequalities_joined(nodes: list[Node]) -> list[Node]:
    others, groups = _grouped(nodes, "<>")
    for (column, axis), found in groups.items():
        # A literal that is not known to a point excludes no file.
        points = tuple(dict.fromkeys(literal.low for literal in found if literal.is_point))
        others.append(Leaf(column, NoneOf(axis, points) if len(found) > 1 else Compare("<>", found[0])))
    return others


def _grouped(
    nodes: list[Node], operator: Literal["=", "<>"]
) -> tuple[list[Node], dict[tuple[TableColumn, Axis], list[Interval]]]:
    """Return all other nodes, and the literals of comparisons by this operator, by column and axis."""
    others: list[Node] = []
    groups: dict[tuple[TableColumn, Axis], list[Interval]] = {}
    for node in nodes:
        if isinstance(node, Leaf) and isinstance(node.test, Compare) and node.test.operator == operator:
            groups.setdefault((node.column, node.test.literal.axis), []).append(node.test.literal)
        else:
            others.append(node)
    return others, groups


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield every test of a tree."""
    if isinstance(node, Leaf):
        yield node
    elif not isinstance(node, bool):
        for child in node.children:
            yield from leaves(child)


def without_nan(node: Node) -> Node:
    """Tell the tests of a float column that a sibling, which the same row must pass, fails for NaN."""
    if not isinstance(node, AllOf):
        return node
    capped = {
        leaf.column
        for leaf in node.children
        if isinstance(leaf, Leaf)
        and leaf.column.type.axis is Axis.DOUBLE
        and (
            isinstance(leaf.test, OneOf) or (isinstance(leaf.test, Compare) and leaf.test.operator in {"<", "<=", "="})
        )
    }
    return AllOf(
        tuple(
            Leaf(child.column, replace(child.test, no_nan=True))
            if isinstance(child, Leaf) and child.column in capped and isinstance(child.test, Compare)
            else child
            for child in node.children
        )
    )


def affordable(node: Node) -> Node:
    """Return the tree with no more than MAX_LEAVES tests, each of which is made for every file."""
    return _spend(node, [MAX_LEAVES])


def _spend(node: Node, left: list[int]) -> Node:
    """Drop tests over the limit: a conjunct less keeps more files, a disjunction with one dropped keeps all."""
    if isinstance(node, Leaf):
        left[0] -= 1
        return node if left[0] >= 0 else True
    if isinstance(node, AllOf):
        return all_of([_spend(child, left) for child in node.children])
    if isinstance(node, AnyOf):
        return any_of([_spend(child, left) for child in node.children])
    return node
