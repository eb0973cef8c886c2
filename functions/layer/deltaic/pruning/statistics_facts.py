"""Derive facts about columns (bounds, nulls) from files' statistics, typed (`stats_parsed`) or JSON (`stats`).

Delta protocol, "Per-file Statistics". Without a minimum there is no lower bound, a possibly truncated maximum gives a
wider upper bound, and invalid statistics give no facts. Wide bounds (`tightBounds` false) are valid, but their null
counts are used only if they are zero or equal to the number of rows.
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


def find_leaves(schema: pa.DataType, columns: Sequence[TableColumn]) -> list[str]:
    """Return the leaf columns of `stats_parsed` with statistics of these columns; empty if there are none."""
    candidates = [(part, column.path) for column in columns for part in (LOWER, UPPER, NULLS)]
    leaves = [".".join((part, *path)) for part, path in candidates if has_leaf(schema, (part, *path))]
    return [*leaves, ROWS] if leaves and has_leaf(schema, (ROWS,)) else leaves


def has_leaf(schema: pa.DataType, path: Sequence[str]) -> bool:
    """Return whether a struct has a field with this path whose type is not nested."""
    for name in path:
        if not pa.types.is_struct(schema) or schema.get_field_index(name) < 0:
            return False
        schema = schema.field(name).type
    return not pa.types.is_nested(schema)


def from_structs(structs: pa.StructArray, columns: Sequence[TableColumn]) -> dict[TableColumn, Facts]:
    """Return the facts about each column from typed statistics, one value per file."""

    def leaf(part: str, *path: str) -> pa.Array | None:
        return pc.struct_field(structs, [part, *path]) if has_leaf(structs.type, (part, *path)) else None

    facts = {}
    for column in columns:
        low, high = leaf(LOWER, *column.path), leaf(UPPER, *column.path)
        low = None if low is None else from_typed(low, column.type, upper=False)
        high = None if high is None else from_typed(high, column.type, upper=True)
        facts[column] = _make_facts(column, low, high, _to_int64(leaf(NULLS, *column.path)), _to_int64(leaf(ROWS)))
    return facts


def are_complete(structs: pa.StructArray, columns: Sequence[TableColumn]) -> bool:
    """Return whether typed statistics are complete for all files, so that JSON statistics add nothing."""
    if not has_leaf(structs.type, (ROWS,)):
        return False
    leaves = [pc.struct_field(structs, [ROWS])]
    for column in columns:
        for part in (LOWER, UPPER, NULLS):
            if not has_leaf(structs.type, (part, *column.path)):
                return False
            leaf = pc.struct_field(structs, [part, *column.path])
            bound = leaf if part == NULLS else from_typed(leaf, column.type, upper=part == UPPER)
            if bound is None:
                return False
            leaves.append(bound)
    return all(leaf.null_count == 0 for leaf in leaves)


def _to_int64(array: pa.Array | None) -> pa.Array | None:
    return pc.cast(array, pa.int64()) if array is not None and pa.types.is_integer(array.type) else None


def _make_facts(
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
    """Values of one column in the JSON statistics of each file; None if missing."""

    low: list[Any]
    high: list[Any]
    nulls: list[int | None]


def _from_values(column: TableColumn, values: JsonValues, rows: pa.Array) -> Facts:
    low, high = from_json(values.low, column.type, upper=False), from_json(values.high, column.type, upper=True)
    return _make_facts(column, low, high, integers(values.nulls), rows)


_NOT_IN_STRUCTS: Final = re.compile(r'["\\\x00-\x1f]')
"""Characters that msgspec does not allow in field names."""


class JsonStatistics:
    """Decoder of JSON statistics that reads some columns and skips all others.

    There are no facts for columns with a quotation mark, a backslash or a control character in their names.
    """

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = columns
        self._read_columns = [column for column in columns if not any(map(_NOT_IN_STRUCTS.search, column.path))]
        self._attribute_paths: dict[TableColumn, str] = {}
        bounds = self._struct([(column.path, json_type(column.type)) for column in self._read_columns])
        counts = self._struct([(column.path, int) for column in self._read_columns])
        fields = [("rows", int | None, None)]
        fields += [
            (name, type_, msgspec.field(default_factory=type_))
            for name, type_ in (("lower", bounds), ("upper", bounds), ("nulls", counts))
        ]
        statistics_type = msgspec.defstruct(
            "Statistics",
            fields,
            gc=False,
            rename={"rows": ROWS, "lower": LOWER, "upper": UPPER, "nulls": NULLS},
        )
        self._nothing = statistics_type()
        self._decode = msgspec.json.Decoder(statistics_type).decode

    def _struct(self, paths: list[tuple[tuple[str, ...], Any]]) -> Any:
        """Create the msgspec type of `minValues` and similar objects, nested like the columns."""
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
        """Return the facts about each column from JSON statistics, one value per file; invalid JSON gives none."""
        counts, values = self.values(texts)
        rows = integers(counts)
        return {column: _from_values(column, values[column], rows) for column in self._columns}

    def values(self, texts: pa.StringArray) -> tuple[list[int | None], dict[TableColumn, JsonValues]]:
        """Return each file's number of rows and each column's values, from JSON statistics."""
        slices = _slices(texts)
        decoded = self._decode_all(slices)
        rows = [statistics.rows for statistics in decoded]
        values = {column: self._values(column, decoded) for column in self._columns}
        failed = [at for at, statistics in enumerate(decoded) if statistics is self._nothing and slices[at]]
        if failed and len(self._columns) > 1:
            # A value of the wrong kind in one column must not hide the statistics of the others.
            for column in self._columns:
                reader = JsonStatistics((column,))
                retried = reader._decode_all([slices[at] for at in failed])
                retried_values = reader._values(column, retried)
                for at, statistics, *file_values in zip(failed, retried, *retried_values, strict=True):
                    for bounds, value in zip(values[column], file_values, strict=True):
                        bounds[at] = value
                    rows[at] = statistics.rows if rows[at] is None else rows[at]
        return rows, values

    def _values(self, column: TableColumn, decoded: Sequence[Any]) -> JsonValues:
        if column not in self._read_columns:
            return JsonValues([None] * len(decoded), [None] * len(decoded), [None] * len(decoded))
        path = self._path(column)
        low, high, nulls = (list(map(attrgetter(f"{part}.{path}"), decoded)) for part in ("lower", "upper", "nulls"))
        return JsonValues(low, high, nulls)

    def _decode_all(self, slices: list[memoryview]) -> list[Any]:
        try:
            return list(map(self._decode, slices))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return [self._decode_one(text) for text in slices]

    def _decode_one(self, text: memoryview) -> Any:
        try:
            return self._decode(text) if text else self._nothing
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._nothing

    def _path(self, column: TableColumn) -> str:
        if column not in self._attribute_paths:
            parts, columns = [], [column.path for column in self._read_columns]
            for depth, name in enumerate(column.path):
                siblings = dict.fromkeys(path[depth] for path in columns if path[:depth] == column.path[:depth])
                parts.append(f"f{list(siblings).index(name)}")
            self._attribute_paths[column] = ".".join(parts)
        return self._attribute_paths[column]


def _slices(texts: pa.StringArray) -> list[memoryview]:
    """Return a view of the bytes of each string, empty for null, without creating Python strings."""
    texts = pc.coalesce(pc.cast(texts, pa.string()), "")
    _, offsets, data = texts.buffers()
    if data is None or offsets is None:
        return [memoryview(b"")] * len(texts)
    ends = memoryview(offsets).cast("i")[texts.offset : texts.offset + len(texts) + 1].tolist()
    content = memoryview(data)
    return [content[start:end] for start, end in pairwise(ends)]
