"""Decide which files a recipient sees, by filters that are bound to a table and the recipient's properties."""

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
"""Maximum number of combinations of a file's possible partition values; a file with more is hidden."""

_MAX_CACHED: Final = 100_000
"""Maximum number of combinations of partition values whose results are cached."""


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """Filters bound to a recipient's properties, and to versions of a table with the same schema.

    Filters with the same identity are equal and show the same files.
    """

    identity: str
    """Hash of filters, properties and columns in 64 hexadecimal digits, the same in every process."""
    columns: Mapping[str, ColumnType] = field(compare=False)
    """Types of the filter's partition columns, by physical name."""
    tests: Sequence[Test] | None = field(compare=False)
    """Tests that must all be true; None if the recipient lacks a property and sees no files."""
    _results: dict[tuple[str | None, ...], bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cached results, because row groups of a checkpoint repeat partition values."""

    def sees(self, partition_values: Mapping[str, str | None] | None) -> bool:
        """Return whether a file with these partition values is visible. A missing column is null.

        None means that the log action has no partition values: the file is visible only if the filter has no columns.
        """
        if partition_values is None:
            return not self.columns and self.shows(())
        return self.shows(tuple(map(partition_values.get, self.columns)))

    def shows(self, raws: Sequence[str | None]) -> bool:
        """Return whether files with these values of `columns`, in this order, are visible."""
        if self.tests is None:
            return False
        texts = tuple(raws)
        result = self._results.get(texts)
        if result is None:
            if len(self._results) >= _MAX_CACHED:
                self._results.clear()
            result = self._results[texts] = self._shows(texts, self.tests)
        return result

    def _shows(self, raws: Sequence[str | None], tests: Sequence[Test]) -> bool:
        possible: list[tuple[Reading, ...]] = [
            readings(raw, type_) for raw, type_ in zip(raws, self.columns.values(), strict=True)
        ]
        if prod(map(len, possible)) > _MAX_READINGS:
            return False
        return all(test(row) == TRUE for row in product(*possible) for test in tests)

    def may_show(self, possible: Sequence[tuple[Reading, ...]]) -> bool:
        """Return whether a file can be visible, given the possible values of each column in `columns`."""
        if self.tests is None:
            return False
        if prod(map(len, possible)) > _MAX_READINGS:
            return True
        return any(all(test(row) & TRUE for test in self.tests) for row in product(*possible))

    def by_bounds(self, statistics: "pa.StringArray") -> "pa.BooleanArray":
        """Return for each group of files whether one can be visible, by JSON statistics of partition values.

        The result can include groups without visible files, but omits none with visible files.
        """
        import pyarrow as pa

        from deltaic.partition_filters.masks import by_bounds

        if not self.columns:
            return pa.array([self.may_show(())] * len(statistics), pa.bool_())
        return by_bounds(self.columns, self.may_show, statistics)

    def mask(self, maps: "pa.MapArray") -> "pa.BooleanArray":
        """Return for each file, by its partition values, whether it is visible. Null means no partition values."""
        import pyarrow as pa

        from deltaic.partition_filters.masks import mask

        if self.tests is None or not self.columns:
            return pa.array([self.sees(None)] * len(maps), pa.bool_())
        return mask(tuple(self.columns), self.shows, maps)


def evaluate(filters: Sequence[PartitionFilter], properties: Mapping[str, str], metadata: TableMetadata) -> BoundFilter:
    """Bind filters to a table and a recipient; raises TableUnreadable if a filter does not match the schema."""
    binder = FilterBinder(metadata, properties)
    try:
        tests = [binder.bind(item) for item in filters]
    except InvalidParameter as error:
        raise TableUnreadable(
            "the table's partition filter does not match the schema of this version: ask the provider to fix it, or "
            "read another version",
            error.message,
        ) from None
    names = sorted({name for item in filters for name in item.properties})
    used = [
        [item.text for item in filters],
        [[name, value_of(properties[name]) if name in properties else None] for name in names],
        [[name, type_name(type_)] for name, type_ in binder.columns.items()],
    ]
    identity = hashlib.sha256(json.dumps(used, separators=(",", ":")).encode()).hexdigest()
    return BoundFilter(identity, binder.columns, None if binder.is_missing_property else tests)
