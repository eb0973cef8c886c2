"""Filter files by a predicate: by partition values, then typed statistics, then JSON statistics.

A file is dropped only if none of its rows can make the predicate true.
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
from deltaic.pruning.statistics_facts import JsonStatistics, are_complete, find_leaves, from_structs

_MAX_ANSWERS: Final = 100_000
"""Number of distinct partition values whose results are cached."""


class Skipper:
    """File filter (`deltaic.delta.file_filter.FileFilter`) for one predicate and one table.

    Results for partition values are cached, so use one object for all batches of a query; threads can share it. Invalid
    statistics or partition values raise no error.
    """

    def __init__(self, expression: Expression, metadata: TableMetadata) -> None:
        bound = PredicateBinder(Columns(metadata)).bind(expression)
        # Assumes that every test of statistics passes.
        self._partitions = map_leaves(bound, lambda leaf: leaf if leaf.column.is_partition else True)
        self._statistics = _with_statistics(bound)
        columns = dict.fromkeys(leaf.column for leaf in leaves(self._statistics) if not leaf.column.is_partition)
        self._columns = tuple(columns)
        self._bound = bound
        self._all_columns = tuple(dict.fromkeys(leaf.column for leaf in leaves(bound)))
        table = (metadata.schema_string, tuple(metadata.partition_columns), frozenset(metadata.configuration.items()))
        self._identity = (expression, table)
        self._answers: dict[int, _PartitionAnswers] = {}

    @property
    def identity(self) -> Hashable:
        """Key of predicate and schema, on which the results depend."""
        return self._identity

    @property
    def keeps_everything(self) -> bool:
        """Return whether no file can be dropped, so that the filter is not needed."""
        return self._partitions is True and self._statistics is True

    @property
    def needs_statistics(self) -> bool:
        """Return whether statistics can change the result."""
        return bool(self._columns)

    @property
    def needs_partition_values(self) -> bool:
        """Return whether partition values can change the result."""
        return self._partitions is not True or any(column.is_partition for column in self._all_columns)

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        """Select row groups by JSON statistics that are valid for all their files and include partition columns."""
        if not self._all_columns:
            return _to_array(self._bound is not False, len(statistics))
        facts = self._bounds_reader.facts(statistics)
        return _to_array(_evaluate(self._bound, lambda leaf: leaf.test.may_pass(facts[leaf.column])), len(statistics))

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Select files by their partition values (`map<string,string>`)."""
        return _to_array(self._evaluate_partitions(self._partitions, partition_values, {}), len(partition_values))

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Return the leaf columns of `stats_parsed` to read to drop files, such as `minValues.price`, or none."""
        return find_leaves(stats_parsed, self._columns)

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Select files by partition values and the columns in `typed_leaves`; the struct has no other columns."""
        facts = from_structs(stats_parsed, self._columns)
        return self._filter_by_facts(facts, partition_values)

    def is_decided_by(self, stats_parsed: pa.StructArray) -> bool:
        """Return whether these typed statistics are complete, so that JSON statistics cannot drop more files."""
        return are_complete(stats_parsed, self._columns)

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Select files by partition values and JSON statistics; null or invalid statistics keep the file."""
        if not self._columns:
            return _to_array(self._statistics is not False, len(stats))
        return self._filter_by_facts(self._statistics_reader.facts(stats), partition_values)

    @cached_property
    def _bounds_reader(self) -> JsonStatistics:
        # Share the reader, which is slow to create; most predicates have no partition columns.
        return self._statistics_reader if self._all_columns == self._columns else JsonStatistics(self._all_columns)

    @cached_property
    def _statistics_reader(self) -> JsonStatistics:
        return JsonStatistics(self._columns)

    def _filter_by_facts(self, facts: dict[TableColumn, Facts], partition_values: pa.MapArray) -> pa.BooleanArray:
        columns_read: dict[str, pa.StringArray | None] = {}

        def evaluate_leaf(leaf: Leaf) -> Verdict:
            if leaf.column.is_partition:
                return self._evaluate_partitions(leaf, partition_values, columns_read)
            return leaf.test.may_pass(facts[leaf.column])

        return _to_array(_evaluate(self._statistics, evaluate_leaf), len(partition_values))

    def _evaluate_partitions(
        self, node: Node, maps: pa.MapArray, columns_read: dict[str, pa.StringArray | None]
    ) -> Verdict:
        """Evaluate tests of partition columns once for each distinct value."""
        columns = {leaf.column for leaf in leaves(node)}
        if len(columns) != 1:
            return _evaluate(node, lambda leaf: self._evaluate_partitions(leaf, maps, columns_read))
        (column,) = columns
        name = column.path[0]
        if name not in columns_read:
            columns_read[name] = values_of(maps, name)
        values = columns_read[name]
        if values is None:
            return _decide(node, values_of_any_shape(maps, name), column)
        answers = self._answers.get(id(node))
        if answers is None or len(answers.values) > _MAX_ANSWERS:
            answers = _PartitionAnswers.of(node, column)
        verdict, self._answers[id(node)] = answers.verdicts(values)
        return verdict


def _to_array(verdict: Verdict, count: int) -> pa.BooleanArray:
    if not isinstance(verdict, bool):
        return verdict
    return pc.cast(pa.repeat(pa.scalar(verdict), count), pa.bool_())


class _PartitionAnswers(NamedTuple):
    """Cached results of a tree of tests for values of one partition column; immutable and thread-safe."""

    node: Node
    column: TableColumn
    values: pa.StringArray
    answers: pa.BooleanArray

    @classmethod
    def of(cls, node: Node, column: TableColumn) -> "_PartitionAnswers":
        return cls(node, column, pa.array([], pa.string()), pa.array([], pa.bool_()))

    def verdicts(self, values: pa.StringArray) -> tuple[Verdict, "_PartitionAnswers"]:
        """Return for each value whether files with it are kept, and a cache that includes all these values."""
        if not len(self.values):
            encoded = pc.dictionary_encode(values, "encode")
            extended = self._extend(pc.cast(encoded.dictionary, pa.string()))
            return pc.take(extended.answers, encoded.indices), extended
        indices = pc.index_in(values, value_set=self.values)
        if not indices.null_count:
            return pc.take(self.answers, indices), self
        extended = self._extend(pc.unique(pc.filter(values, pc.is_null(indices))))
        return pc.take(extended.answers, pc.index_in(values, value_set=extended.values)), extended

    def _extend(self, values: pa.StringArray) -> "_PartitionAnswers":
        answers = _decide(self.node, values.to_pylist(), self.column)
        return self._replace(
            values=pa.concat_arrays([self.values, values]), answers=pa.concat_arrays([self.answers, answers])
        )


def _decide(node: Node, raws: Sequence[Raw], column: TableColumn) -> pa.BooleanArray:
    facts = partition_facts(raws, column.type)
    return _to_array(_evaluate(node, lambda leaf: leaf.test.may_pass(facts)), len(raws))


def _evaluate(node: Node, evaluate_leaf: Callable[[Leaf], Verdict]) -> Verdict:
    if isinstance(node, bool):
        return node
    if isinstance(node, Leaf):
        return evaluate_leaf(node)
    verdict: Verdict = isinstance(node, AllOf)
    join = both if isinstance(node, AllOf) else either
    for child in node.children:
        if verdict is (not isinstance(node, AllOf)):
            return verdict
        verdict = join(verdict, _evaluate(child, evaluate_leaf))
    return verdict


def _with_statistics(node: Node) -> Node:
    """Return the tree without parts of an AND that need only partition values."""
    if isinstance(node, AllOf):
        return all_of([_with_statistics(child) for child in node.children])
    return node if any(not leaf.column.is_partition for leaf in leaves(node)) else True
