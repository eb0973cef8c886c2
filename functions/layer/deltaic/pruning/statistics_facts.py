"""Facts that a file's statistics tell of its columns, typed (`stats_parsed`) or as JSON.

Delta protocol, "Per-file Statistics". A column without a minimum has no lower bound, one whose maximum may have been
cut has a wider upper bound, and statistics that cannot be read say nothing. Wide bounds (`tightBounds` false) hold as
they are, and their null counts are used only where they are zero or all.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.column_tests import Facts, Verdict
from deltaic.pruning.columns import TableColumn
from deltaic.pruning.stats_bounds import from_json, from_typed, integers, json_type
from deltaic.pruning.values import Axis

LOWER: Final = "minValues"
UPPER: Final = "maxValues"
NULLS: Final = "nullCount"
ROWS: Final = "numRecords"


def named_leaves(schema: pa.DataType, columns: Sequence[TableColumn]) -> list[str]:
    """Name the leaves of `stats_parsed` that tell something about the columns; none when there is none."""
    named = [(part, column.path) for column in columns for part in (LOWER, UPPER, NULLS)]
    found = [".".join((part, *path)) for part, path in named if _has(schema, (part, *path))]
    if not found:
        return []
    return [*found, ROWS] if _has(schema, (ROWS,)) else found


def _has(schema: pa.DataType, path: tuple[str, ...]) -> bool:
    for name in path:
        if not pa.types.is_struct(schema) or schema.get_field_index(name) < 0:
            return False
        schema = schema.field(name).type
    return not pa.types.is_nested(schema)


def from_structs(structs: pa.StructArray, columns: Sequence[TableColumn]) -> dict[TableColumn, Facts]:
    """Return what typed statistics say, a value a file."""

    def leaf(part: str, *path: str) -> pa.Array | None:
        return pc.struct_field(structs, [part, *path]) if _has(structs.type, (part, *path)) else None

    facts = {}
    for column in columns:
        low, high = leaf(LOWER, *column.path), leaf(UPPER, *column.path)
        low = None if low is None else from_typed(low, column.type, upper=False)
        high = None if high is None else from_typed(high, column.type, upper=True)
        facts[column] = _facts(column, low, high, _whole(leaf(NULLS, *column.path)), _whole(leaf(ROWS)))
    return facts


def are_whole(structs: pa.StructArray, columns: Sequence[TableColumn]) -> bool:
    """Tell whether typed statistics leave nothing open of any file: statistics as JSON say no more of it then."""
    if not _has(structs.type, (ROWS,)):
        return False
    leaves = [pc.struct_field(structs, [ROWS])]
    for column in columns:
        for part in (LOWER, UPPER, NULLS):
            if not _has(structs.type, (part, *column.path)):
                return False
            leaf = pc.struct_field(structs, [part, *column.path])
            bound = leaf if part == NULLS else from_typed(leaf, column.type, upper=part == UPPER)
            if bound is None:
                return False
            leaves.append(bound)
    return all(leaf.null_count == 0 for leaf in leaves)


def _whole(array: pa.Array | None) -> pa.Array | None:
    return pc.cast(array, pa.int64()) if array is not None and pa.types.is_integer(array.type) else None


def _facts(
    column: TableColumn,
    low: pa.Array | None,
    high: pa.Array | None,
    nulls: pa.Array | None,
    rows: pa.Array | None,
) -> Facts:
    may_be_null: Verdict = True
    is_null: Verdict = False
    if nulls is not None:
        may_be_null = pc.coalesce(pc.not_equal(nulls, 0), True)
        if rows is not None:
            is_null = pc.coalesce(pc.equal(nulls, rows), False)
            for bound in (low, high):
                is_null = is_null if bound is None else pc.and_(is_null, pc.is_null(bound))
    return Facts(low, high, may_be_null, is_null, column.type.axis is Axis.DOUBLE)


class JsonValues(NamedTuple):
    """What texts name of one column, as JSON has it; None for what they leave out."""

    low: list[Any]
    high: list[Any]
    nulls: list[int | None]


def _from_values(column: TableColumn, values: JsonValues, rows: pa.Array) -> Facts:
    low, high = from_json(values.low, column.type, upper=False), from_json(values.high, column.type, upper=True)
    return _facts(column, low, high, integers(values.nulls), rows)


_NOT_IN_STRUCTS: Final = re.compile(r'["\\\x00-\x1f]')
"""What msgspec takes in no field's name."""


