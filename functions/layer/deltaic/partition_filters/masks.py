"""Decides for many files at once whether they are shown: each combination of partition values is looked at once.

Imported when the first mask is made: who only checks filters does not load Arrow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from deltaic import compute as pc
from deltaic.partition_filters.readings import Reading, Unreadable
from deltaic.pruning.column_tests import Facts
from deltaic.pruning.columns import TableColumn
from deltaic.pruning.partition_facts import values
from deltaic.pruning.statistics_facts import JsonStatistics
from deltaic.pruning.values import ColumnType

Shows: TypeAlias = Callable[[Sequence[str | None]], bool]
"""Whether files are shown that have these values in the columns that count."""
MayShow: TypeAlias = Callable[[Sequence[tuple[Reading, ...]]], bool]
"""Whether a file may be shown, given what each of the columns may be."""


def mask(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Return for each file whether it is shown by what it has in these columns, of which there is one or more."""
    by_column = [values(maps, name) for name in columns]
    usual = [texts for texts in by_column if texts is not None]
    return _by_combination(shows, usual) if len(usual) == len(by_column) else by_file(columns, shows, maps)


def by_bounds(columns: Mapping[str, ColumnType], may_show: MayShow, statistics: pa.StringArray) -> pa.BooleanArray:
    """Return for each group of files whether one may be shown, by bounds of its partition values."""
    named = [TableColumn((name,), type_, is_partition=True) for name, type_ in columns.items()]
    facts = JsonStatistics(named).facts(statistics)
    possible = [_within(facts[column], len(statistics)) for column in named]
    return pa.array([may_show(group) for group in zip(*possible, strict=True)], pa.bool_())


def _within(facts: Facts, groups: int) -> list[tuple[Reading, ...]]:
    """Return what a column may be in each group; where bounds are lacking, anything."""
    anything: tuple[Reading, ...] = (Unreadable.UNREADABLE,)
    if facts.low is None or facts.high is None:
        return [anything] * groups
    nulls = facts.may_be_null
    may_be_null = [nulls] * groups if isinstance(nulls, bool) else nulls.to_pylist()
    return [
        anything if low is None or high is None else ((low, high), None) if null else ((low, high),)
        for low, high, null in zip(facts.low.to_pylist(), facts.high.to_pylist(), may_be_null, strict=True)
    ]


def _by_combination(shows: Shows, by_column: Iterable[pa.StringArray]) -> pa.BooleanArray:
    """Ask once for each combination, and spread the answers over the files."""
    first, *others = (pc.dictionary_encode(texts, null_encoding="encode") for texts in by_column)
    combinations: list[tuple[str | None, ...]] = [(text,) for text in first.dictionary.to_pylist()]
    codes = first.indices
    for own in others:
        distinct = own.dictionary.to_pylist()
        # Numbers of pairs, made small again: their product fits into 64 bits however many files there are.
        numbers = pc.multiply(pc.cast(codes, pa.int64()), len(distinct))
        pairs = pc.dictionary_encode(pc.add(numbers, pc.cast(own.indices, pa.int64())))
        combinations = [
            (*combinations[pair // len(distinct)], distinct[pair % len(distinct)])
            for pair in pairs.dictionary.to_pylist()
        ]
        codes = pairs.indices
    shown = pa.array([shows(texts) for texts in combinations], pa.bool_())
    return pc.take(shown, codes)


def by_file(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Ask for each file: slowly, of maps that are null, or whose keys are lacking, in other orders or given twice."""
    answers: dict[tuple[str | None, ...], bool] = {}
    shown = []
    for pairs in maps.to_pylist():
        if pairs is None:
            shown.append(False)
            continue
        texts = dict(pairs)
        raws = tuple(map(texts.get, columns))
        if raws not in answers:
            answers[raws] = shows(raws)
        # Of a key that is given twice readers may take either value.
        shown.append(answers[raws] and len(texts) == len(pairs))
    return pa.array(shown, pa.bool_())
