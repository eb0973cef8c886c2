"""Decides which files a recipient sees: what their partition values say under filters that are bound to a table."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from deltaic.errors import InvalidParameter, TableUnreadable
from deltaic.partition_filters.conditions import PartitionFilter
from deltaic.partition_filters.filter_binding import FilterBinder, Test, type_name
from deltaic.partition_filters.properties import value_of
from deltaic.partition_filters.readings import Reading, readings
from deltaic.partition_filters.truth import TRUE
from deltaic.pruning.columns import TableMetadata
from deltaic.pruning.values import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_READINGS: Final = 64
"""Of a file's partition values together; one that may be more things than these is not shown."""

_MAX_KNOWN: Final = 100_000
"""Combinations of partition values whose answers are kept."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Filters with a recipient's properties filled in, for the versions of a table with one schema.

    Equal where the identity is: the same identity shows the same files.
    """

    identity: str
    """Of the filters, the properties that they name and the columns that these are: 64 hexadecimal digits, the same in
    every process."""
    columns: Mapping[str, ColumnType] = field(compare=False)
    """The partition columns that count, by their physical names."""
    tests: Sequence[Test] | None = field(compare=False)
    """All of them must hold; None where the recipient lacks a property and sees nothing."""
    _answers: dict[tuple[str | None, ...], bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Answers: the row groups of a checkpoint have the same partitions again and again."""

    def sees(self, partition_values: Mapping[str, str | None] | None) -> bool:
        """Return whether a file with these values, by physical name, is shown; a column that it leaves out is null.

        None is an action that tells no partition values, which is shown only where no column counts.
        """
        if partition_values is None:
            return not self.columns and self.shows(())
        return self.shows(tuple(map(partition_values.get, self.columns)))

    def shows(self, raws: Sequence[str | None]) -> bool:
        """Return whether files are shown that have these values in `columns`, in that order."""
        if self.tests is None:
            return False
        texts = tuple(raws)
        answer = self._answers.get(texts)
        if answer is None:
            if len(self._answers) >= _MAX_KNOWN:
                self._answers.clear()
            answer = self._answers[texts] = self._shows(texts, self.tests)
        return answer

    def _shows(self, raws: Sequence[str | None], tests: Sequence[Test]) -> bool:
        possible: list[tuple[Reading, ...]] = [
            readings(raw, type_) for raw, type_ in zip(raws, self.columns.values(), strict=True)
        ]
        if prod(map(len, possible)) > _MAX_READINGS:
            return False
        return all(test(row) == TRUE for row in product(*possible) for test in tests)

    def may_show(self, possible: Sequence[tuple[Reading, ...]]) -> bool:
        """Return whether a file may be shown of which each of `columns` is one of several things, or within spans."""
        if self.tests is None:
            return False
        if prod(map(len, possible)) > _MAX_READINGS:
            return True
        return any(all(test(row) & TRUE for test in self.tests) for row in product(*possible))

    def by_bounds(self, statistics: "pa.StringArray") -> "pa.BooleanArray":
        """Return for each group of files whether one may be shown, by statistics as JSON that hold for all their rows.

        It says too much, never too little: what is shown, values alone decide.
        """
        import pyarrow as pa

        from deltaic.partition_filters.masks import by_bounds

        if not self.columns:
            return pa.array([self.may_show(())] * len(statistics), pa.bool_())
        return by_bounds(self.columns, self.may_show, statistics)

    def mask(self, maps: "pa.MapArray") -> "pa.BooleanArray":
        """Return for each file whether it is shown, without nulls; a null map tells no partition values."""
        import pyarrow as pa

        from deltaic.partition_filters.masks import mask

        if self.tests is None or not self.columns:
            return pa.array([self.sees(None)] * len(maps), pa.bool_())
        return mask(tuple(self.columns), self.shows, maps)


def evaluate(filters: Sequence[PartitionFilter], properties: Mapping[str, str], metadata: TableMetadata) -> Evaluated:
    """Bind filters to a table and a recipient; raises TableUnreadable where one does not fit the table."""
    binder = FilterBinder(metadata, properties)
    try:
        tests = [binder.bind(one) for one in filters]
    except InvalidParameter as error:
        raise TableUnreadable(
            "the table's partition filter does not fit the schema of this version: the provider must correct it, "
            "and other versions may still be read",
            error.message,
        ) from None
    named = sorted({name for one in filters for name in one.properties})
    used = [
        [one.text for one in filters],
        [[name, value_of(properties[name]) if name in properties else None] for name in named],
        [[name, type_name(type_)] for name, type_ in binder.columns.items()],
    ]
    identity = hashlib.sha256(json.dumps(used, separators=(",", ":")).encode()).hexdigest()
    return Evaluated(identity, binder.columns, None if binder.lacking else tests)
