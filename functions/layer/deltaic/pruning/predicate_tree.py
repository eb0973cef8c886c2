"""Combine column tests with AND and OR to a flat tree without NOT.

A part of the tree that is True excludes no file, and one that is False excludes all.
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
    """A test of a column, which is a leaf of the tree."""

    column: TableColumn
    test: Test


class AllOf(msgspec.Struct, frozen=True):
    """AND of its children."""

    children: tuple["Node", ...]


class AnyOf(msgspec.Struct, frozen=True):
    """OR of its children."""

    children: tuple["Node", ...]


Node: TypeAlias = bool | Leaf | AllOf | AnyOf

MAX_LEAVES: Final = 256
"""Maximum number of tests per file; further tests of a predicate are ignored."""


def all_of(nodes: Iterable[Node]) -> Node:
    """Combine nodes with AND, without nested AllOf nodes and without parts that are always true."""
    flat = _flatten(nodes, AllOf, nothing=True)
    return flat if isinstance(flat, bool) else _simplify(_join_inequalities(flat), AllOf)


def any_of(nodes: Iterable[Node]) -> Node:
    """Combine nodes with OR, without nested AnyOf nodes, and with equalities of a column joined to one test."""
    flat = _flatten(nodes, AnyOf, nothing=False)
    return flat if isinstance(flat, bool) else _simplify(_join_equalities(flat), AnyOf)


def _flatten(nodes: Iterable[Node], kind: type[AllOf] | type[AnyOf], *, nothing: bool) -> list[Node] | bool:
    """Return the parts of an AND or OR, or its result: that of a deciding part, `nothing` without parts."""
    flat: list[Node] = []
    for node in nodes:
        if node is (not nothing):
            return node
        flat.extend(node.children if isinstance(node, kind) else () if node is nothing else (node,))
    return flat or nothing


def _simplify(nodes: list[Node], kind: type[AllOf] | type[AnyOf]) -> Node:
    return nodes[0] if len(nodes) == 1 else kind(tuple(nodes))


def map_leaves(node: Node, change: Callable[[Leaf], Node]) -> Node:
    """Return the tree with each test replaced by the result of `change`."""
    if isinstance(node, Leaf):
        return change(node)
    if isinstance(node, bool):
        return node
    return (all_of if isinstance(node, AllOf) else any_of)([map_leaves(child, change) for child in node.children])


def _join_equalities(nodes: list[Node]) -> list[Node]:
    remaining, groups = _group_literals(nodes, "=")
    for (column, _), literals in groups.items():
        remaining.append(Leaf(column, OneOf.of(literals) if len(literals) > 1 else Compare("=", literals[0])))
    return remaining


def _join_inequalities(nodes: list[Node]) -> list[Node]:
    remaining, groups = _group_literals(nodes, "<>")
    for (column, axis), literals in groups.items():
        # A literal that is not exact excludes no file.
        points = tuple(dict.fromkeys(literal.low for literal in literals if literal.is_point))
        remaining.append(Leaf(column, NoneOf(axis, points) if len(literals) > 1 else Compare("<>", literals[0])))
    return remaining


def _group_literals(
    nodes: list[Node], operator: Literal["=", "<>"]
) -> tuple[list[Node], dict[tuple[TableColumn, Axis], list[Interval]]]:
    """Separate comparisons by `operator`: return the other nodes, and the literals compared, by column and axis."""
    remaining: list[Node] = []
    groups: dict[tuple[TableColumn, Axis], list[Interval]] = {}
    for node in nodes:
        if isinstance(node, Leaf) and isinstance(node.test, Compare) and node.test.operator == operator:
            groups.setdefault((node.column, node.test.literal.axis), []).append(node.test.literal)
        else:
            remaining.append(node)
    return remaining, groups


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield every test of a tree."""
    if isinstance(node, Leaf):
        yield node
    elif not isinstance(node, bool):
        for child in node.children:
            yield from leaves(child)


def mark_nan_excluded(node: Node) -> Node:
    """Set `no_nan` on comparisons of a float column if another test in the same AND excludes NaN."""
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


def limit_leaves(node: Node) -> Node:
    """Replace tests after the first MAX_LEAVES by True, because each test runs for every file."""
    counter = count()

    def keep_or_drop(leaf: Leaf) -> Node:
        # True is safe: it makes a conjunction keep more files, and a disjunction keep all.
        return leaf if next(counter) < MAX_LEAVES else True

    return map_leaves(node, keep_or_drop)
