"""Makes typed statistics of files from those in JSON, as Spark would have written both.

Delta protocol, "Per-file Statistics". What cannot be said in the column's type is null, which says nothing: a number
that is too large, a time of another form, NaN, a text that is no JSON. Times stay cut to milliseconds, and maxima of
strings cut: every reader knows it of both kinds of statistics.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltaic.delta.actions import Metadata
from deltaic.pruning.columns import Columns, TableColumn
from deltaic.pruning.statistics_facts import LOWER, NULLS, ROWS, UPPER, JsonStatistics
from deltaic.pruning.stats_bounds import exactly, integers

_BY_DEFAULT: Final = 32
"""Leaves of which Delta's writers keep statistics."""
_MOST: Final = 100
"""Leaves that get types at most: a sidecar's rows are in memory with all of them."""
_ROWS: Final = 10_000


def indexed(metadata: Metadata) -> tuple[TableColumn, ...]:
    """Return the columns of which a table's writers keep statistics, by its properties."""
    leaves = [(name, column) for name, column in Columns(metadata).leaves() if not column.is_partition]
    named = metadata.configuration.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = [name.strip().replace("`", "").lower() for name in named.split(",")]
        texts = [(".".join(name).lower(), column) for name, column in leaves]
        return tuple(
            column for text, column in texts if any(text == one or text.startswith(f"{one}.") for one in wanted)
        )[:_MOST]
    try:
        count = int(metadata.configuration.get("delta.dataSkippingNumIndexedCols", _BY_DEFAULT))
    except ValueError:
        count = _BY_DEFAULT
    return tuple(column for _, column in leaves[: _MOST if count < 0 else min(count, _MOST)])


class _OfAllColumns(msgspec.Struct, gc=False, rename="camel"):
    tight_bounds: bool | None = None


_of_all_columns: Final = msgspec.json.Decoder(_OfAllColumns)


class TypedStatistics:
    """Reads from statistics in JSON what concerns some columns."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._json = JsonStatistics(columns)

    def of(self, texts: pa.StringArray) -> pa.StructArray:
        """Return `stats_parsed`, one value a text: null where that is null or cannot be read."""
        starts = range(0, max(len(texts), 1), _ROWS)
        return pa.concat_arrays([self._some(texts.slice(start, _ROWS)) for start in starts])

    def _some(self, texts: pa.StringArray) -> pa.StructArray:
        whole = [_read(text) for text in texts.to_pylist()]
        counts, named = self._json.values(texts)
        rows = integers(counts)
        values: dict[str, dict[tuple[str, ...], pa.Array]] = {LOWER: {}, UPPER: {}, NULLS: {}}
        for column, said in named.items():
            nulls = integers(said.nulls)
            for part, bounds in ((LOWER, said.low), (UPPER, said.high)):
                exact = exactly(bounds, column.type)
                if exact is not None:
                    values[part][column.path] = exact
                nulls = _doubted(nulls, rows, bounds, exact)
            values[NULLS][column.path] = nulls
        fields = {ROWS: rows}
        fields |= {part: _nested(exact) for part, exact in values.items() if exact}
        fields["tightBounds"] = pa.array([None if one is None else one.tight_bounds for one in whole], pa.bool_())
        return _structs(fields, pa.array([one is None for one in whole], pa.bool_()))


def _read(text: str | None) -> _OfAllColumns | None:
    try:
        return None if text is None else _of_all_columns.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _doubted(nulls: pa.Array, rows: pa.Array, given: Sequence[object], kept: pa.Array | None) -> pa.Array:
    """Leave out null counts that say that all is null, where a bound says otherwise that types cannot say."""
    missing = pa.array([bound is not None for bound in given], pa.bool_())
    if kept is not None:
        missing = pc.and_(missing, kept.is_null())
    if not missing.true_count:
        return nulls
    contradicts = pc.and_(missing, pc.fill_null(pc.equal(nulls, rows), True))  # noqa: FBT003 -- Arrow's signature
    return pc.if_else(contradicts, pa.scalar(None, pa.int64()), nulls)


def _nested(leaves: Mapping[tuple[str, ...], pa.Array]) -> pa.StructArray:
    groups: dict[str, dict[tuple[str, ...], pa.Array]] = {}
    for path, leaf in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = leaf
    fields = {name: inner[()] if () in inner else _nested(inner) for name, inner in groups.items()}
    return _structs(fields, None)


def _structs(fields: Mapping[str, pa.Array], absent: pa.BooleanArray | None) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=absent)
