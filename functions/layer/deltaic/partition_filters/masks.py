"""Decides for many files at once whether they are shown: each combination of partition values is looked at once.

Imported when the first mask is made: who only checks filters does not load Arrow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.pruning.partition_facts import values

Shows: TypeAlias = Callable[[Sequence[str | None]], bool]
"""Whether files are shown that have these values in the columns that count."""


def mask(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Return for each file whether it is shown by what it has in these columns, of which there is one or more."""
    by_column = [values(maps, name) for name in columns]
    usual = [texts for texts in by_column if texts is not None]
    return _by_combination(shows, usual) if len(usual) == len(by_column) else by_file(columns, shows, maps)


def _by_combination(shows: Shows, by_column: Iterable[pa.StringArray]) -> pa.BooleanArray:
    """Ask once for each combination, and spread the answers over the files."""
    first, *others = (texts.dictionary_encode(null_encoding="encode") for texts in by_column)
    combinations: list[tuple[str | None, ...]] = [(text,) for text in first.dictionary.to_pylist()]
    codes = first.indices
    for own in others:
        distinct = own.dictionary.to_pylist()
        # Numbers of pairs, made small again: their product fits into 64 bits however many files there are.
        pairs = _pairs(codes, own.indices, len(distinct)).dictionary_encode()
        combinations = [
            (*combinations[pair // len(distinct)], distinct[pair % len(distinct)])
            for pair in pairs.dictionary.to_pylist()
        ]
        codes = pairs.indices
    shown = pa.array([shows(texts) for texts in combinations], pa.bool_())
    return shown.take(codes)


def _pairs(left: pa.Array, right: pa.Array, count: int) -> pa.Array:
    return pc.add(pc.multiply(left.cast(pa.int64()), count), right.cast(pa.int64()))


def by_file(columns: Sequence[str], shows: Shows, maps: pa.MapArray) -> pa.BooleanArray:
    """Ask for each file: slowly, of maps that are null, or whose keys are lacking, in other orders or given twice."""
    known: dict[tuple[str | None, ...], bool] = {}
    found = []
    for pairs in maps.to_pylist():
        if pairs is None:
            found.append(False)
            continue
        texts = dict(pairs)
        raws = tuple(map(texts.get, columns))
        if raws not in known:
            known[raws] = shows(raws)
        # Of a key that is given twice readers may take either value.
        found.append(known[raws] and len(texts) == len(pairs))
    return pa.array(found, pa.bool_())
