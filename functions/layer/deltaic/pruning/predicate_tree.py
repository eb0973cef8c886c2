"""Combines tests of columns: a tree without NOT, flat, and reduced to what can be decided.

True stands for a part that excludes no file, False for one that excludes all.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
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


def all_of(nodes: Iterable[Node]) -> Node:
    """Return the conjunction, flat and without what is always true."""
    flat = _flat(nodes, AllOf, nothing=True)
    return flat if isinstance(flat, bool) else _only_or(_inequalities_joined(flat), AllOf)


def any_of(nodes: Iterable[Node]) -> Node:
    """Return the disjunction, flat, with equalities of one column as one test."""
    flat = _flat(nodes, AnyOf, nothing=False)
    return flat if isinstance(flat, bool) else _only_or(_equalities_joined(flat), AnyOf)


def _flat(nodes: Iterable[Node], kind: type[AllOf] | type[AnyOf], *, nothing: bool) -> list[Node] | bool:
    """Return the parts of a junction, or what it comes to where one part decides it or none is left."""
    flat: list[Node] = []
    for node in nodes:
        if node is (not nothing):
            return node
        flat.extend(node.children if isinstance(node, kind) else () if node is nothing else (node,))
    return flat or nothing


def _only_or(nodes: list[Node], kind: type[AllOf] | type[AnyOf]) -> Node:
    return nodes[0] if len(nodes) == 1 else kind(tuple(nodes))


def map_leaves(node: Node, change: Callable[[Leaf], Node]) -> Node:
    """Return the tree with other nodes in the place of its tests."""
    if isinstance(node, Leaf):
        return change(node)
    if isinstance(node, bool):
        return node
    return (all_of if isinstance(node, AllOf) else any_of)([map_leaves(child, change) for child in node.children])


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
    places = count()

    def spend(leaf: Leaf) -> Node:
        # A conjunct less keeps more files, a disjunction with one dropped keeps all.
        return leaf if next(places) < MAX_LEAVES else True

    return map_leaves(node, spend)
