"""Decides which files may hold rows that a query asks for: partition values, then typed statistics, then JSON.

A file is dropped only when no row of it can make the predicate true; whatever cannot be decided keeps the file.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.column_tests import Facts, Verdict, both, either
from deltaic.pruning.columns import Columns, TableColumn, TableMetadata
from deltaic.pruning.expressions import Expression
from deltaic.pruning.partition_facts import Raw, values_of_any_shape
from deltaic.pruning.partition_facts import facts as partition_facts
from deltaic.pruning.partition_facts import values as values_of
from deltaic.pruning.predicate_binding import PredicateBinder
from deltaic.pruning.predicate_tree import AllOf, Leaf, Node, all_of, leaves, map_leaves
from deltaic.pruning.statistics_facts import JsonStatistics, are_whole, from_structs, named_leaves

_MAX_REMEMBERED: Final = 100_000
"""Distinct partition values whose answers are kept."""


class Skipper:
    """Implements `deltaic.delta.file_filter.FileFilter` for one predicate and one table.

    Answers for partition values are remembered, so one object serves all batches of a query; it may be shared by
    threads. No method raises for what a log may hold.
    """

    def __init__(self, expression: Expression, metadata: TableMetadata) -> None:
        bound = PredicateBinder(Columns(metadata)).bind(expression)
        # With every test of statistics passed.
        self._partitions = map_leaves(bound, lambda leaf: leaf if leaf.column.is_partition else True)
        self._statistics = _with_statistics(bound)
        columns = dict.fromkeys(leaf.column for leaf in leaves(self._statistics) if not leaf.column.is_partition)
        self._columns = tuple(columns)
        self._bound = bound
        self._all_columns = tuple(dict.fromkeys(leaf.column for leaf in leaves(bound)))
        table = (metadata.schema_string, tuple(metadata.partition_columns), frozenset(metadata.configuration.items()))
        self._identity = (expression, table)
        self._remembered: dict[int, _PartitionAnswers] = {}

    @property
    def identity(self) -> Hashable:
        """The predicate, and the schema that its columns are found in."""
        return self._identity

    @property
    def keeps_everything(self) -> bool:
        """Whether no file can be dropped, so that the filter need not be applied at all."""
        return self._partitions is True and self._statistics is True

    @property
    def needs_statistics(self) -> bool:
        """False when partition values alone decide."""
        return bool(self._columns)

    @property
    def needs_partition_values(self) -> bool:
        """False when the predicate is about other columns alone."""
        return self._partitions is not True or any(column.is_partition for column in self._all_columns)

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        """Decide about row groups by statistics, in JSON, that hold for all their files, partition columns included."""
        if not self._all_columns:
            return _spread(self._bound is not False, len(statistics))
        facts = self._of_bounds.facts(statistics)
        return _spread(_evaluate(self._bound, lambda leaf: leaf.test.may_pass(facts[leaf.column])), len(statistics))

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Decide by partition values (`map<string,string>`)."""
        return _spread(self._by_values(self._partitions, partition_values, {}), len(partition_values))

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Name the leaves of `stats_parsed` to read, such as `minValues.price`; empty: they cannot help."""
        return named_leaves(stats_parsed, self._columns)

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Decide by partition values and those leaves (other leaves are absent from the struct)."""
        facts = from_structs(stats_parsed, self._columns)
        return self._by_facts(facts, partition_values)

    def is_told_by(self, stats_parsed: pa.StructArray) -> bool:
        """Tell whether those leaves say everything of these files."""
        return are_whole(stats_parsed, self._columns)

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Decide by partition values and the raw statistics; a null or unreadable value keeps the file."""
        if not self._columns:
            return _spread(self._statistics is not False, len(stats))
        return self._by_facts(self._of_files.facts(stats), partition_values)

    @cached_property
    def _of_bounds(self) -> JsonStatistics:
        # What reads them takes a while to make, and most predicates have no partition columns.
        return self._of_files if self._all_columns == self._columns else JsonStatistics(self._all_columns)

    @cached_property
    def _of_files(self) -> JsonStatistics:
        return JsonStatistics(self._columns)

    def _by_facts(self, facts: dict[TableColumn, Facts], partition_values: pa.MapArray) -> pa.BooleanArray:
        read: dict[str, pa.StringArray | None] = {}

        def look(leaf: Leaf) -> Verdict:
            if leaf.column.is_partition:
                return self._by_values(leaf, partition_values, read)
            return leaf.test.may_pass(facts[leaf.column])

        return _spread(_evaluate(self._statistics, look), len(partition_values))

    def _by_values(self, node: Node, maps: pa.MapArray, read: dict[str, pa.StringArray | None]) -> Verdict:
        """Evaluate a tree of partition columns: once a distinct value, and for the files only what must be combined."""
        columns = {leaf.column for leaf in leaves(node)}
        if len(columns) != 1:
            return _evaluate(node, lambda leaf: self._by_values(leaf, maps, read))
        (column,) = columns
        name = column.path[0]
        if name not in read:
            read[name] = values_of(maps, name)
        values = read[name]
        if values is None:
            return _decide(node, values_of_any_shape(maps, name), column)
        known = self._remembered.get(id(node))
        if known is None or len(known.values) > _MAX_REMEMBERED:
            known = _PartitionAnswers.of(node, column)
        verdict, self._remembered[id(node)] = known.verdicts(values)
        return verdict


def _spread(verdict: Verdict, count: int) -> pa.BooleanArray:
    if not isinstance(verdict, bool):
        return verdict
    return pc.cast(pa.repeat(pa.scalar(verdict), count), pa.bool_())


class _PartitionAnswers(NamedTuple):
    """A tree's answers for the values of one partition column seen so far; never changed, so threads may share it."""

    node: Node
    column: TableColumn
    values: pa.StringArray
    answers: pa.BooleanArray

    @classmethod
    def of(cls, node: Node, column: TableColumn) -> "_PartitionAnswers":
        return cls(node, column, pa.array([], pa.string()), pa.array([], pa.bool_()))

    def verdicts(self, values: pa.StringArray) -> tuple[Verdict, "_PartitionAnswers"]:
        """Return the answers for values, and what is known afterwards."""
        if not len(self.values):
            encoded = pc.dictionary_encode(values, "encode")
            learned = self._learn(pc.cast(encoded.dictionary, pa.string()))
            return pc.take(learned.answers, encoded.indices), learned
        places = pc.index_in(values, value_set=self.values)
        if not places.null_count:
            return pc.take(self.answers, places), self
        learned = self._learn(pc.unique(pc.filter(values, pc.is_null(places))))
        return pc.take(learned.answers, pc.index_in(values, value_set=learned.values)), learned

    def _learn(self, values: pa.StringArray) -> "_PartitionAnswers":
        answers = _decide(self.node, values.to_pylist(), self.column)
        return self._replace(
            values=pa.concat_arrays([self.values, values]), answers=pa.concat_arrays([self.answers, answers])
        )


def _decide(node: Node, raws: Sequence[Raw], column: TableColumn) -> pa.BooleanArray:
    facts = partition_facts(raws, column.type)
    return _spread(_evaluate(node, lambda leaf: leaf.test.may_pass(facts)), len(raws))


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


def _with_statistics(node: Node) -> Node:
    """Return the tree without the conjuncts that partition values have decided before statistics are read."""
    if isinstance(node, AllOf):
        return all_of([_with_statistics(child) for child in node.children])
    return node if any(not leaf.column.is_partition for leaf in leaves(node)) else True
