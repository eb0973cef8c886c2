"""Decides which files may hold rows that a query asks for: partition values, then typed statistics, then JSON.

A file is dropped only when no row of it can make the predicate true; whatever cannot be decided keeps the file.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from deltaic.delta.binding import Binder
from deltaic.delta.bounds import Facts, Verdict, both, either
from deltaic.delta.columns import Columns, TableColumn, TableMetadata
from deltaic.delta.partition_facts import Encoded, Raw, encode
from deltaic.delta.partition_facts import facts as partition_facts
from deltaic.delta.predicate_tree import AllOf, AnyOf, Leaf, Node, all_of, any_of, leaves
from deltaic.delta.statistics_facts import JsonStatistics, from_structs, named_leaves
from deltaic.expressions import Expression

_MAX_REMEMBERED: Final = 100_000
"""Distinct partition values whose answers are kept."""


class Skipper:
    """Implements `deltaic.delta.files.FileFilter` for one predicate and one table.

    Answers for partition values are remembered, so one object serves all batches of a query; it may be shared by
    threads. No method raises for what a log may hold.
    """

    def __init__(self, expression: Expression, metadata: TableMetadata) -> None:
        bound = Binder(Columns(metadata)).bind(expression)
        self._partitions = _only_partitions(bound)
        self._statistics = _with_statistics(bound)
        columns = dict.fromkeys(leaf.column for leaf in leaves(self._statistics) if not leaf.column.is_partition)
        self._columns = tuple(columns)
        self._json: JsonStatistics | None = None
        self._remembered: dict[int, dict[Raw, bool]] = {}

    @property
    def keeps_everything(self) -> bool:
        """Whether no file can be dropped, so that the filter need not be applied at all."""
        return self._partitions is True and self._statistics is True

    @property
    def needs_statistics(self) -> bool:
        """False when partition values alone decide."""
        return bool(self._columns)

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Decide by partition values (`map<string,string>`)."""
        return self._spread(self._by_values(self._partitions, partition_values, {}), len(partition_values))

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Name the leaves of `stats_parsed` to read, such as `minValues.price`; empty: they cannot help."""
        return named_leaves(stats_parsed, self._columns)

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Decide by partition values and those leaves (other leaves are absent from the struct)."""
        facts = from_structs(stats_parsed, self._columns)
        return self._by_facts(facts, partition_values)

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Decide by partition values and the raw statistics; a null or unreadable value keeps the file."""
        if not self._columns:
            return self._spread(self._statistics, len(stats))
        if self._json is None:
            self._json = JsonStatistics(self._columns)
        return self._by_facts(self._json.facts(stats), partition_values)

    def _by_facts(self, facts: dict[TableColumn, Facts], partition_values: pa.MapArray) -> pa.BooleanArray:
        encoded: dict[str, Encoded] = {}

        def look(leaf: Leaf) -> Verdict:
            if leaf.column.is_partition:
                return self._by_values(leaf, partition_values, encoded)
            return leaf.test.may_pass(facts[leaf.column])

        return self._spread(_evaluate(self._statistics, look), len(partition_values))

    def _by_values(self, node: Node, maps: pa.MapArray, encoded: dict[str, Encoded]) -> Verdict:
        """Evaluate a tree of partition columns: once a distinct value, and for the files only what must be combined."""
        columns = {leaf.column for leaf in leaves(node)}
        if len(columns) != 1:
            return _evaluate(node, lambda leaf: self._by_values(leaf, maps, encoded))
        (column,) = columns
        name = column.path[0]
        if name not in encoded:
            encoded[name] = encode(maps, name)
        distinct, indices = encoded[name]
        known = self._remembered.get(id(node))
        if known is None or len(known) > _MAX_REMEMBERED:
            known = self._remembered[id(node)] = {}
        unseen = [raw for raw in distinct if raw not in known]
        if unseen:
            facts = partition_facts(unseen, column.type)
            verdict = _evaluate(node, lambda leaf: leaf.test.may_pass(facts))
            known.update(zip(unseen, self._spread(verdict, len(unseen)).to_pylist(), strict=True))
        verdicts = [known[raw] for raw in distinct]
        if all(verdicts):
            return True
        return pa.array(verdicts, pa.bool_()).take(indices) if any(verdicts) else False

    @staticmethod
    def _spread(verdict: Verdict, count: int) -> Any:
        return pa.repeat(pa.scalar(verdict), count) if isinstance(verdict, bool) else verdict


def _evaluate(node: Node, look: Callable[[Leaf], Verdict]) -> Verdict:
    if isinstance(node, bool):
        return node
    if isinstance(node, Leaf):
        return look(node)
    verdict: Verdict = isinstance(node, AllOf)
    join = both if isinstance(node, AllOf) else either
    for child in node.children:
        if verdict is (not isinstance(node, AllOf)):
            return verdict
        verdict = join(verdict, _evaluate(child, look))
    return verdict


def _only_partitions(node: Node) -> Node:
    """Return the tree with every test of statistics passed."""
    if isinstance(node, Leaf):
        return node if node.column.is_partition else True
    if isinstance(node, AllOf):
        return all_of([_only_partitions(child) for child in node.children])
    if isinstance(node, AnyOf):
        return any_of([_only_partitions(child) for child in node.children])
    return node


def _with_statistics(node: Node) -> Node:
    """Return the tree without the conjuncts that partition values have decided before statistics are read."""
    if isinstance(node, AllOf):
        return all_of([_with_statistics(child) for child in node.children])
    return node if any(not leaf.column.is_partition for leaf in leaves(node)) else True