class JsonStatistics:
    """Reads from statistics in JSON what concerns some columns, and skips over the rest.

    Of a column with a quotation mark, a backslash or a control character in its name they say nothing.
    """

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = columns
        self._read_columns = [column for column in columns if not any(map(_NOT_IN_STRUCTS.search, column.path))]
        self._getters: dict[TableColumn, str] = {}
        bounds = self._struct([(column.path, json_type(column.type)) for column in self._read_columns])
        counts = self._struct([(column.path, int) for column in self._read_columns])
        fields = [("rows", int | None, None)]
        fields += [
            (name, type_, msgspec.field(default_factory=type_))
            for name, type_ in (("lower", bounds), ("upper", bounds), ("nulls", counts))
        ]
        whole = msgspec.defstruct(
            "Statistics",
            fields,
            gc=False,
            rename={"rows": ROWS, "lower": LOWER, "upper": UPPER, "nulls": NULLS},
        )
        self._nothing = whole()
        self._decode = msgspec.json.Decoder(whole).decode

    def _struct(self, paths: list[tuple[tuple[str, ...], Any]]) -> Any:
        """Build the type of `minValues` and its like for the columns, nested as they are."""
        groups: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
        for path, type_ in paths:
            groups.setdefault(path[0], []).append((path[1:], type_))
        fields: list[Any] = []
        rename = {}
        for position, (name, inner) in enumerate(groups.items()):
            field = f"f{position}"
            rename[field] = name
            if inner[0][0]:
                nested = self._struct(inner)
                fields.append((field, nested, msgspec.field(default_factory=nested)))
            else:
                fields.append((field, inner[0][1] | None, None))
        return msgspec.defstruct("Values", fields, gc=False, rename=rename)

    def facts(self, texts: pa.StringArray) -> dict[TableColumn, Facts]:
        """Return what the statistics say, a value a file; a text that is null or unreadable says nothing."""
        counts, values = self.values(texts)
        rows = integers(counts)
        return {column: _from_values(column, values[column], rows) for column in self._columns}

    def values(self, texts: pa.StringArray) -> tuple[list[int | None], dict[TableColumn, JsonValues]]:
        """Return how many records the texts name, and what they name of each column."""
        slices = _slices(texts)
        read = self._read(slices)
        rows = [statistics.rows for statistics in read]
        values = {column: self._values(column, read) for column in self._columns}
        unread = [at for at, statistics in enumerate(read) if statistics is self._nothing and slices[at]]
        if unread and len(self._columns) > 1:
            # What one column has of another kind takes nothing from the others.
            for column in self._columns:
                alone = JsonStatistics((column,))
                again = alone._read([slices[at] for at in unread])
                for at, statistics, *again_values in zip(unread, again, *alone._values(column, again), strict=True):
                    for bounds, value in zip(values[column], again_values, strict=True):
                        bounds[at] = value
                    rows[at] = statistics.rows if rows[at] is None else rows[at]
        return rows, values

    def _values(self, column: TableColumn, read: Sequence[Any]) -> JsonValues:
        if column not in self._read_columns:
            return JsonValues([None] * len(read), [None] * len(read), [None] * len(read))
        path = self._path(column)
        low, high, nulls = (list(map(attrgetter(f"{part}.{path}"), read)) for part in ("lower", "upper", "nulls"))
        return JsonValues(low, high, nulls)

    def _read(self, slices: list[memoryview]) -> list[Any]:
        try:
            return list(map(self._decode, slices))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return [self._read_one(text) for text in slices]

    def _read_one(self, text: memoryview) -> Any:
        try:
            return self._decode(text) if text else self._nothing
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._nothing

    def _path(self, column: TableColumn) -> str:
        if column not in self._getters:
            parts, columns = [], [other.path for other in self._read_columns]
            for depth, name in enumerate(column.path):
                siblings = dict.fromkeys(path[depth] for path in columns if path[:depth] == column.path[:depth])
                parts.append(f"f{list(siblings).index(name)}")
            self._getters[column] = ".".join(parts)
        return self._getters[column]


def _slices(texts: pa.StringArray) -> list[memoryview]:
    """Return each text's bytes where they lie, none for null: a fraction of what Python strings would take."""
    texts = pc.coalesce(pc.cast(texts, pa.string()), "")
    _, offsets, data = texts.buffers()
    if data is None or offsets is None:
        return [memoryview(b"")] * len(texts)
    ends = memoryview(offsets).cast("i")[texts.offset : texts.offset + len(texts) + 1].tolist()
    whole = memoryview(data)
    return [whole[start:end] for start, end in pairwise(ends)]
