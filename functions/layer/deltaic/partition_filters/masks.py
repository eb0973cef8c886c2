"""Decide for many files which ones are visible, once per combination of partition values.

Imported for the first mask, so that checking a filter does not import Arrow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from deltaic import compute as pc
from deltaic.partition_filters.readings import InvalidValue, Reading
from deltaic.pruning.column_tests import Facts
from deltaic.pruning.columns import TableColumn
from deltaic.pruning.partition_facts import values
from deltaic.pruning.statistics_facts import JsonStatistics
from deltaic.pruning.values import ColumnType

Shows: TypeAlias = Callable[[Sequence[str | None]], bool]
"""Returns whether files with these values of the filter's columns are visible."""
MayShow: TypeAlias = Callable[[Sequence[tuple[Reading, ...]]], bool]
"""Returns whether a file can be visible, given all possible values of each column."""


def mask(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Return for each file whether it is visible, by its partition values (`maps`) of one or more columns."""
    by_column = [values(maps, name) for name in columns]
    regular = [texts for texts in by_column if texts is not None]
    return _by_combination(shows, regular) if len(regular) == len(by_column) else by_file(columns, shows, maps)


def by_bounds(columns: Mapping[str, ColumnType], may_show: MayShow, statistics: pa.StringArray) -> pa.BooleanArray:
    """Return for each group of files whether one of them can be visible, by bounds of their partition values."""
    table_columns = [TableColumn((name,), type_, is_partition=True) for name, type_ in columns.items()]
    facts = JsonStatistics(table_columns).facts(statistics)
    possible = [_within(facts[column], len(statistics)) for column in table_columns]
    return pa.array([may_show(group) for group in zip(*possible, strict=True)], pa.bool_())


def _within(facts: Facts, groups: int) -> list[tuple[Reading, ...]]:
    """Return the possible values of a column in each group; any value without bounds."""
    any_value: tuple[Reading, ...] = (InvalidValue.INVALID,)
    if facts.low is None or facts.high is None:
        return [any_value] * groups
    nulls = facts.may_be_null
    may_be_null = [nulls] * groups if isinstance(nulls, bool) else nulls.to_pylist()
    return [
        any_value if low is None or high is None else ((low, high), None) if null else ((low, high),)
        for low, high, null in zip(facts.low.to_pylist(), facts.high.to_pylist(), may_be_null, strict=True)
    ]


def _by_combination(shows: Shows, by_column: Iterable[pa.StringArray]) -> pa.BooleanArray:
    """Evaluate each combination of partition values once, and return the result for each file."""
    first, *rest = (pc.dictionary_encode(texts, null_encoding="encode") for texts in by_column)
    combinations: list[tuple[str | None, ...]] = [(text,) for text in first.dictionary.to_pylist()]
    codes = first.indices
    for encoded in rest:
        distinct = encoded.dictionary.to_pylist()
        # Encode pairs as numbers again after each column, so that products always fit into 64 bits.
        numbers = pc.multiply(pc.cast(codes, pa.int64()), len(distinct))
        pairs = pc.dictionary_encode(pc.add(numbers, pc.cast(encoded.indices, pa.int64())))
        combinations = [
            (*combinations[pair // len(distinct)], distinct[pair % len(distinct)])
            for pair in pairs.dictionary.to_pylist()
        ]
        codes = pairs.indices
    visible = pa.array([shows(texts) for texts in combinations], pa.bool_())
    return pc.take(visible, codes)


def by_file(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Evaluate each file separately, for maps that are null or have missing, unordered or duplicate keys."""
    results: dict[tuple[str | None, ...], bool] = {}
    visible: list[bool] = []
    for pairs in maps.to_pylist():
        if pairs is None:
            visible.append(False)
            continue
        texts = dict(pairs)
        raws = tuple(map(texts.get, columns))
        if raws not in results:
            results[raws] = shows(raws)
        # Clients can use either value of a duplicate key.
        visible.append(results[raws] and len(texts) == len(pairs))
    return pa.array(visible, pa.bool_())
